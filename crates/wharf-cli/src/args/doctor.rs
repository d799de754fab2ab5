//! Arguments of `wharf doctor`.

use super::memory::MemoryArgs;
use super::values::{Choice, choice};
use clap::Args;
use wharf_devices::spec::Direction;

const EXAMPLES: &str = "\
Examples:
  wharf doctor xdp:eth0
      whether it sends and receives here, in which mode, and what would make it better
  wharf doctor eth0 --no-probe
      each device that can use the interface; nothing is opened
  wharf doctor xdp:eth0 --for receive --json
      one JSON object, and exit code 1 if it cannot receive

The verdicts are those of opening: the device is opened, attached to a pool as `wharf send` and `wharf receive` have it by default, and \
closed again. To receive by xdp, an XDP program is attached for some milliseconds, in which frames of the queue do not reach this host; \
a line says so first. Some adapters reset their link for a program, for up to two seconds: they are opened with --probe alone. A device whose opening would do more than that, such as writing a file, is not opened; \
nor, without --take-host, one on an interface that has the default route or the login (SSH) that the command runs in.

Exit codes: 0 if the device can be used in the direction of --for, or in each direction that it has; of several devices of an \
interface, one is enough. 1 if not.";

/// A device to examine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Device, as `wharf devices` lists them, or an interface: each device that can use it
    #[arg(value_name = "DEVICE|INTERFACE")]
    pub(crate) subject: String,
    /// Direction that must work [default: each that the device has, by itself]
    #[arg(long = "for", value_name = "DIRECTION", value_parser = choice(PURPOSES))]
    pub(crate) direction: Option<Direction>,
    /// Open nothing: report only what can be read
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Open the device, too, if that may reset an adapter's link for seconds
    #[arg(long, conflicts_with = "no_probe")]
    pub(crate) probe: bool,
    /// Open the device, too, if this host depends on its interface: that has the default route, or this login
    #[arg(long, conflicts_with = "no_probe")]
    pub(crate) take_host: bool,
    /// Memory that the device is attached to.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Directions that a device is wanted for.
const PURPOSES: &[Choice<Direction>] = &[
    ("send", "To send, as `wharf send` does", Direction::Send),
    ("receive", "To receive, as `wharf receive` does", Direction::Receive),
    ("both", "To do both at once, as `wharf forward` does", Direction::Both),
];
