//! The command line's arguments.

mod bench;
#[cfg(feature = "intel")]
mod bind;
mod doctor;
mod examples;
mod forward;
mod helper;
mod host;
mod lab;
mod memory;
mod output;
mod pages;
mod plan;
mod receive;
mod recovery;
mod sandbox;
mod send;
mod short;
mod spec;
mod values;
mod version;
mod watch;
mod wrap;

pub(crate) use bench::{BenchArgs, BenchCommand, DeviceArgs, OwnerChoice, PathArgs};
#[cfg(feature = "intel")]
pub(crate) use bind::BindArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use forward::ForwardArgs;
pub(crate) use helper::HelperArgs;
pub(crate) use host::HostArgs;
pub(crate) use lab::{
    LabArgs, LabCalibrateArgs, LabCommand, LabCompareArgs, LabListArgs, LabRunArgs, LabSweepArgs,
};
pub(crate) use output::OutputArgs;
pub(crate) use pages::{CompletionsArgs, ManArgs, Shell};
pub(crate) use plan::PlanArgs;
pub(crate) use receive::ReceiveArgs;
pub(crate) use recovery::{OnGone, OnStall, RecoveryArgs};
pub(crate) use sandbox::{Capabilities, SandboxArgs, Seccomp};
pub(crate) use send::SendArgs;
pub(crate) use values::{
    Poll, SmallQueues, WhenFull, batching, bucket_rate, byte_limits, small_queues, token_bytes,
};
#[cfg(feature = "top")]
pub(crate) use watch::TopArgs;
pub(crate) use watch::{ControlAt, SetArgs, ShowArgs, WatchArgs};
pub(crate) use wrap::WrapArgs;

use crate::Registries;
use crate::config::{self, Origin};
use crate::output::{complain, complain_at_length, print, set_color, styled, with_causes};
use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use spec::Spec;
use std::any::TypeId;
use std::ffi::OsString;
use std::process::ExitCode;
use wharf::devices::spec::{DeviceSpec, Direction};
use wharf::qdisc::QdiscSpec;

/// A packet transmit path for Linux user space: send traffic, see what the path did with it, measure it.
#[derive(Debug, Parser)]
#[command(name = "wharf", arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  wharf send --pcap data/sample.pcap
      replay a capture, and see what batching did
  wharf send --size 60 --to null --seconds 2
      generate packets for the dummy device
  wharf receive --from pcap:data/sample.pcap
      what arrives, lost, reordered, how fast and how late
  wharf forward packet:eth0 packet:eth1 --qdisc prio
      from each to the other, urgent packets first
  wharf show 4711
      counters of a run that goes on; wharf set changes its rate
  wharf plan --nic cx5 --link gen3x16 --size 64
      what a server can carry, and what stops it
  wharf lab run bulk
      what bulk dequeue was worth, in virtual time
  wharf bench path
      what the path itself can do on this machine
  wharf devices
      the devices to send to and receive from, and interfaces
  wharf doctor xdp:eth0
      whether a device works here, how well, and why not better
  wharf explain ring-full
      what a reason of drops means, and what to do

Units, in any case:
  a size    1500, 64k or 64KiB (1024 each), 64kB (1000 each); in bytes
  a count   1000, 64k, 1m (powers of 1000)
  a rate    1mpps for packets; 20mbit, 20m or 1g for bits; per second
  a time    300ms, 2s, 1min; a number alone is in seconds
  a limit   fifo:1000 for packets; with a unit it is a size: fifo:64kB

