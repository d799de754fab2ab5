//! A table of a file, read key by key. An error is one line: file, key, allowed values.

use super::{Figure, Mark};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// A fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}: {what}", printable(.file), printable(.key))]
pub struct FileError {
    /// The file.
    pub file: String,
    /// The key in it, or the line.
    pub key: String,
    /// The fault, and the allowed values.
    pub what: String,
}

/// Returns `text` on one line, without control characters.
fn printable(text: &str) -> String {
    let one = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(one).collect()
}

/// A table, and the keys of it that were read.
pub(super) struct Section<'a> {
    file: &'a str,
    path: String,
    table: &'a Table,
    known: RefCell<Vec<&'static str>>,
}

type Read<T> = Result<T, FileError>;

impl<'a> Section<'a> {
    /// Creates the section of a whole file.
    pub(super) fn root(file: &'a str, table: &'a Table) -> Self {
        Self { file, path: String::new(), table, known: RefCell::default() }
    }

    /// Returns an error about `key`.
    pub(super) fn fault(&self, key: &str, what: impl Into<String>) -> FileError {
        FileError { file: self.file.into(), key: self.full(key), what: what.into() }
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }

    fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(key);
        self.table.get(key)
    }

    fn wrong<T>(&self, key: &str, value: &Value, allowed: &str) -> Read<T> {
        let shown = match value {
            Value::Table(_) => "a table".to_string(),
            Value::Array(_) => "a list".to_string(),
            Value::String(text) => format!("\"{}\"", text.escape_debug()),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            Value::Datetime(time) => time.to_string(),
        };
        Err(self.fault(key, format!("{shown} cannot be: {allowed}")))
    }

    /// Reads the key's value with `read`.
    fn with<T>(
        &self, key: &'static str, allowed: &str, read: impl Fn(&'a Value) -> Option<T>,
    ) -> Read<Option<T>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => read(value).map_or_else(|| self.wrong(key, value, allowed), |read| Ok(Some(read))),
        }
    }

    pub(super) fn text(&self, key: &'static str) -> Read<Option<&'a str>> {
        self.with(key, "a text", Value::as_str)
    }

    /// Returns a text that is shown as it is.
    pub(super) fn line(&self, key: &'static str) -> Read<Option<&'a str>> {
        let plain = |text: &&str| !text.contains(char::is_control);
        self.with(key, "a text of one line, without control characters", |value| value.as_str().filter(plain))
    }

    pub(super) fn flag(&self, key: &'static str) -> Read<Option<bool>> {
        self.with(key, "true or false", Value::as_bool)
    }

    pub(super) fn texts(&self, key: &'static str) -> Read<Option<Vec<String>>> {
        let text = |value: &Value| value.as_str().map(str::to_string);
        self.with(key, "a list of texts", |value| value.as_array()?.iter().map(text).collect())
    }

    pub(super) fn number(&self, key: &'static str, allowed: &RangeInclusive<u64>) -> Read<Option<u64>> {
        self.with(key, &numbers(allowed), |value| whole(value, allowed))
    }

    /// Returns one of a few numbers.
    pub(super) fn one_of(&self, key: &'static str, allowed: &[u32]) -> Read<Option<u32>> {
        let listed: Vec<String> = allowed.iter().map(u32::to_string).collect();
        let find = |value: &Value| {
            let number = u32::try_from(value.as_integer()?).ok()?;
            allowed.contains(&number).then_some(number)
        };
        self.with(key, &format!("one of {}", listed.join(", ")), find)
    }

    /// Returns one of `names`.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, names: &[(&str, T)]) -> Read<Option<T>> {
        let listed: Vec<&str> = names.iter().map(|name| name.0).collect();
        let find =
            |value: &Value| names.iter().find(|name| Some(name.0) == value.as_str()).map(|name| name.1);
        self.with(key, &format!("one of {}", listed.join(", ")), find)
    }

    /// Returns a number with its origin: a table of value, mark and source, or a number alone.
    pub(super) fn figure(&self, key: &'static str, allowed: &RangeInclusive<u64>) -> Read<Option<Figure>> {
        if !matches!(self.table.get(key), Some(Value::Table(_))) {
            let given =
                |value| Figure { key: self.full(key), value, mark: Mark::Given, source: self.file.into() };
            return Ok(self.number(key, allowed)?.map(given));
        }
        let Some(section) = self.section(key)? else { return Ok(None) };
        let value = section.need("value", section.number("value", allowed)?)?;
        let (mark, source) = section.origin()?;
        section.finish()?;
        Ok(Some(Figure { key: self.full(key), value, mark, source }))
    }

    /// Returns the mark and source of a table.
    pub(super) fn origin(&self) -> Read<(Mark, String)> {
        let mark = self.choice("mark", &Mark::NAMES)?.unwrap_or(Mark::Given);
        Ok((mark, self.text("source")?.unwrap_or(self.file).into()))
    }

    /// Returns the table at `key`.
    pub(super) fn section(&self, key: &'static str) -> Read<Option<Section<'a>>> {
        let table = self.with(key, "a table", Value::as_table)?;
        Ok(table.map(|table| Section { table, path: self.full(key), ..Self::root(self.file, table) }))
    }

    /// Returns the table at `key`, unread.
    pub(super) fn table(&self, key: &'static str) -> Read<Option<&'a Table>> {
        self.with(key, "a table", Value::as_table)
    }

    /// Returns all tables in this one, under any names.
    pub(super) fn sections(&self) -> Read<Vec<(&'a str, Section<'a>)>> {
        let section = |(key, value): (&'a String, &'a Value)| match value {
            _ if key.contains(char::is_control) => {
                Err(self.fault(key, "cannot be: a name has no control characters"))
            }
            Value::Table(table) => {
                Ok((key.as_str(), Section { path: self.full(key), ..Self::root(self.file, table) }))
            }
            value => self.wrong(key, value, "a table"),
        };
        self.table.iter().map(section).collect()
    }

    /// Returns the value of a required key.
    pub(super) fn need<T>(&self, key: &str, value: Option<T>) -> Read<T> {
        value.ok_or_else(|| self.fault(key, "is missing"))
    }

    /// Checks that every key was read. The first one that was not is an error.
    pub(super) fn finish(&self) -> Read<()> {
        let known = self.known.borrow();
        match self.table.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(self.fault(key, format!("unknown key; there are {}", known.join(", ")))),
        }
    }

    /// Allows a key that is read elsewhere.
    pub(super) fn skip(&self, key: &'static str) {
        self.known.borrow_mut().push(key);
    }
}

/// Returns a number within bounds.
fn whole(value: &Value, allowed: &RangeInclusive<u64>) -> Option<u64> {
    u64::try_from(value.as_integer()?).ok().filter(|number| allowed.contains(number))
}

fn numbers(allowed: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", allowed.start(), allowed.end())
}
