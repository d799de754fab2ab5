//! `ConfigFile`: the options in a file, each checked by its own parser.

use crate::command_line::essence;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wharf_core::options::did_you_mean;

/// Options that only a command line has.
const TYPED_ONLY: [&str; 5] = ["config", "check", "color", "help", "version"];
/// Sections, with their keys and the options that these are. All of these options can be keys outside sections, too.
const SECTIONS: &[(&str, &[(&str, &str)])] = &[
    ("metrics", &[("listen", "metrics"), ("host", "metrics-host")]),
    ("control", &[("socket", "control")]),
    ("stats", &[("interval", "stats"), ("file", "stats-file")]),
    ("log", &[("format", "log"), ("quiet", "quiet"), ("verbose", "verbose")]),
    ("recovery", &[("on-gone", "on-gone"), ("on-stall", "on-stall"), ("give-up", "give-up")]),
    ("privileges", &[("user", "user"), ("capabilities", "capabilities"), ("seccomp", "seccomp")]),
];

/// Mistakes that are told; a file with more is not meant as a configuration.
const MISTAKES_MAX: usize = 50;

/// A key, with its place.
type Key<'a> = Spanned<Cow<'a, str>>;

/// One option in a file.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) id: String,
    /// Its long name, or its name.
    pub(super) long: String,
    pub(super) line: usize,
    /// The words that stand for it on a command line.
    pub(super) words: Vec<String>,
    /// The key and the value as errors show them.
    shown: String,
    /// True for an end, a word without an option's name.
    pub(super) is_end: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ConfigFile {
    /// In the order of the command line: the first end before the second.
    pub(super) settings: Vec<Setting>,
}

/// A file that is being read.
struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    settings: Vec<Setting>,
    /// Mistakes, with their lines.
    mistakes: Vec<(usize, String)>,
    /// Mistakes beyond those that are told.
    untold: usize,
}

/// True for an option that a file may have.
pub(super) fn is_key(arg: &Arg) -> bool {
    !TYPED_ONLY.contains(&arg.get_id().as_str())
}

/// Returns the name of an option in a file.
pub(super) fn name_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or(arg.get_id().as_str()).into()
}

impl ConfigFile {
    /// Reads `text`, the file at `path`, for `command`, which is built. The errors are all mistakes, one line each.
    pub(super) fn read(path: &str, text: &str, command: &mut Command) -> Result<Self, Vec<String>> {
        let mut reader = Reader { path, text, settings: Vec::new(), mistakes: Vec::new(), untold: 0 };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            reader.mistake(error.span().map_or(0, |span| span.start), || error.message().to_string());
        }
        for (key, value) in in_order(table.get_ref()) {
            match value.get_ref() {
                DeValue::Table(section) => reader.section(key, section, command),
                _ => reader.option(key.get_ref(), key.get_ref(), key.span().start, value, command),
            }
        }
        let place = |id: &str| ["a", "b"].iter().position(|end| *end == id);
        reader.settings.sort_by_key(|setting| (place(&setting.id).unwrap_or(2), setting.line));
        reader.check(command);
        reader.done()
    }
}