Exit codes: 0 done, 1 failed, 2 used wrongly.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show in some seconds what the byte queue limit and batching do on this machine; needs no privilege
    Demo(DemoArgs),
    /// Send a capture or generated packets to a device
    Send(Box<SendArgs>),
    /// Receive from a device: check generated packets, count others, write a capture
    Receive(Box<ReceiveArgs>),
    /// Pass on what arrives at one device to another, both ways
    Forward(Box<ForwardArgs>),
    /// Show the counters of a run that goes on, or list the runs
    Show(ShowArgs),
    /// Draw the counters of a run that goes on, anew each second
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Change settings of a run that goes on: rate, byte queue limit, batching, discipline
    Set(SetArgs),
    /// Work out what a server can carry, and what stops it
    Plan(Box<PlanArgs>),
    /// Run experiments in virtual time, beside published figures
    Lab(LabArgs),
    /// Measure the path on this machine
    Bench(BenchArgs),
    /// List the devices that there are, what each lacks on this machine, and this machine's interfaces
    Devices(DevicesArgs),
    /// Examine a device: whether it works here, in which mode, and what would make it better
    Doctor(DoctorArgs),
    /// Bind an adapter to VFIO, for a device of wharf, or to the kernel's driver
    #[cfg(feature = "intel")]
    Bind(BindArgs),
    /// Give AF_XDP sockets, and the map of a program, to processes without privileges
    Helper(HelperArgs),
    /// Explain a reason of drops, or a row of a summary
    Explain(ExplainArgs),
    /// Print the completions of options and values for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of a command, or write those of all
    Man(ManArgs),
}

/// `wharf demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// One JSON object instead of the picture
    #[arg(long)]
    pub(crate) json: bool,
}

/// `wharf devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Kind of device, such as xdp: shows each of its keys, with values, default and when to change it
    #[arg(value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// `wharf explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Reason, such as ring-full, or row of a summary, such as requeues; all if left out
    #[arg(value_name = "WORD")]
    pub(crate) word: Vec<String>,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes the definition of the command line, with the kinds of `registries`.
pub(crate) fn command(registries: &Registries) -> clap::Command {
    let command = Cli::command().version(version::short()).long_version(version::long(registries));
    examples::wrapped(with_registries(with_negative_values(command), registries))
}

/// Reads the command line `words`. An error, or help that was asked for, is printed, and its exit code comes back; `more_help` adds
/// to the help on the words behind the program's name.
pub(crate) fn parse(
    registries: &Registries, words: &[OsString], more_help: fn(&[String]) -> Option<String>,
) -> Result<Cli, ExitCode> {
    set_color(output::color_of(words));
    let command = command(registries);
    let command = if short::is_asked(words) { short::shortened(command) } else { command };
    // `wharf version` is what people type first, as with cargo and git.
    let matches = match words {
        [name, word] if word == "version" => command.try_get_matches_from([name.clone(), "--version".into()]),
        _ => command.try_get_matches_from(words),
    };
    if let Ok(matches) = &matches
        && let Some(path) = config::file_of(matches)
    {
        return config::load(Origin { registries, words }, matches, path).map_err(|errors| {
            errors.iter().for_each(|error| complain(error));
            ExitCode::from(2)
        });
    }
    let read = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    read.map_err(|error| refuse(&error, words, more_help))
}

/// Prints the error of a command line, or the help that it asks for, and returns the exit code.
fn refuse(error: &clap::Error, words: &[OsString], more_help: fn(&[String]) -> Option<String>) -> ExitCode {
    // A word that is no UTF-8 has U+FFFD in it.
    let words = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let help = styled(&error.render());
            let more = more_help(&words).map_or(String::new(), |more| format!("\n{more}"));
            show(format!("{help}{more}").trim_end())
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
            complain(&format!("{}{advice}", essence(&error.render().to_string())));
            ExitCode::from(2)
        }
    }
}

/// Prints help that was asked for, and returns the exit code.
fn show(help: &str) -> ExitCode {
    match print(help) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&with_causes(&error));
            ExitCode::from(1)
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
        "to" => Direction::Send,
        "from" => Direction::Receive,
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
    fn the_command_line_is_consistent() {
        command(&Registries::default()).debug_assert();
        short::shortened(command(&Registries::default())).debug_assert();
    }

    #[test]
    fn errors_keep_what_matters() {
        let rendered =
            "error: no such thing\n  [possible values: a, b]\n\nUsage: wharf\n\nFor more information, try";
        assert_eq!(essence(rendered), "no such thing [possible values: a, b]");
        let rendered = "error: unexpected argument\n\n  tip: to pass '--x' as a value, use\n  tip: there is '--y'\n\nUsage:";
        assert_eq!(essence(rendered), "unexpected argument; there is '--y'");
    }
}
