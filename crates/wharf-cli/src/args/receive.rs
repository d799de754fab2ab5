//! `wharf receive`.

use super::{
    HostArgs, OnGone, SandboxArgs, TUNING, WatchArgs, WrapArgs, memory::MemoryArgs, recovery::ON_GONE, values,
};
use clap::Args;
use clap::builder::ArgPredicate;
use std::path::PathBuf;
use std::time::Duration;
use wharf_core::poller::Mode;
use wharf_devices::pcap::format::Rotation;
use wharf_devices::spec::DeviceSpec;

const EXAMPLES: &str = "\
Examples:
  wharf receive --from pcap:data/sample.pcap
      the contents of a capture: packets, bytes, rate
  wharf receive --from packet:eth1 --pcap in.pcap --seconds 10
      everything that arrives within ten seconds, into a capture
  wharf receive --from packet:eth1 --count 1m --json
      a million packets, then one JSON object

  wharf receive --from packet:eth1 --pcap - | tcpdump -r -
      into another program, as they come

Packets that `wharf send` generated carry a number and a time. Lost, reordered and duplicated ones are counted for each \
sender. Numbers begin at 0, so start the receiver first, and wait for its line \"listening on\". Losses after the last \
arrival show only in the sender's count. The latency is from the time in the packet to its arrival, as the device reports \
it, or as it was received. It needs both ends on one machine, whose clock they share, and is null otherwise. All other \
packets are counted as not generated.

Ends by itself after --count or --seconds, or when the device has ended; otherwise SIGINT, SIGTERM and SIGHUP end it \
with its summary. Exit code 1 when packets were lost or dropped. Records of length 0 in a capture are skipped and counted \
(empty): they are no packets.";

/// A device, and what to do with its frames.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct ReceiveArgs {
    /// Device to receive from: see `wharf devices`
    #[arg(value_name = "DEVICE", value_parser = values::device, required_unless_present = "from")]
    received_from: Option<DeviceSpec>,
    /// The same, as an option
    #[arg(long, value_name = "DEVICE", value_parser = values::device, conflicts_with = "received_from",
        required = false, default_value_if("received_from", ArgPredicate::IsPresent, "null"))]
    pub(crate) from: DeviceSpec,
    /// Write arrivals to this capture, each with its time. `-` is standard output, and the report then goes to standard error; a fifo is
    /// opened when its reader is there
    #[arg(long, value_name = "OUT")]
    pub(crate) pcap: Option<PathBuf>,
    /// Go on in another file, by size or time, and keep the newest: size=100m,every=1h,files=24. The name of
    /// --pcap may have the time of a
    /// file (eth0-%H%M%S.pcap, as strftime has it); else, files are numbered (out-1.pcap)
    #[arg(long, value_name = "ROTATION", requires = "pcap", value_parser = Rotation::parse)]
    pub(crate) rotate: Option<Rotation>,
    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// End after this time: 2, 0.5, 300ms, 1min. It begins once the device is open: a peer with `server=on` has 60 s to come
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Waiting mode of the receiving thread
    #[arg(long, help_heading = TUNING, value_name = "MODE", value_parser = values::choice(values::POLL), default_value = "adaptive")]
    pub(crate) poll: Mode,
    /// Processor to pin the receiving thread to
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::cpu)]
    pub(crate) cpu: Option<usize>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// Memory to receive into.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// One JSON object instead of a table. `generated` counts the packets with a stamp alone, and its rates leave out other traffic
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page of the run into this folder (report.html, opens without a network): rates and drops over time, delays,
    /// a sample every 100 ms, and the summary
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Treatment of an interface or a peer that has gone
    #[arg(long, value_name = "WAY", value_parser = values::choice(ON_GONE), default_value = "reopen")]
    pub(crate) on_gone: OnGone,
    /// End with an error if the device is away, or its line down, for this time. At least 100ms, such as 30s
    #[arg(long, value_name = "TIME", value_parser = values::seconds_from(values::GIVE_UP_MS_MIN))]
    pub(crate) give_up: Option<Duration>,
    #[command(flatten)]
    pub(crate) wrap: WrapArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

impl ReceiveArgs {
    /// Puts the device that is named by its position in its place.
    pub(crate) fn placed(mut self) -> Self {
        self.from = self.received_from.take().unwrap_or(self.from);
        self
    }
}