impl Reader<'_> {
    /// Returns the number of the line of a byte.
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
    }

    fn mistake(&mut self, at: usize, what: impl FnOnce() -> String) {
        match self.mistakes.len() {
            MISTAKES_MAX.. => self.untold += 1,
            _ => self.mistakes.push((self.line(at), what())),
        }
    }

    fn section(&mut self, name: &Key<'_>, table: &DeTable<'_>, command: &Command) {
        let Some((_, keys)) = SECTIONS.iter().find(|(section, _)| *section == name.get_ref()) else {
            let there: Vec<&str> = SECTIONS.iter().map(|(section, _)| *section).collect();
            let what = || format!("[{}] is no section: there are {}", name.get_ref(), there.join(", "));
            return self.mistake(name.span().start, what);
        };
        for (key, value) in in_order(table) {
            let at = key.span().start;
            match keys.iter().find(|(own, _)| *own == key.get_ref()) {
                Some((_, option)) => self.option(key.get_ref(), option, at, value, command),
                None => {
                    let there: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
                    let (key, name) = (key.get_ref(), name.get_ref());
                    self.mistake(at, || {
                        format!("\"{key}\" is no key of [{name}]: want {}", there.join(", "))
                    });
                }
            }
        }
    }

    /// Takes one option, called `key` in its place.
    fn option(&mut self, key: &str, name: &str, at: usize, value: &Spanned<DeValue<'_>>, command: &Command) {
        let Some(arg) = options(command).find(|arg| is_called(arg, name)) else {
            return self.mistake(at, || {
                let mut there: Vec<String> = options(command).map(name_of).collect();
                there.sort_unstable();
                let meant = did_you_mean(key, there.iter().map(String::as_str));
                format!("\"{key}\" is no key: there are {}{meant}", there.join(", "))
            });
        };
        let (id, long) = (arg.get_id().to_string(), name_of(arg));
        if let Some(before) = self.settings.iter().find(|setting| setting.id == id) {
            let line = before.line;
            return self.mistake(at, || format!("{key}: line {line} says it already"));
        }
        match words(arg, &long, value.get_ref()) {
            Ok((shown, words)) => {
                let (line, shown) = (self.line(at), format!("{key} = {shown}"));
                self.settings.push(Setting { id, long, line, words, shown, is_end: arg.is_positional() });
            }
            Err(wanted) => self.mistake(at, || format!("{key}: want {wanted}")),
        }
    }

    /// Has each option's parser read its value.
    fn check(&mut self, command: &mut Command) {
        for setting in &self.settings {
            let mut line = vec!["wharf", "forward", "--config=x"];
            // The word of the second end is the second.
            line.extend(setting.is_end.then_some("--"));
            line.extend((setting.id == "b").then_some("null"));
            line.extend(setting.words.iter().map(String::as_str));
            let Err(error) = command.try_get_matches_from_mut(line) else { continue };
            // Options that want or exclude each other are read together, later.
            if !matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict) {
                let said = essence(&error.render().to_string());
                self.mistakes.push((setting.line, format!("{}: {}", setting.shown, wanted(&said))));
            }
        }
    }

    fn done(mut self) -> Result<ConfigFile, Vec<String>> {
        self.mistakes.sort();
        let path = self.path;
        let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = self.mistakes.into_iter().map(|(line, what)| one_line(format!("{path}:{line}: {what}")));
        let more = (self.untold > 0).then(|| format!("{path}: {} more mistakes", self.untold));
        let lines: Vec<String> = lines.chain(more).collect();
        if lines.is_empty() { Ok(ConfigFile { settings: self.settings }) } else { Err(lines) }
    }
}

/// Returns the entries of a table as they stand in the file.
fn in_order<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t Key<'a>, &'t Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Returns the options that a file may have.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let forward = command.find_subcommand("forward");
    forward.into_iter().flat_map(Command::get_arguments).filter(|arg| is_key(arg))
}

fn is_called(arg: &Arg, name: &str) -> bool {
    name_of(arg) == name || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// Returns a value as it is shown, and the words of the option with it. The error is the type that is wanted.
fn words(arg: &Arg, long: &str, value: &DeValue<'_>) -> Result<(String, Vec<String>), &'static str> {
    let flag = format!("--{long}");
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(is_on)) => {
            Ok((is_on.to_string(), is_on.then_some(flag).into_iter().collect()))
        }
        (ArgAction::SetTrue, _) => Err("true or false"),
        (ArgAction::Count, value) => {
            let times =
                scalar(value).and_then(|text| text.parse().ok()).filter(|times| (0..=2).contains(times));
            let times: usize = times.ok_or("0, 1 or 2")?;
            Ok((times.to_string(), vec![flag; times]))
        }
        (ArgAction::Append, DeValue::Array(items)) if arg.get_value_delimiter().is_none() => {
            let items = items.iter().map(|item| scalar(item.get_ref())).collect::<Option<Vec<String>>>();
            let items = items.ok_or("a list of strings")?;
            let word =
                |item: &String| if arg.is_positional() { item.clone() } else { format!("{flag}={item}") };
            Ok((format!("{items:?}"), items.iter().map(word).collect()))
        }
        (_, value) => {
            let (shown, text) = match value {
                DeValue::Array(items) if arg.get_value_delimiter().is_some() => {
                    let items: Option<Vec<String>> =
                        items.iter().map(|item| scalar(item.get_ref())).collect();
                    let text = items.ok_or("a list of numbers")?.join(",");
                    (format!("[{text}]"), text)
                }
                DeValue::String(text) => (format!("{text:?}"), text.to_string()),
                value => scalar(value).map(|text| (text.clone(), text)).ok_or("a string or a number")?,
            };
            Ok((shown, vec![if arg.is_positional() { text } else { format!("{flag}={text}") }]))
        }
    }
}

