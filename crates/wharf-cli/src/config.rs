//! The file of `wharf forward --config`: the options of the command line, as TOML.
//!
//! The definition of the command line is the definition of the file: a key is an option's long name, and the option's parser reads
//! the value. Options of the file become words of the command line, behind which those that were typed win. A run that is asked to
//! reload (SIGHUP) reads the same words with the file as it is then.

mod file;

use crate::Registries;
use crate::args::{self, Cli, Command, ForwardArgs};
use crate::command_line::essence;
use crate::signals::{Signals, Waits};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use file::{ConfigFile, Setting};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The command line of a run, from which its options can be read again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) registries: &'a Registries,
    pub(crate) words: &'a [OsString],
}

/// Time in which a running forwarder's configuration is to be read.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Longest configuration.
const BYTES_MAX: u64 = 1 << 20;

/// The source of options that a file has a part in.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    path: PathBuf,
    /// Long names of the options in the file, with their lines.
    lines: Vec<(String, usize)>,
    /// Values in force of all options, by their names in a file.
    values: BTreeMap<String, Vec<OsString>>,
}

/// Returns the file that a command line names, if it names one.
pub(crate) fn file_of(matches: &ArgMatches) -> Option<&PathBuf> {
    matches.subcommand_matches("forward")?.get_one("config")
}

/// Reads the text of a file that is no longer than a configuration may be.
fn read(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is longer than 1 MiB: it is no configuration"));
    }
    Ok(text)
}

/// Works like [`read`], for a run that goes on meanwhile: what a program writes, such as a fifo, is read at
/// the start only.
fn read_again(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file: it cannot be read again"));
    }
    read(file)
}

/// Reads the file at `path`, and `typed`, the command line that names it. The errors are one line each.
pub(crate) fn load(origin: Origin<'_>, typed: &ArgMatches, path: &Path) -> Result<Cli, Vec<String>> {
    merge(origin, typed, path, File::open(path).and_then(read).map_err(Into::into))
}

fn merge(
    origin: Origin<'_>, typed: &ArgMatches, path: &Path, text: anyhow::Result<String>,
) -> Result<Cli, Vec<String>> {
    let shown = path.display().to_string();
    let text = text.map_err(|error| vec![format!("--config {shown}: {error}")])?;
    let mut command = args::command(origin.registries);
    // Arguments that all commands share are in each only once it is built.
    command.build();
    let file = ConfigFile::read(&shown, &text, &mut command)?;
    let typed = typed.subcommand_matches("forward");
    let has = |end: &&str| is_typed(typed, end) || file.settings.iter().any(|setting| setting.id == *end);
    if let Some(end) = ["a", "b"].into_iter().find(|end| !has(end)) {
        let what =
            format!("{shown}: there is no end {end}: want {end} = \"DEVICE\", such as \"packet:eth0\"");
        return Err(vec![what]);
    }
    let words = merged(origin.words, typed, &file.settings);
    let lines = file.settings.iter().map(|setting| (setting.long.clone(), setting.line)).collect();
    let mut source = Source { path: path.into(), lines, values: BTreeMap::new() };
    let wrong = |error: clap::Error| vec![source.placed_unless(false, &essence(&error.render().to_string()))];
    let matches = command.try_get_matches_from_mut(words).map_err(wrong)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(wrong)?;
    source.values = values(&command, &matches);
    if let Command::Forward(args) = &mut cli.command {
        args.source = Some(source);
    }
    Ok(cli)
}

/// True if the option is on the command line.
fn is_typed(typed: Option<&ArgMatches>, id: &str) -> bool {
    typed.is_some_and(|typed| typed.value_source(id) == Some(ValueSource::CommandLine))
}

