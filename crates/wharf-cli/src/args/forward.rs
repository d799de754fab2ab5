//! `wharf forward`.

use super::values::{self, Poll, WhenFull};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use wharf::devices::spec::DeviceSpec;
use wharf::qdisc::QdiscSpec;

const EXAMPLES: &str = "\
Examples:
  wharf forward packet:eth0 packet:eth1
      whatever arrives at one interface leaves by the other, both ways, until SIGINT, SIGTERM or SIGHUP
  wharf forward xdp:eth0 xdp:eth1 --qdisc prio --seconds 60 --json
      by AF_XDP, nothing copied in user space; three bands; one JSON object after a minute
  wharf forward packet:eth0 tap:guest --rate 100mbit --qdisc prio
      100 Mbit/s each way; of what waits for that, the urgent leaves first
  wharf forward xdp:eth0 vhost-user:/run/vm.sock --queues 4
      four queues of eth0 and a guest with four queue pairs: a flow keeps its queue, and its order
  wharf forward pcap:in.pcap packet:eth1
      one way: a capture at the first end is read, at the second it is written

Each direction is a path of its own, with its own discipline and byte queue limit. What cannot be sent at once waits in \
the discipline; when that is full, nothing more is received, and the first device's own ring fills: what it then has no \
room for it drops, and that is counted. With --when-full drop-tail or drop-head frames are received all the same, and \
dropped at the discipline: with --qdisc prio, a full band then holds nobody else up.

A link that goes down is told of on standard error, and so is a frame too long for where it should leave; what should leave by \
a link that is down is dropped (link-down) until it is back. What the kernel had not taken yet from the ring of an xdp end \
stays there meanwhile, and leaves then: up to 2048 frames. When an interface is gone for good, the run ends with its summary and exit code 1. Drops alone are no failure.";

/// What to forward between, and how.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ForwardArgs {
    /// One end: see `wharf devices`
    #[arg(value_name = "A", value_parser = values::device)]
    pub(crate) a: DeviceSpec,
    /// The other end
    #[arg(value_name = "B", value_parser = values::device)]
    pub(crate) b: DeviceSpec,
    /// End after this time: 2, 0.5, 300ms, 1min
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Queueing discipline of each direction
    #[arg(long, value_name = "QDISC", default_value = "fifo", value_parser = values::qdisc)]
    pub(crate) qdisc: QdiscSpec,
    /// Most bits per second that leave in each direction, such as 100mbit: frames from their Ethernet header on, each segment
    /// of a super-packet counted; those longer than the burst are cut (tbf)
    #[arg(long, value_name = "RATE", value_parser = values::bits)]
    pub(crate) rate: Option<u64>,
    /// Bytes that may leave at once after a pause [default: 4 ms at the rate, 3028 at least]
    #[arg(long, value_name = "SIZE", requires = "rate", value_parser = values::token_bytes)]
    pub(crate) burst: Option<u64>,
    /// What happens to packets for which the discipline has no room
    #[arg(long, value_name = "WAY", value_enum, default_value_t = WhenFull::Wait)]
    pub(crate) when_full: WhenFull,
    /// Queues of each end that has several: `packet`, `xdp` (from its queue= on), `tap`, and as many pairs of `vhost-user` and `virtio-user`. What arrives by one
    /// leaves by that of the same number; where only one end has several, each flow leaves by one of them
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number(1..=values::QUEUES_MAX))]
    pub(crate) queues: u32,
    /// Threads, up to two for each queue, one a direction [default: one for each queue]
    #[arg(long, value_name = "N", value_parser = values::number(1..=2 * values::QUEUES_MAX as usize))]
    pub(crate) pollers: Option<usize>,
    /// How they wait
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Poll::Adaptive)]
    pub(crate) poll: Poll,
    /// Processors to pin them to, in turn
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::cpu)]
    pub(crate) cpu: Vec<usize>,
    /// Frames of memory for each queue, 64 at least: for each direction, or for both where a device has them share it [default: 16384, or 4096
    /// between TAPs, and two for each packet beyond 1000 that the discipline holds]
    #[arg(long, value_name = "N", value_parser = values::number(values::FORWARD_FRAMES_MIN..=values::FRAMES_MAX))]
    pub(crate) frames: Option<u32>,
    /// Bytes of memory per frame, a multiple of 64; 512 of them are headroom and placement. Longer packets take several
    /// [default: 2048, or 65536 between TAPs, for their super-packets, if --frames says nothing]
    #[arg(long, value_name = "N", value_parser = values::memory_bytes)]
    pub(crate) frame_bytes: Option<u32>,
    /// Write every frame that was sent, in either direction, into this capture as well, when its device says so: what was dropped
    /// is not in it
    #[arg(long, value_name = "FILE")]
    pub(crate) mirror: Option<PathBuf>,
    /// One JSON object instead of a table. `packets` and `bytes` are what devices took, `sent` the packets of these that left,
    /// `failed` those that were dropped, there or while they waited; rates are of what was sent, over `active_seconds`: from the
    /// first packet to the last, without pauses of a second and more
    #[arg(long)]
    pub(crate) json: bool,
}