/// Returns a string or a number as text.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().into()),
        _ => None,
    }
}

/// Returns the end of clap's error about a value: the allowed ones.
fn wanted(essence: &str) -> &str {
    let after = essence.strip_prefix("invalid value '").and_then(|rest| rest.split_once("' for '"));
    match after.and_then(|(_, rest)| rest.split_once('\'')) {
        Some((_, rest)) => rest.trim_start_matches([':', ' ']),
        None => essence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registries;

    fn read(text: &str) -> Result<Vec<String>, Vec<String>> {
        let mut command = crate::args::command(&Registries::default());
        command.build();
        let file = ConfigFile::read("f.toml", text, &mut command)?;
        Ok(file.settings.into_iter().flat_map(|setting| setting.words).collect())
    }

    #[test]
    fn keys_and_sections_are_options_of_the_command_line() {
        let text = "b = 'packet:b'\nrate = '20mbit'\nburst = '64k'\nqueues = 0x2\ncpu = [0, 1]\njson = true\na = 'packet:a'\n\
                    seconds = 0.5\n[log]\nformat = 'json'\nverbose = 2\n[stats]\ninterval = 1\n";
        let words = read(text).unwrap();
        let want = [
            "packet:a",
            "packet:b",
            "--rate=20mbit",
            "--bucket=64k",
            "--queues=2",
            "--cpu=0,1",
            "--json",
            "--seconds=0.5",
            "--log=json",
            "--verbose",
            "--verbose",
            "--stats=1",
        ];
        assert_eq!(words, want);
        assert_eq!(read("json = false\n"), Ok(vec![]));
    }

    #[test]
    fn every_mistake_is_a_line_with_its_number() {
        let text = "a = 'near'\nrte = '20mbit'\nrate = 'fast'\nqueues = 0\njson = 1\npoll = 'never'\nb = 1979-05-27\n\
                    [log]\nformat = 'xml'\nlevel = 3\n[loog]\n";
        let errors = read(text).unwrap_err();
        let want = [
            "f.toml:1: a = \"near\": \"near\"",
            "f.toml:2: \"rte\" is no key: there are a, b, batch, bql, bucket,",
            "f.toml:3: rate = \"fast\": want a rate from 8kbit to 1tbit",
            "f.toml:4: queues = 0: want a number from 1 to 64",
            "f.toml:5: json: want true or false",
            "f.toml:6: poll = \"never\": [possible values:",
            "f.toml:7: b: want a string or a number",
            "f.toml:9: format = \"xml\": [possible values: text, json]",
            "f.toml:10: \"level\" is no key of [log]: want format, quiet, verbose",
            "f.toml:11: [loog] is no section: there are metrics, control,",
        ];
        assert_eq!(errors.len(), want.len(), "{errors:#?}");
        for (error, want) in errors.iter().zip(want) {
            assert!(error.starts_with(want) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn the_first_mistakes_are_told_and_the_others_counted() {
        let text: String = (0..20_000).map(|key| format!("key{key} = 1\n")).collect();
        let errors = read(&text).unwrap_err();
        assert_eq!(errors.len(), MISTAKES_MAX + 1);
        assert_eq!(errors[MISTAKES_MAX], format!("f.toml: {} more mistakes", 20_000 - MISTAKES_MAX));
    }

    #[test]
    fn text_that_is_no_toml_and_options_given_twice_are_mistakes() {
        let errors = read("a = 'null'\nrate = \n").unwrap_err();
        assert!(errors[0].starts_with("f.toml:2: "), "{errors:?}");
        let errors = read("stats-file = 'x'\n[stats]\nfile = 'y'\n").unwrap_err();
        assert_eq!(errors, ["f.toml:3: file: line 1 says it already"]);
    }
}
