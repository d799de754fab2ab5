//! `wharf forward`.

use super::HostArgs;
use super::RecoveryArgs;
use super::TUNING;
use super::WatchArgs;
use super::sandbox::SandboxArgs;
use super::values::{self, SmallQueues, WhenFull};
use crate::config::Source;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use wharf::qdisc::{QdiscSpec, Rate};
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_core::poller::Mode;
use wharf_devices::spec::DeviceSpec;

const EXAMPLES: &str = "\
Examples:
  wharf forward packet:eth0 packet:eth1
      frames that arrive at one interface leave by the other, both ways, until SIGINT, SIGTERM or SIGHUP
  wharf forward xdp:eth0 xdp:eth1 --qdisc prio --seconds 60 --json
      by AF_XDP, nothing copied in user space; three bands; one JSON object after a minute
  wharf forward packet:eth0 packet:eth1 --rate 20mbit
      20 Mbit/s each way by fq_codel: flows share it, and a sparse flow does not wait behind them
  wharf forward packet:eth0 tap:guest --rate 100mbit --qdisc prio
      100 Mbit/s each way; of the packets that wait for that, urgent ones (EF, CS5 to CS7) leave first
  wharf forward xdp:eth0 vhost-user:/run/vm.sock --queues 4
      four queues of eth0 and a guest with four queue pairs: a flow keeps its queue, and its order
  wharf forward vhost-user:/run/a.sock vhost-user:/run/b.sock packet:eth0 --vlan packet:eth0=10+20
      two guests and an interface at one switch; the interface's frames have tags of these VLANs
  wharf forward pcap:in.pcap packet:eth1
      one way, until the last frame of the capture has left; at the second end a capture is written
  wharf forward packet:eth0 packet:eth1 --route
      a router between the two, by the kernel's routes and neighbours: see docs/guide/next-hop.md
  wharf forward --config /etc/wharf/uplink.toml
      ends and options from a file, which SIGHUP has read again; with --check the file is only checked

Each direction is a path of its own, with its own discipline and byte queue limit. What arrives goes into the discipline, which \
drops and counts what it has no room for: fq_codel from the flow with the most bytes (overlimit), the others the newest packet \
(drop-tail) or the oldest (drop-head), with prio of the full band only. A discipline that drops and is given no limit is short: as \
many frames of 1514 bytes as last 50 ms at --rate, from 50 to 500, or 500 without --rate.

--when-full wait is for rigs that must lose nothing, and the default where an end is a capture: when the discipline is full, the \
direction receives no more. Packets then wait in the receiving device's own ring, megabytes of them, in which urgent ones wait behind \
others. The device drops and counts what does not fit.

The summary has the time that packets waited in the discipline (queue delay), by band with prio. It leaves out \
the devices' own rings, but for the receive ring of `packet`.

A line on standard error says when a link goes down, and when a frame is too long for the end that it leaves by. Frames for a \
link that is down are dropped (link-down) until it is back; a second line then says for how long, and how many. Up to 2048 frames in the ring of an xdp end that the kernel had \
not taken yet stay there meanwhile, and leave then. An interface or a peer that has gone is \
opened again when it is back; with --on-gone fail the run ends with its summary and exit code 1. Drops alone are no failure.";

