//! The command line of a program: what every command has, and how it is read, carried out and ended.
//!
//! `wharf` is such a program, and so are those beside it that are run by `wharf NAME` ([`crate::beside`]).

pub(crate) mod examples;
mod near;
mod output;
pub(crate) mod short;
mod spec;
mod version;

use crate::output::{
    complain, complain_at_length, note_file_limit, print_styled, set_color, styled, with_causes,
};
use crate::signals::EndedBySignal;
use crate::{Registries, Usage, signals, stream};
use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
pub(crate) use output::OutputArgs;
pub(crate) use short::TUNING;
use spec::Spec;
use std::any::TypeId;
use std::ffi::OsString;
use std::process::ExitCode;
use wharf::qdisc::QdiscSpec;
use wharf_devices::spec::{DeviceSpec, Direction};

/// The options that every command has, and a command out of `C`.
#[derive(Debug, Parser)]
#[command(
    name = "wharf",
    about = "A packet transmit path for Linux user space: send traffic, see what the path did with it, measure it",
    arg_required_else_help = true
)]
pub(crate) struct Line<C: Subcommand> {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: C,
}

/// Makes the definition of the command line of the commands `C`, with the kinds of `registries`.
pub fn definition<C: Subcommand>(registries: &Registries) -> clap::Command {
    let command = Line::<C>::command().version(version::short()).long_version(version::long(registries));
    examples::wrapped(with_registries(with_negative_values(command), registries))
}

/// Adds to help that was asked for: it gets the words behind the program's name.
pub type MoreHelp = fn(&[String]) -> Option<String>;

/// Reads the command line `words`, the first of which is the program's name, by its definition, and carries the command out. An error, or
/// help that was asked for, is printed. Returns the exit code.
pub fn run<C: Subcommand>(
    definition: clap::Command, words: &[OsString], more_help: MoreHelp,
    carry_out: impl FnOnce(C) -> anyhow::Result<()>,
) -> ExitCode {
    match line_of(read(definition, words)) {
        Ok(line) => end(line, carry_out),
        Err(error) => refuse(&error, words, more_help),
    }
}

/// Returns the command line that was read.
pub(crate) fn line_of<C: Subcommand>(read: Result<ArgMatches, clap::Error>) -> Result<Line<C>, clap::Error> {
    Line::from_arg_matches(&read?)
}

/// Prepares this process for its first write: to a file, too, or to a reader that has gone.
pub(crate) fn prepare(words: &[OsString]) {
    let _ = signals::survive();
    note_file_limit();
    set_color(output::color_of(words));
}

/// Reads the command line `words` by its definition.
pub(crate) fn read(definition: clap::Command, words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    prepare(words);
    let command = if short::is_asked(words) { short::shortened(definition) } else { definition };
    // `wharf version` is what people type first, as with cargo and git.
    match words {
        [name, help, word] if help == "help" && word.to_string_lossy().starts_with('-') => {
            command.try_get_matches_from([name.clone(), word.clone()])
        }
        [name, word] if word == "version" => command.try_get_matches_from([name.clone(), "--version".into()]),
        _ => command.try_get_matches_from(words),
    }
}

/// Returns the options of all commands among `words`, and the position of the command behind them.
pub(crate) fn options(words: &[OsString]) -> Option<(OutputArgs, usize)> {
    let options = OutputArgs::augment_args(clap::Command::new("wharf").disable_help_flag(true));
    let matches = options.allow_external_subcommands(true).try_get_matches_from(words).ok()?;
    let behind = matches.subcommand()?.1.get_many::<OsString>("").map_or(0, |behind| behind.len());
    Some((OutputArgs::from_arg_matches(&matches).ok()?, words.len() - 1 - behind))
}

/// Carries the command of `line` out, and returns the exit code.
pub(crate) fn end<C: Subcommand>(line: Line<C>, carry_out: impl FnOnce(C) -> anyhow::Result<()>) -> ExitCode {
    line.output.start();
    // A peer that shortens its shared memory raises SIGBUS. Without the handler such memory is refused.
    let _ = wharf_devices::vhost_user::install_sigbus_handler();
    let code = code_of(carry_out(line.command));
    stream::end();
    code
}

/// Prints the error of what was carried out, if there is one, and returns the exit code.
fn code_of(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    complain(&with_causes(&error));
    ExitCode::from(match () {
        () if error.is::<EndedBySignal>() => 0,
        () if error.is::<Usage>() => 2,
        () => 1,
    })
}

