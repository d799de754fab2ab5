//! What the command line says.

mod bench;
mod forward;
mod lab;
mod plan;
mod receive;
mod send;
mod values;
mod wrap;

pub(crate) use bench::{BenchArgs, BenchCommand, DeviceArgs, OwnerChoice, PathArgs};
pub(crate) use forward::ForwardArgs;
pub(crate) use lab::{LabArgs, LabCommand, LabListArgs, LabRunArgs, LabSweepArgs};
pub(crate) use plan::PlanArgs;
pub(crate) use receive::ReceiveArgs;
pub(crate) use send::SendArgs;
pub(crate) use values::{Poll, QdiscChoice, SmallQueues, WhenFull};
pub(crate) use wrap::WrapArgs;

use crate::output;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;

/// A packet transmit path for Linux user space: send traffic, see what the path did with it, measure it.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  wharf send --pcap data/sample.pcap                replay a capture, and see what batching did
  wharf send --size 60 --to null --seconds 2        generate packets for the dummy device
  wharf receive --from pcap:data/sample.pcap        what arrives, lost, reordered, how fast and how late
  wharf forward packet:eth0 packet:eth1 --qdisc prio  from each to the other, what is urgent first
  wharf plan --nic cx5 --link gen3x16 --size 64     what a server can carry, and what stops it
  wharf lab run bulk                                what bulk dequeue was worth, in virtual time
  wharf bench path                                  what the path itself can do on this machine
  wharf devices                                     what can be sent to

Exit codes: 0 done, 1 failed, 2 used wrongly.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a capture or generated packets to a device
    Send(Box<SendArgs>),
    /// Receive from a device: check generated packets, count others, write a capture
    Receive(Box<ReceiveArgs>),
    /// Pass on what arrives at one device to another, both ways
    Forward(Box<ForwardArgs>),
    /// Work out what a server can carry, and what stops it
    Plan(Box<PlanArgs>),
    /// Run experiments in virtual time, beside published figures
    Lab(LabArgs),
    /// Measure the path on this machine
    Bench(BenchArgs),
    /// List the devices that there are, and what each lacks on this machine
    Devices(DevicesArgs),
}

/// `wharf devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads the command line; an error, or help that was asked for, is printed, and the exit code comes back.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli.command),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let printed = output::print(error.render().to_string().trim_end());
            Err(if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::complain_at_length(&error.render().to_string());
            Err(ExitCode::from(2))
        }
        kind => {
            let unknown = matches!(kind, ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
            let advice = if unknown { "; --help lists what there is" } else { "" };
            output::complain(&format!("{}{advice}", essence(&error.render().to_string()).trim_end()));
            Err(ExitCode::from(2))
        }
    }
}

/// An error's own text, without the usage and advice that clap puts behind it.
fn essence(rendered: &str) -> String {
    let is_advice = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    text.lines().map(str::trim).take_while(is_advice).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn errors_keep_what_matters() {
        let rendered =
            "error: no such thing\n  [possible values: a, b]\n\nUsage: wharf\n\nFor more information, try";
        assert_eq!(essence(rendered), "no such thing\n[possible values: a, b]\n");
    }
}
