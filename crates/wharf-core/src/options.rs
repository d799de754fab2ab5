//! Options of devices and queueing disciplines: `key=value[,key=value]...`.
//!
//! One table of [`Key`]s drives parsing, error messages and help. [`Options`] holds values that have been checked against it.

use crate::dscp::DscpBands;
use crate::units::{self, UnitError};
use std::ops::RangeInclusive;
use std::time::Duration;

/// One option: a row of the table that a device or a discipline has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name, before the `=`.
    pub name: &'static str,
    /// Values that it takes.
    #[doc(hidden)]
    pub values: Values,
    /// Default, as a user would write it; `none` or the like where leaving the key out has a meaning of its own.
    pub default: &'static str,
    /// Meaning: one sentence without a full stop.
    pub meaning: &'static str,
    /// When to change it: one sentence without a full stop; empty if the meaning says it.
    pub when: &'static str,
}

/// The values that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// One of these words; the first is the default.
    OneOf(&'static [&'static str]),
    /// A number or a size such as `64k`, from `least` to `most`.
    Number {
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
        /// Both bounds and the unit, for messages: `256k to 1g bytes`.
        range: &'static str,
    },
    /// A bit rate such as `10gbit`, in bits per second.
    BitRate,
    /// A time such as `5ms`.
    Time {
        /// Longest time.
        most: Duration,
    },
    /// A text that its owner reads.
    Text,
    /// A text that its owner reads, of one of these forms: `auto, N, N-M`.
    Forms(&'static str),
    /// Bands of single DSCPs, such as `46=0/cs1=2`, from 0 to below this number.
    DscpBands(u8),
}

impl Key {
    /// Makes a key that takes one of `words`, the first by default.
    pub const fn word(name: &'static str, words: &'static [&'static str], meaning: &'static str) -> Self {
        Self { name, values: Values::OneOf(words), default: words[0], meaning, when: "" }
    }

    /// Makes a key that takes `off` or `on`, `off` by default.
    pub const fn off_on(name: &'static str, meaning: &'static str) -> Self {
        Self::word(name, &["off", "on"], meaning)
    }

    /// Makes a key that takes `on` or `off`, `on` by default.
    pub const fn on_off(name: &'static str, meaning: &'static str) -> Self {
        Self::word(name, &["on", "off"], meaning)
    }

    /// Makes a key that takes a number within `bounds`, which messages call `range`.
    pub const fn number(
        name: &'static str, bounds: RangeInclusive<u64>, range: &'static str, default: &'static str,
        meaning: &'static str,
    ) -> Self {
        let values = Values::Number { least: *bounds.start(), most: *bounds.end(), range };
        Self { name, values, default, meaning, when: "" }
    }

    /// Makes a key that takes a time up to `most`.
    pub const fn time(
        name: &'static str, most: Duration, default: &'static str, meaning: &'static str,
    ) -> Self {
        Self { name, values: Values::Time { most }, default, meaning, when: "" }
    }

    /// Makes a key that takes a text of one of `forms`, which its owner reads.
    pub const fn forms(
        name: &'static str, forms: &'static str, default: &'static str, meaning: &'static str,
    ) -> Self {
        Self { name, values: Values::Forms(forms), default, meaning, when: "" }
    }

    /// Makes a key that takes any text, which its owner reads.
    #[doc(hidden)]
    pub const fn text(name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        Self { name, values: Values::Text, default, meaning, when: "" }
    }

    /// Adds when to change it: one sentence without a full stop.
    #[must_use]
    pub const fn when(mut self, when: &'static str) -> Self {
        self.when = when;
        self
    }

    /// Returns the values that it takes, for help: `off|on`, `1 to 65536 frames`.
    pub fn allowed(&self) -> String {
        match self.values {
            Values::OneOf(words) => words.join("|"),
            Values::Number { range, .. } => range.into(),
            Values::BitRate => "a bit rate such as 10gbit".into(),
            Values::Time { most } => format!("a time up to {most:?}"),
            Values::Text => "text".into(),
            Values::Forms(forms) => forms.into(),
            Values::DscpBands(_) => "DSCP=BAND/...".into(),
        }
    }

    fn read(&self, text: &str) -> Result<Value, String> {
        let unit = |error: UnitError| format!("{}: {error}", self.name);
        match self.values {
            Values::OneOf(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Word(word)),
                None => Err(self.none_of(text, words)),
            },
            Values::Number { least, most, range } => match units::size_bytes(text).map_err(unit)? {
                number if (least..=most).contains(&number) => Ok(Value::Number(number)),
                number => Err(format!("{}: {number} cannot be: {range}", self.name)),
            },
            Values::BitRate => units::bits_per_second(text).map(Value::Number).map_err(unit),
            Values::Time { most } => match units::duration(text).map_err(unit)? {
                time if time <= most => Ok(Value::Time(time)),
                time => Err(format!("{}: {time:?} is beyond {most:?}", self.name)),
            },
            Values::Text | Values::Forms(_) => Ok(Value::Text),
            Values::DscpBands(bands) => DscpBands::read(text, bands)
                .map(Value::DscpBands)
                .map_err(|what| format!("{}: {what}", self.name)),
        }
    }