/// Two ends, and how to forward between them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ForwardArgs {
    /// One end: see `wharf devices`
    #[arg(value_name = "A", value_parser = values::device, required = false, required_unless_present = "config")]
    pub(crate) a: DeviceSpec,
    /// The other end
    #[arg(value_name = "B", value_parser = values::device, required = false, required_unless_present = "config")]
    pub(crate) b: DeviceSpec,
    /// Further ends: with three and more, all are ports of a switch that learns. A frame leaves by the port
    /// at which its destination was seen last, or by all; each port has its own discipline, and shows as p1,
    /// p2 and so on
    #[arg(value_name = "PORT", value_parser = values::device, num_args = 0..=253)]
    pub(crate) ports: Vec<DeviceSpec>,
    /// Read further options from this file, as TOML: each long name is a key (rate = "20mbit"), and the ends are a and b. Options of the
    /// command line win over the file. SIGHUP has the run read it again, in place of ending it: see docs/guide/service.md
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Check the file, and end: exit code 2 if it has a mistake
    #[arg(long, requires = "config")]
    pub(crate) check: bool,
    /// They are read again while the run goes on.
    #[arg(skip)]
    pub(crate) is_running: bool,
    /// The file's part in these options.
    #[arg(skip)]
    pub(crate) source: Option<Source>,
    /// End after this time: 2, 0.5, 300ms, 1min. It begins once both ends are open: a peer with `server=on` has 60 s to come
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Forward IP packets as a router: each leaves by the end that the kernel's routes name, to the
    /// neighbour's MAC, with a lower time to live. What is too old, too long or leads nowhere is answered by
    /// ICMP. For `packet`, whose interfaces the kernel must not forward by itself, and for `xdp` with a
    /// `steer=` that leaves ARP and this host's own packets to the kernel
    #[arg(long)]
    pub(crate) route: bool,
    /// Queueing discipline of each direction [default: fq_codel, or fifo where packets wait]
    #[arg(long, value_name = "QDISC", value_parser = values::qdisc)]
    pub(crate) qdisc: Option<QdiscSpec>,
    /// VLANs of a port of a switch: tap:a=10, a VLAN whose frames have no tag there; tap:a=10+20, those with
    /// these tags; tap:a=10+, with this one [default: all, as they come]
    #[arg(long, value_name = "PORT=VLANS", value_parser = values::vlan)]
    pub(crate) vlan: Vec<(String, String)>,
    /// Copies a second that a switch makes of what comes in by one port for all, or for a station that it
    /// does not know [default: 20000]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::number(1..=u32::MAX))]
    pub(crate) flood_limit: Option<u32>,
    /// Time after which a switch forgets a station that it has not seen [default: 5min]
    #[arg(long, help_heading = TUNING, value_name = "S", value_parser = values::seconds)]
    pub(crate) forget_after: Option<Duration>,
    /// A setting of one direction or port from the start, as `wharf set` takes it: a-b.rate=20mbit,
    /// p3.qdisc=fifo, tap:vm0.rate=1gbit
    #[arg(long, value_name = "PATH.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Most bits or packets per second that leave in each direction, such as 100mbit or 10kpps, counted from the Ethernet header on, and
    /// for each segment of a super-packet (tbf). At a rate of packets, each counts as 1514 bytes of --bucket. Super-packets longer than
    /// 1 ms at the rate, or than --bucket, are segmented
    #[arg(long, value_name = "RATE", value_parser = values::bucket_rate)]
    pub(crate) rate: Option<Rate>,
    /// Burst of --rate, the bytes that may leave at once after a pause [default: 4 ms at the rate, 3028 at least]
    #[arg(long, visible_alias = "burst", value_name = "SIZE", requires = "rate", value_parser = values::token_bytes)]
    pub(crate) bucket: Option<u64>,
    /// Treatment of packets when the discipline is full [default: drop-head with fq_codel, drop-tail with others, wait where an end is a
    /// capture]
    #[arg(long, value_name = "WAY", value_enum)]
    pub(crate) when_full: Option<WhenFull>,
    /// Byte queue limit, the bytes that the device may have in flight: on (learnt), off (as much as its ring
    /// holds), min=SIZE, max=SIZE, gather=TIME (completions of that time count as one) or several
    /// (min=64k,max=1m)
    #[arg(long, value_name = "LIMIT", default_value = "on", value_parser = values::byte_limits)]
    pub(crate) bql: Bounds,
    /// Frames handed to a device at a time: on (as its byte limit allows), off (one) or bytes=N
    #[arg(long, help_heading = TUNING, visible_alias = "batching", value_name = "BATCH", default_value = "on", value_parser = values::batching)]
    pub(crate) batch: Batching,
    /// Bytes that one direction may have inside before its packets wait in the receiving device's ring: on (about 1 ms of its rate, at
    /// most 1m), off, or another maximum, such as 64k. It does not count with drop-tail [default: off, since no local sender waits]
    #[arg(long, help_heading = TUNING, value_name = "SIZE", value_parser = values::small_queues)]
    pub(crate) small_queues: Option<SmallQueues>,
    /// Queues of each end that has several: `packet`, `xdp` (from its queue= on) and `tap`, and queue pairs of `vhost-user` and
    /// `virtio-user`. Arrivals of one leave by the queue of the same number; if only one end has several, each flow leaves by one of them
    #[arg(long, help_heading = TUNING, value_name = "N", default_value = "1", value_parser = values::number(1..=values::QUEUES_MAX))]
    pub(crate) queues: u32,
    /// Threads, up to two for each queue, one for each direction [default: one for each queue]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::number(1..=2 * values::QUEUES_MAX as usize))]
    pub(crate) pollers: Option<usize>,
    /// Waiting mode of the threads
    #[arg(long, help_heading = TUNING, value_name = "MODE", value_parser = values::choice(values::POLL), default_value = "adaptive")]
    pub(crate) poll: Mode,
    /// Processors to pin the threads to, in turn
    #[arg(long, help_heading = TUNING, value_name = "LIST", value_delimiter = ',', value_parser = values::cpu)]
    pub(crate) cpu: Vec<usize>,
    /// Frames of memory for each queue, at least 64: for each direction, or for both if a device makes them share it [default: 16384, or
    /// 4096 between TAPs, and two for each packet beyond 1000 that the discipline holds]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::number(values::FORWARD_FRAMES_MIN..=values::FRAMES_MAX))]
    pub(crate) frames: Option<u32>,
    /// Bytes of memory per frame, a multiple of 64; 512 of them are headroom and placement. Longer packets
    /// take several frames [default: 2048, of which 1536 are a packet's, or 65536 for the super-packets of
    /// TAPs unless --frames is given]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::memory_bytes)]
    pub(crate) frame_bytes: Option<u32>,
    /// Write a capture of the frames that a device reports as sent, in either direction. Dropped frames are not in it
    #[arg(long, value_name = "FILE")]
    pub(crate) mirror: Option<PathBuf>,
    /// One JSON object instead of a table. `packets` and `bytes` are those that devices took, `sent` those that left, `failed` those that
    /// were dropped by the device or while they waited. Rates are of sent packets over `active_seconds`: from the first packet to the last,
    /// without pauses of a second and more
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page of the run into this folder (report.html, opens without a network): rates, packets that wait, byte limit, queue delay
    /// by band and drops over time, a sample every 100 ms, and the summary
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) recovery: RecoveryArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

impl ForwardArgs {
    /// The ends, in order.
    pub(crate) fn ends(&self) -> Vec<&DeviceSpec> {
        [&self.a, &self.b].into_iter().chain(&self.ports).collect()
    }
}
