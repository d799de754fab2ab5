//! `wharf forward`.

use super::RecoveryArgs;
use super::sandbox::SandboxArgs;
use super::values::{self, Poll, WhenFull};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use wharf::devices::spec::DeviceSpec;
use wharf::qdisc::QdiscSpec;

const EXAMPLES: &str = "\
Examples:
  wharf forward packet:eth0 packet:eth1
      frames that arrive at one interface leave by the other, both ways, until SIGINT, SIGTERM or SIGHUP
  wharf forward xdp:eth0 xdp:eth1 --qdisc prio --seconds 60 --json
      by AF_XDP, nothing copied in user space; three bands; one JSON object after a minute
  wharf forward packet:eth0 tap:guest --rate 100mbit --qdisc prio
      100 Mbit/s each way; of the packets that wait for that, urgent ones leave first
  wharf forward xdp:eth0 vhost-user:/run/vm.sock --queues 4
      four queues of eth0 and a guest with four queue pairs: a flow keeps its queue, and its order
  wharf forward pcap:in.pcap packet:eth1
      one way, until the last frame of the capture has left; at the second end a capture is written

Each direction is a path of its own, with its own discipline and byte queue limit. Frames that cannot be sent at once wait in \
the discipline. When that is full, the direction receives no more, and the receiving device's own ring fills; it drops and \
counts what does not fit. With --when-full drop-tail or drop-head frames are received all the same, and dropped at the \
discipline: with --qdisc prio, a full band then holds up no other band.

A line on standard error says when a link goes down, and when a frame is too long for the end that it leaves by. Frames for a \
link that is down are dropped (link-down) until it is back. Up to 2048 frames in the ring of an xdp end that the kernel had \
not taken yet stay there meanwhile, and leave then. An interface or a peer that has gone is \
opened again when it is back; with --on-gone fail the run ends with its summary and exit code 1. Drops alone are no failure.";

/// Two ends, and how to forward between them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ForwardArgs {
    /// One end: see `wharf devices`
    #[arg(value_name = "A", value_parser = values::device)]
    pub(crate) a: DeviceSpec,
    /// The other end
    #[arg(value_name = "B", value_parser = values::device)]
    pub(crate) b: DeviceSpec,
    /// End after this time: 2, 0.5, 300ms, 1min. It begins once both ends are open: a peer with `server=on` has 60 s to come
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Queueing discipline of each direction
    #[arg(long, value_name = "QDISC", default_value = "fifo", value_parser = values::qdisc)]
    pub(crate) qdisc: QdiscSpec,
    /// Most bits per second that leave in each direction, such as 100mbit, counted from the Ethernet header on, and for each segment of a
    /// super-packet; super-packets longer than the burst are segmented (tbf)
    #[arg(long, value_name = "RATE", value_parser = values::bits)]
    pub(crate) rate: Option<u64>,
    /// Bytes that may leave at once after a pause [default: 4 ms at the rate, 3028 at least]
    #[arg(long, value_name = "SIZE", requires = "rate", value_parser = values::token_bytes)]
    pub(crate) burst: Option<u64>,
    /// Treatment of packets when the discipline is full
    #[arg(long, value_name = "WAY", value_enum, default_value_t = WhenFull::Wait)]
    pub(crate) when_full: WhenFull,
    /// Queues of each end that has several: `packet`, `xdp` (from its queue= on) and `tap`, and queue pairs of `vhost-user` and
    /// `virtio-user`. Arrivals of one leave by the queue of the same number; if only one end has several, each flow leaves by one of them
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number(1..=values::QUEUES_MAX))]
    pub(crate) queues: u32,
    /// Threads, up to two for each queue, one for each direction [default: one for each queue]
    #[arg(long, value_name = "N", value_parser = values::number(1..=2 * values::QUEUES_MAX as usize))]
    pub(crate) pollers: Option<usize>,
    /// Waiting mode of the threads
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Poll::Adaptive)]
    pub(crate) poll: Poll,
    /// Processors to pin the threads to, in turn
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::cpu)]
    pub(crate) cpu: Vec<usize>,
    /// Frames of memory for each queue, at least 64: for each direction, or for both if a device makes them share it [default: 16384, or
    /// 4096 between TAPs, and two for each packet beyond 1000 that the discipline holds]
    #[arg(long, value_name = "N", value_parser = values::number(values::FORWARD_FRAMES_MIN..=values::FRAMES_MAX))]
    pub(crate) frames: Option<u32>,
    /// Bytes of memory per frame, a multiple of 64; 512 of them are headroom and placement. Longer packets take several frames
    /// [default: 2048, or 65536 for the super-packets of TAPs unless --frames is given]
    #[arg(long, value_name = "N", value_parser = values::memory_bytes)]
    pub(crate) frame_bytes: Option<u32>,
    /// Also write every frame that a device reports as sent, in either direction, into this capture. Dropped frames are not in it
    #[arg(long, value_name = "FILE")]
    pub(crate) mirror: Option<PathBuf>,
    /// One JSON object instead of a table. `packets` and `bytes` are those that devices took, `sent` those that left, `failed` those that
    /// were dropped by the device or while they waited. Rates are of sent packets over `active_seconds`: from the first packet to the last,
    /// without pauses of a second and more
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) recovery: RecoveryArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}