    fn none_of(&self, text: &str, words: &[&str]) -> String {
        let meant = did_you_mean(text, words.iter().copied());
        format!("{}: \"{}\" is none of {}{meant}", self.name, text.escape_debug(), words.join(", "))
    }
}

/// An option that cannot be: one line with those that can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {what}")]
pub struct OptionError {
    /// The device or discipline, as its specification begins.
    pub subject: String,
    /// Fault, and the allowed values.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Word(&'static str),
    Number(u64),
    Time(Duration),
    Text,
    DscpBands(DscpBands),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    key: &'static Key,
    text: String,
    value: Value,
}

/// Options as given, checked against a table of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    subject: String,
    keys: Vec<&'static Key>,
    given: Vec<Given>,
}

impl Options {
    /// Reads `parts`, each a `key=value` of one of `tables`, every key at most once. `subject` names the device or discipline in
    /// messages.
    ///
    /// # Errors
    /// [`OptionError`] for an unknown key, one given twice, or a value that its key does not take.
    #[doc(hidden)]
    pub fn parse<'a>(
        subject: &str, parts: impl IntoIterator<Item = &'a str>, tables: &[&'static [Key]],
    ) -> Result<Self, OptionError> {
        let keys = tables.iter().copied().flatten().collect();
        let mut options = Self { subject: subject.into(), keys, given: Vec::new() };
        for part in parts {
            options.add(part).map_err(|what| options.fault(what))?;
        }
        Ok(options)
    }

    pub(crate) fn add(&mut self, part: &str) -> Result<(), String> {
        let allowed = || allowed(&self.keys);
        let Some((name, text)) = part.split_once('=') else {
            return Err(format!("\"{}\" is no key=value; {}", part.escape_debug(), allowed()));
        };
        let Some(&key) = self.keys.iter().find(|key| key.name == name) else {
            let meant = did_you_mean(name, self.keys.iter().map(|key| key.name));
            return Err(format!("unknown key \"{}\"; {}{meant}", name.escape_debug(), allowed()));
        };
        if self.text(name).is_some() {
            return Err(format!("{name} is given twice"));
        }
        self.given.push(Given { key, value: key.read(text)?, text: text.into() });
        Ok(())
    }

    /// Returns the keys that were given.
    pub fn given(&self) -> impl Iterator<Item = &'static Key> + '_ {
        self.given.iter().map(|given| given.key)
    }

    fn find(&self, key: &str) -> Option<&Given> {
        debug_assert!(self.keys.iter().any(|known| known.name == key), "{key}: not in the table");
        self.given.iter().find(|given| given.key.name == key)
    }

    /// Returns the value of `key` as it was written.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.find(key).map(|given| given.text.as_str())
    }

    /// Returns the word given for `key`.
    pub fn word(&self, key: &str) -> Option<&'static str> {
        match self.find(key)?.value {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// True if `key` is `on`, by its default where it was not given.
    pub fn is_on(&self, key: &str) -> bool {
        let default = || self.keys.iter().find(|known| known.name == key).map(|known| known.default);
        self.word(key).or_else(default) == Some("on")
    }

    /// Returns the number, size or rate given for `key`.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.find(key)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the time given for `key`.
    pub fn time(&self, key: &str) -> Option<Duration> {
        match self.find(key)?.value {
            Value::Time(time) => Some(time),
            _ => None,
        }
    }

    /// Returns the bands given for `key`.
    #[doc(hidden)]
    pub fn dscp_bands(&self, key: &str) -> Option<DscpBands> {
        match self.find(key)?.value {
            Value::DscpBands(bands) => Some(bands),
            _ => None,
        }
    }

    /// Makes the error that says `what` of its device or discipline.
    pub fn fault(&self, what: impl Into<String>) -> OptionError {
        OptionError { subject: self.subject.clone(), what: what.into() }
    }
}

/// Lists the names of `keys`, for messages.
pub fn allowed(keys: &[&Key]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    if names.is_empty() { "it takes none".into() } else { format!("its keys are {}", names.join(", ")) }
}

/// Returns the question at the end of an error, `; did you mean NAME?`, if one of `names` is near to `word`; else nothing.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let (given, most) = (word.to_lowercase(), word.chars().count() / 3);
    let far = |name: &str| match () {
        () if given.len() > 1 && name.starts_with(&given) => 0,
        () => strsim::damerau_levenshtein(&given, name),
    };
    let nearest = names.into_iter().map(|name| (far(name), name)).min().filter(|(far, _)| *far <= most);
    nearest.map_or(String::new(), |(_, name)| format!("; did you mean {name}?"))
}

/// Splits `text` at commas, except those after a backslash, which goes.
pub fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            ('\\', Some(part)) if chars.peek() == Some(&',') => part.extend(chars.next()),
            (',', _) => parts.push(String::new()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts
}