/// Puts the settings of a file among the words of a command line, without those that were typed.
fn merged(words: &[OsString], typed: Option<&ArgMatches>, settings: &[Setting]) -> Vec<OsString> {
    // These two exclude each other.
    let has_level = is_typed(typed, "quiet") || is_typed(typed, "verbose");
    let wins = |setting: &&Setting| match setting.id.as_str() {
        "quiet" | "verbose" => !has_level,
        id => !is_typed(typed, id),
    };
    let (ends, options): (Vec<&Setting>, Vec<&Setting>) =
        settings.iter().filter(wins).partition(|setting| setting.is_end);
    let at = words.iter().position(|word| word == "forward").map_or(words.len(), |at| at + 1);
    let mut merged: Vec<OsString> = words[..at].to_vec();
    merged.extend(options.iter().flat_map(|setting| &setting.words).map(OsString::from));
    merged.extend_from_slice(&words[at..]);
    merged.extend(ends.iter().flat_map(|setting| &setting.words).map(OsString::from));
    merged
}

/// Returns the values of all options of `forward`, by long name, or by name.
fn values(command: &clap::Command, matches: &ArgMatches) -> BTreeMap<String, Vec<OsString>> {
    let (Some(forward), Some(matches)) =
        (command.find_subcommand("forward"), matches.subcommand_matches("forward"))
    else {
        return BTreeMap::new();
    };
    let value = |arg: &clap::Arg| {
        let raw = matches.try_get_raw(arg.get_id().as_str()).ok().flatten();
        let value = raw.map_or_else(Vec::new, |raw| raw.map(OsString::from).collect());
        (file::name_of(arg), value)
    };
    forward.get_arguments().filter(|arg| file::is_key(arg)).map(value).collect()
}

impl Source {
    /// The file.
    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Puts the file, and the line of the option that `error` names, before the error. An error about typed options alone stays as it is.
    pub(crate) fn placed(&self, error: &str) -> String {
        self.placed_unless(error.contains("--"), error)
    }

    fn placed_unless(&self, is_typed: bool, error: &str) -> String {
        let line = |(long, line): &(String, usize)| {
            let at = error.match_indices(&format!("--{long}")).find(|(at, name)| {
                !error[at + name.len()..]
                    .starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric())
            });
            Some((at?.0, *line))
        };
        match self.lines.iter().filter_map(line).min() {
            Some((_, line)) => format!("{}:{line}: {error}", self.path()),
            None if is_typed => error.into(),
            None => format!("{}: {error}", self.path()),
        }
    }

    /// Returns the names of the options whose values are others than in `before`.
    pub(crate) fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a str> {
        let is_changed = move |name: &&String| self.values.get(*name) != before.values.get(*name);
        self.values.keys().filter(is_changed).map(String::as_str)
    }

    /// Returns the file, and the line of the option called `name`, if that is in the file.
    pub(crate) fn place_of(&self, name: &str) -> String {
        match self.lines.iter().find(|(long, _)| long == name) {
            Some((_, line)) => format!("{}:{line}", self.path()),
            None => self.path(),
        }
    }
}

impl Origin<'_> {
    /// Reads the options again, with the file as it is now. A file system that does not answer is given up,
    /// and at once after a signal.
    pub(crate) fn reload(self, signals: &Signals) -> Result<Box<ForwardArgs>, Vec<String>> {
        let read = args::command(self.registries).try_get_matches_from(self.words);
        let typed = read.map_err(|error| vec![essence(&error.render().to_string())])?;
        let path = file_of(&typed).ok_or_else(|| vec!["there is no --config to read again".to_string()])?;
        let (waits, read) =
            (Waits::new("waiting for its file system").at_most(Some(READ_WITHIN)), path.clone());
        let text = signals.unless_asked(&waits, move || read_again(&read));
        match merge(self, &typed, path, text.and_then(|text| text.map_err(Into::into)))?.command {
            Command::Forward(mut args) => {
                args.is_running = true;
                Ok(args)
            }
            _ => Err(vec!["there is no --config to read again".into()]),
        }
    }
}