/// Prints the error of a command line, or the help that it asks for, and returns the exit code.
pub(crate) fn refuse(error: &clap::Error, words: &[OsString], more_help: MoreHelp) -> ExitCode {
    // A word that is no UTF-8 has U+FFFD in it.
    let words = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let help = styled(&error.render());
            let more = more_help(&words).map_or(String::new(), |more| format!("\n{more}"));
            code_of(print_styled(format!("{help}{more}").trim_end()))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            complain_at_length(&error.render().to_string());
            ExitCode::from(2)
        }
        ErrorKind::InvalidUtf8 => {
            complain(&not_text(&words));
            ExitCode::from(2)
        }
        kind => {
            let unknown = matches!(kind, ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
            let advice = if unknown { "; --help lists what there is" } else { "" };
            let said = near::meant(error).unwrap_or_else(|| essence(&error.render().to_string()));
            complain(&format!("{said}{advice}"));
            ExitCode::from(2)
        }
    }
}

/// Says which word is not UTF-8 where text is wanted.
fn not_text(words: &[String]) -> String {
    let word = words.iter().rev().find(|word| word.contains(char::REPLACEMENT_CHARACTER));
    let word = word.map_or("an argument", String::as_str);
    format!(
        "{word}: is not UTF-8; file names that are not can be given as --pcap FILE, --trace FILE and the like alone"
    )
}

/// Lets options take words that begin like a negative number as values: the option then says what it wants, in place of clap saying
/// that there is no such option.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let names = ["N", "N,...", "S", "RATE", "SPEED", "SIZE", "SIZES", "LIMIT", "TOS"];
    let is_number = |arg: &clap::Arg| {
        let values = arg.get_value_names().unwrap_or_default();
        values.first().is_some_and(|name| names.contains(&name.as_str()))
    };
    let command = command.mut_args(|arg| if is_number(&arg) { arg.allow_hyphen_values(true) } else { arg });
    command.mut_subcommands(with_negative_values)
}

/// Makes the command read specifications by the kinds of `registries`.
fn with_registries(command: clap::Command, registries: &Registries) -> clap::Command {
    let (devices, qdiscs) = (registries.devices.clone(), registries.qdiscs.clone());
    let usage = format!("Queueing discipline of what is sent: {}", qdiscs.usage());
    let keys = std::iter::once(usage.clone()).chain(qdiscs.keys()).collect::<Vec<_>>().join("\n");
    let device = |arg: &clap::Arg| {
        let (devices, direction) = (devices.clone(), direction(arg));
        let names = spec::beginnings(&devices, direction);
        let read = move |text: &str| devices.parse_for(text, direction);
        ValueParser::new(Spec { read, names })
    };
    let names: Vec<String> = qdiscs.kinds().iter().map(|kind| kind.name.into()).collect();
    let qdisc = ValueParser::new(Spec { read: move |text: &str| qdiscs.parse(text), names });
    let command = command.mut_args(|arg| match arg.get_value_parser().type_id() {
        read if read == TypeId::of::<DeviceSpec>() => {
            let device = device(&arg);
            arg.value_parser(device).hide_possible_values(true)
        }
        read if read == TypeId::of::<QdiscSpec>() => {
            let default = default_text(&arg);
            let arg =
                arg.value_parser(qdisc.clone()).hide_possible_values(true).help(format!("{usage}{default}"));
            arg.long_help(format!("{keys}{default}"))
        }
        _ => arg,
    });
    command.mut_subcommands(|command| with_registries(command, registries))
}

/// Returns the default that an argument's own help names, behind a blank.
fn default_text(arg: &clap::Arg) -> String {
    let help = arg.get_help().map_or(String::new(), ToString::to_string);
    help.find("[default: ").map_or(String::new(), |at| format!(" {}", &help[at..]))
}

/// Returns the direction of the device that an argument names, as far as the argument says it.
fn direction(arg: &clap::Arg) -> Direction {
    match arg.get_id().as_str() {
        "to" | "sent_to" => Direction::Send,
        "from" | "received_from" => Direction::Receive,
        _ => Direction::Both,
    }
}

/// Returns an error's own text, without clap's usage and advice.
pub(crate) fn essence(rendered: &str) -> String {
    let is_essential = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    // The tip on passing a word as a value is no help for a mistyped option.
    let lines = text.lines().map(str::trim).take_while(is_essential);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"));
    lines.fold(String::new(), |said, line| match line.strip_prefix("tip: ") {
        Some(tip) => format!("{said}; {tip}"),
        None if said.is_empty() => line.into(),
        None => format!("{said} {line}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_what_matters() {
        let rendered =
            "error: no such thing\n  [possible values: a, b]\n\nUsage: wharf\n\nFor more information, try";
        assert_eq!(essence(rendered), "no such thing [possible values: a, b]");
        let rendered = "error: unexpected argument\n\n  tip: to pass '--x' as a value, use\n  tip: there is '--y'\n\nUsage:";
        assert_eq!(essence(rendered), "unexpected argument; there is '--y'");
    }
}
