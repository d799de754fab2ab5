//! `wharf receive`.

use super::{
    WrapArgs,
    values::{self, Poll},
};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use wharf::devices::spec::DeviceSpec;

const EXAMPLES: &str = "\
Examples:
  wharf receive --from pcap:data/sample.pcap
      what is in a capture: packets, bytes, rate
  wharf receive --from packet:eth1 --pcap in.pcap --seconds 10
      everything that arrives within ten seconds, into a capture
  wharf receive --from packet:eth1 --count 1m --json
      a million packets, then one JSON object

Packets that `wharf send` generated carry a number and a time. For each sender, those that were lost, came late \
or came twice are counted; numbers begin at 0, so start the receiver first, and wait for its line \"listening on\". \
What is lost after the last packet that arrives leaves no trace here: the sender's count tells. The latency is from \
the time in the packet to its arrival, as the device says it, or as it was received; it needs both ends on one machine, \
whose clock they share, and is null otherwise. All other packets are counted as unstamped.

Ends by itself after --count or --seconds, or when the device has no more to give; else SIGINT, SIGTERM and SIGHUP end it, \
with its summary. Exit code 1 when packets were lost or dropped.";

/// What to receive, and what to do with it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct ReceiveArgs {
    /// Where from: see `wharf devices`
    #[arg(long, value_name = "DEVICE", value_parser = values::device)]
    pub(crate) from: DeviceSpec,
    /// Write what arrives to this capture, with the time of each arrival
    #[arg(long, value_name = "OUT")]
    pub(crate) pcap: Option<PathBuf>,
    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// End after this time: 2, 0.5, 300ms, 1min
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// How the receiving thread waits
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Poll::Adaptive)]
    pub(crate) poll: Poll,
    /// Processor to pin the receiving thread to
    #[arg(long, value_name = "N", value_parser = values::cpu)]
    pub(crate) cpu: Option<usize>,
    /// Frames of memory
    #[arg(long, value_name = "N", default_value = "4096", value_parser = values::number(1..=values::FRAMES_MAX))]
    pub(crate) frames: u32,
    /// Bytes of memory per frame, a multiple of 64; 512 of them are headroom and placement
    #[arg(long, value_name = "N", default_value = "2048", value_parser = values::memory_bytes)]
    pub(crate) frame_bytes: u32,
    /// One JSON object instead of a table. `generated` has what carries a stamp alone, its rates without what others send
    /// meanwhile
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) wrap: WrapArgs,
}
