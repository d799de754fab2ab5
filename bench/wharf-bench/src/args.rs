//! `wharf bench`.

use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;
use wharf_cli::args::{HostArgs, values};
use wharf_devices::spec::DeviceSpec;

/// The benchmark to run.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: BenchCommand,
}

/// The benchmarks.
#[expect(clippy::large_enum_variant, reason = "one value, parsed once")]
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The path itself: 64-byte packets, written, sent to the null device and back home
    Path(PathArgs),
    /// A device: 64-byte packets sent by one thread that owns its path, or received and counted
    Device(DeviceArgs),
}

const EXAMPLES: &str = "\
Examples:
  wharf bench path
  wharf bench path --cores 2 --senders 4 --bursts 32,64 --seconds 2 --json
  wharf bench path --cores 2 --senders 2,4,16,64 --owner inline --bursts 1,32

With one core the senders run the queue themselves; from two cores on, one core belongs to the queue's owner, \
and the senders share the others; with --owner inline the senders share all cores. Cycles are ticks of the time stamp counter, from a run of their own, by stage:
  alloc     taking frames out of the pool
  fill      writing the packets
  send      lane, qdisc, byte limit, hand-over to the device
  complete  completions, byte limit, frames back to the pool";

/// The threads that run the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnerChoice {
    Dedicated,
    Inline,
}

/// `wharf bench path`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct PathArgs {
    /// Numbers of cores to use [default: 1,2 if there are as many]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = cores)]
    pub(crate) cores: Vec<usize>,
    /// Threads that send
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = values::number(1..=values::SENDERS_MAX))]
    pub(crate) senders: Vec<u16>,
    /// Threads that run the queue from two cores on: one that does nothing else, or the senders
    #[arg(long, value_name = "WHO", value_enum, default_value_t = OwnerChoice::Dedicated)]
    pub(crate) owner: OwnerChoice,
    /// Packets handed over at a time
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,32,64", value_parser = values::number(1..=values::BURST_MAX))]
    pub(crate) bursts: Vec<usize>,
    /// Time for each row
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = values::seconds)]
    pub(crate) seconds: Duration,
    /// Also measure the path of one sender that owns its queue outright
    #[arg(long)]
    pub(crate) direct: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const DEVICE_EXAMPLES: &str = "\
Examples:
  wharf bench device --from vhost-user:/tmp/vm.sock --cpu 1
  wharf bench device virtio-user:/tmp/vm.sock --cpu 2

One thread, which never sleeps, writes and sends every packet (64 bytes, as DPDK's `txonly`), or receives and frees it (as its \
`rxonly`). It counts once packets move, after 0.2 s to warm up.";

/// `wharf bench device`.
#[derive(Debug, Args)]
#[command(after_help = DEVICE_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct DeviceArgs {
    /// Device to send to: see `wharf devices`
    #[arg(value_name = "DEVICE", value_parser = values::device, conflicts_with_all = ["to", "from"], required_unless_present_any = ["to", "from"])]
    sent_to: Option<DeviceSpec>,
    /// The same
    #[arg(long, value_name = "DEVICE", value_parser = values::device, conflicts_with = "from")]
    to: Option<DeviceSpec>,
    /// Receive from this device
    #[arg(long, value_name = "DEVICE", value_parser = values::device)]
    pub(crate) from: Option<DeviceSpec>,
    /// Packets sent or received at a time
    #[arg(long, value_name = "N", default_value = "32", value_parser = values::number(1..=values::BURST_MAX))]
    pub(crate) burst: usize,
    /// Frames of memory
    #[arg(long, value_name = "N", default_value = "4096", value_parser = values::number(1..=values::FRAMES_MAX))]
    pub(crate) frames: u32,
    /// Processor to pin the thread to [default: the first]
    #[arg(long, value_name = "CPU", value_parser = values::cpu)]
    pub(crate) cpu: Option<usize>,
    /// Time to measure, from 0.2 s behind the first packet, which has 30 s to come
    #[arg(long, value_name = "S", default_value = "1", value_parser = values::seconds)]
    pub(crate) seconds: Duration,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// One JSON object instead of a line
    #[arg(long)]
    pub(crate) json: bool,
}

impl DeviceArgs {
    /// The device to send to, by its position or by --to.
    pub(crate) fn to(&self) -> Option<&DeviceSpec> {
        self.sent_to.as_ref().or(self.to.as_ref())
    }
}

/// Reads a number of cores.
fn cores(text: &str) -> Result<usize, String> {
    let read = text.parse().ok().filter(|&cores| cores > 0);
    read.ok_or_else(|| "want numbers of cores, such as 1,2".into())
}
