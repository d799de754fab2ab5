//! The command line's arguments.

#[cfg(feature = "intel")]
mod bind;
mod doctor;
mod forward;
mod helper;
mod host;
mod memory;
mod receive;
mod recovery;
mod route;
mod sandbox;
mod send;
pub mod values;
mod watch;
mod wrap;

#[cfg(feature = "intel")]
pub(crate) use bind::BindArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use forward::ForwardArgs;
pub(crate) use helper::HelperArgs;
pub use host::HostArgs;
pub(crate) use receive::ReceiveArgs;
pub(crate) use recovery::{OnGone, OnStall, RecoveryArgs};
pub(crate) use route::{RouteArgs, RouteCommand, RouteGetArgs};
pub(crate) use sandbox::{Capabilities, SandboxArgs};
pub(crate) use send::SendArgs;
pub(crate) use values::{
    SmallQueues, WhenFull, batching, bucket_rate, byte_limits, small_queues, token_bytes,
};
#[cfg(feature = "top")]
pub(crate) use watch::TopArgs;
pub(crate) use watch::{ControlAt, SetArgs, ShowArgs, WatchArgs};
pub(crate) use wrap::WrapArgs;

use crate::Registries;
use crate::beside::BesideArgs;
pub(crate) use crate::command_line::TUNING;
use crate::command_line::{self, Line, examples};
use crate::pages::{self, Pages};
use clap::{Args, Subcommand};

/// The command line of `wharf`.
pub(crate) type Cli = Line<Command>;

const EXAMPLES: &str = "\
Examples:
  wharf send --pcap data/sample.pcap
      replay a capture, and see what batching did
  wharf send null --size 60 --seconds 2
      generate packets for the dummy device
  wharf receive pcap:data/sample.pcap
      what arrives, lost, reordered, how fast and how late
  wharf forward packet:eth0 packet:eth1 --qdisc prio
      from each to the other, urgent packets first
  wharf show 4711
      counters of a run that goes on; wharf set changes its rate
  wharf plan --nic cx5 --link gen3x16 --size 60
      what a server can carry, and what stops it (the program wharf-lab)
  wharf lab run bulk
      what bulk dequeue was worth, in virtual time (wharf-lab)
  wharf bench path
      what the path itself can do on this machine (wharf-bench)
  wharf devices
      the devices to send to and receive from, and interfaces
  wharf doctor xdp:eth0
      whether a device works here, how well, and why not better
  wharf route get 192.0.2.7
      interface, gateway, source, MTU and MAC, as the kernel finds them
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
    /// List the devices that there are, what each lacks on this machine, and this machine's interfaces
    Devices(DevicesArgs),
    /// Examine a device: whether it works here, in which mode, and what would make it better
    Doctor(DoctorArgs),
    /// Show where a packet has to go next, as the kernel would send it
    Route(RouteArgs),
    /// Explain a word: a reason of drops, a row of a table, a verdict, a key of the JSON
    Explain(ExplainArgs),
    /// Work out what a server can carry, and what stops it (a program of its own: wharf-lab)
    Plan(BesideArgs),
    /// Run experiments in virtual time, beside published figures (a program of its own: wharf-lab)
    Lab(BesideArgs),
    /// Measure the path on this machine (a program of its own: wharf-bench)
    Bench(BesideArgs),
    /// Prepare this machine: an adapter for a device of wharf, sockets for processes without privileges
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Print words for completions
    #[command(hide = true)]
    Words(WordsArgs),
    /// `wharf admin bind`.
    #[cfg(feature = "intel")]
    #[command(hide = true)]
    Bind(BindArgs),
    /// `wharf admin helper`.
    #[command(hide = true)]
    Helper(HelperArgs),
    #[command(flatten)]
    Pages(Pages),
}

/// What an administrator does once.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Bind an adapter to VFIO, for a device of wharf, or to the kernel's driver
    #[cfg(feature = "intel")]
    Bind(BindArgs),
    /// Give AF_XDP sockets, and the map of a program, to processes without privileges
    Helper(HelperArgs),
}

/// `wharf words`.
#[derive(Debug, Args)]
pub(crate) struct WordsArgs {
    /// Words to print
    #[arg(value_parser = ["devices", "runs"])]
    pub(crate) kind: String,
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
    /// Reason, such as ring-full, row of a table, such as offered again, or key of the JSON; all if left out
    #[arg(value_name = "WORD")]
    pub(crate) word: Vec<String>,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes the definition of the command line, with the kinds of `registries`.
pub(crate) fn command(registries: &Registries) -> clap::Command {
    let command = command_line::definition::<Command>(registries).after_help(examples::wrap(EXAMPLES));
    pages::with_examples(command, "wharf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command(&Registries::default()).debug_assert();
        command_line::short::shortened(command(&Registries::default())).debug_assert();
    }
}
