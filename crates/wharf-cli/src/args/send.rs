//! `wharf send`.

use super::HostArgs;
use super::RecoveryArgs;
use super::TUNING;
use super::WatchArgs;
use super::sandbox::SandboxArgs;
use super::values::{self, SmallQueues, WhenFull};
use super::wrap::WrapArgs;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use wharf::qdisc::QdiscSpec;
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_core::poller::Mode;
use wharf_devices::pcap::format::Way;
use wharf_devices::spec::DeviceSpec;
use wharf_tools::traffic::Pace;

const EXAMPLES: &str = "\
Examples:
  wharf send --pcap data/sample.pcap
      replay the capture for a second with batching and for a second without, and compare
  wharf send --pcap data/sample.pcap --rate original --to pcap:out.pcap
      the capture once, as fast as it was captured, into another capture
  wharf send --pcap data/sample.pcap --rate 2x --loop 0 --loop-gap 1 --to packet:eth0
      twice as fast as it was captured, again and again, with a second between two rounds
  tcpdump -U -i eth0 -w - | wharf send --pcap - --to packet:eth1
      what another program captures, as it comes
  wharf send --imix --flows 100 --senders 3 --rate 1g --seconds 5 --to wire:rate=10gbit
      three senders, a hundred flows, a gigabit a second in all
  wharf send --size 1500 --src 2001:db8::1 --vlan 100 --count 1m --json
  wharf send --imix --count 10m --echo --to virtio-user:/run/switch.sock
      through a switch that returns everything: each packet is checked
  wharf send --size 1514 --qdisc prio --priority-rate 1kpps --seconds 5 --to packet:eth0
      a sparse flow that overtakes: the receiver says how long each DSCP's packets took

Generated packets are UDP over IPv4 or IPv6, by the addresses, and carry a sequence number per sender and a \
time stamp. Over `wire` a receiver in this process compares every byte of every frame and checks the order of \
each sender's.

At --rate, frames are due at fixed times from the start, and late ones are caught up with. \
The timing error is the time at which a frame had been handed to the device, doorbell rung, minus the time at which it was due.

At top speed over `wire` or `null`, traffic that neither --loop nor --count bounds is sent twice, with batching \
and without, unless --batch is given: for a second each, or for --seconds.

A run over a `wire` with a delay waits at its end for packets on the wire, for the delay at most, and says so on \
a terminal. Packets still on the wire when a signal ends that wait count as not arrived.

SIGINT, SIGTERM and SIGHUP end a run with its summary and exit code 0, within half a second; a second one adds nothing.";

/// Traffic, a device, and how to send.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct SendArgs {
    /// Replay this capture (pcap or pcapng) of any size; several senders share one of up to 256 MiB by flow.
    /// `-` is standard input: a stream, as a fifo is, whose frames are sent once, by one sender, as they
    /// come. Records of length 0, or of 262144 bytes, are skipped and counted; a longer one ends the run, as
    /// a damaged file does
    #[arg(long, value_name = "FILE", help_heading = "A capture")]
    pub(crate) pcap: Option<PathBuf>,
    /// Times to go through the capture; 0 goes on until a signal
    #[arg(long = "loop", value_name = "N", requires = "pcap", value_parser = values::rounds, help_heading = "A capture")]
    pub(crate) rounds: Option<u64>,
    /// Shorten longer gaps of the capture to this: 1, 500ms. At its own pace
    #[arg(long, value_name = "S", requires = "pcap", value_parser = values::seconds, help_heading = "A capture")]
    pub(crate) max_gap: Option<Duration>,
    /// Time from the last packet of a round to the first of the next, at its own pace [default: the mean gap]
    #[arg(long, value_name = "S", requires = "pcap", value_parser = values::seconds, help_heading = "A capture")]
    pub(crate) loop_gap: Option<Duration>,
    /// After a pause of this process, device or stream, send at once what came to be due in the last 100 ms of
    /// it, say, or all; what was due before is due later, as all that follows
    #[arg(long, help_heading = TUNING, value_name = "TIME", default_value = "100ms", value_parser = values::catch_up)]
    pub(crate) catch_up: Duration,
    /// Send the packets that came to the host that captured them (in), or that it sent (out), as the headers
    /// of a Linux cooked capture (`tcpdump -i any`) tell; the others are counted as `direction`
    #[arg(long, value_name = "WAY", requires = "pcap", value_parser = values::choice(WAYS), help_heading = "A capture")]
    pub(crate) direction: Option<Way>,
    /// Send nothing of a capture that ends within a record, or is damaged. A large file is then read once
    /// before
    #[arg(long, requires = "pcap", help_heading = "A capture")]
    pub(crate) strict: bool,

    /// Generate frames of N bytes, check sequence not counted
    #[arg(long, value_name = "N", conflicts_with_all = ["pcap", "imix"], value_parser = values::number(60u32..=65535), help_heading = GENERATE)]
    pub(crate) size: Option<u32>,
    /// Generate frames of 60, 590 and 1514 bytes, 7 to 4 to 1
    #[arg(long, conflicts_with = "pcap", help_heading = GENERATE)]
    pub(crate) imix: bool,
    /// Source address, IPv4 or IPv6 [default: 192.0.2.1, or 2001:db8::1 if --dst is IPv6]
    #[arg(long, value_name = "IP", conflicts_with = "pcap", help_heading = GENERATE)]
    pub(crate) src: Option<IpAddr>,
    /// Destination address [default: 198.51.100.1, or 2001:db8::2 if --src is IPv6]
    #[arg(long, value_name = "IP", conflicts_with = "pcap", help_heading = GENERATE)]
    pub(crate) dst: Option<IpAddr>,
    /// Ethernet source and destination of generated frames [default: 02:00:00:00:00:01,02:00:00:00:00:02],
    /// and of a capture's packets that have none: raw IP, loopback, Linux cooked (source as captured)
    #[arg(long, value_name = "SRC,DST", value_parser = values::macs)]
    pub(crate) mac: Option<values::Macs>,
    /// Tag frames with this VLAN, 1 to 4094
    #[arg(long, value_name = "ID", conflicts_with = "pcap", value_parser = values::number(1u16..=4094), help_heading = GENERATE)]
    pub(crate) vlan: Option<u16>,
    /// Flows in all, distinguished by source port [default: one per sender]
    #[arg(long, value_name = "N", conflicts_with = "pcap", value_parser = values::number(1u32..=64512), help_heading = GENERATE)]
    pub(crate) flows: Option<u32>,
    /// TOS byte of IPv4, or traffic class of IPv6, 0 to 255 or 0x00 to 0xff; DSCP is its upper six bits
    #[arg(long, value_name = "TOS", default_value = "0", conflicts_with = "pcap", value_parser = values::tos, help_heading = GENERATE)]
    pub(crate) tos: u8,
    /// Hand packets over as super-packets (UDP segmentation) of SIZE bytes at most, such as 16k: the device, or the path before it,
    /// segments them into frames of --size bytes
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["pcap", "imix"], value_parser = values::gso, help_heading = GENERATE)]
    pub(crate) gso: Option<u32>,
    /// Add a sender of a sparse flow: short packets of the first band (TOS 0x10) at this rate, such as 1kpps, which overtake with
    /// `--qdisc prio`. It ends with the others; neither --count nor --rate counts it
    #[arg(long, value_name = "RATE", conflicts_with = "pcap", value_parser = values::rate, help_heading = GENERATE)]
    pub(crate) priority_rate: Option<Pace>,

    /// Rate of all senders together: 1mpps, 20mbit or 1g (bits of frames); top; original (by the capture's
    /// time stamps) or a multiple of that, such as 2x [default: original for a capture, but top into `null`,
    /// `wire` and `pcap`, and for generated packets]
    #[arg(long, visible_alias = "speed", value_name = "RATE", value_parser = values::speed)]
    pub(crate) rate: Option<Pace>,
    /// Packets in all. A capture goes round until then, unless --loop ends it
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// End each run after this time: 2, 0.5, 300ms, 1min. It begins once the device is open: a peer with `server=on` has 60 s to come
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Device to send to: see `wharf devices` [default: wire]
    #[arg(value_name = "DEVICE", value_parser = values::device, conflicts_with = "to")]
    sent_to: Option<DeviceSpec>,
    /// The same, as an option
    #[arg(long, value_name = "DEVICE", value_parser = values::device, default_value = "wire")]
    pub(crate) to: DeviceSpec,
    /// Transmit queues (of `packet`, `xdp`, `tap`, `igb` or `null`): each flow goes by one of them
    #[arg(long, help_heading = TUNING, value_name = "N", default_value = "1", value_parser = values::number(1..=values::QUEUES_MAX))]
    pub(crate) queues: u32,
    /// Packets come back by the same device (`xdp`, `tap`, `vhost-user`, `virtio-user`, `e1000`, `igb`), from a switch or a port that
    /// returns everything: receive them, and check every byte and the order
    #[arg(long, help_heading = TUNING, conflicts_with = "gso")]
    pub(crate) echo: bool,
    /// Waiting mode of the poller, the thread that takes completions when no sender does
    #[arg(long, help_heading = TUNING, value_name = "MODE", value_parser = values::choice(values::POLL), default_value = "adaptive")]
    pub(crate) poll: Mode,
    /// Threads that send
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number(1..=values::SENDERS_MAX))]
    pub(crate) senders: u16,
    /// Processors to pin threads to: the senders in turn, then the receiver, and again from the first
    #[arg(long, help_heading = TUNING, value_name = "LIST", value_delimiter = ',', value_parser = values::cpu)]
    pub(crate) cpu: Vec<usize>,
    /// Queueing discipline
    #[arg(long, value_name = "QDISC", default_value = "fifo", value_parser = values::qdisc)]
    pub(crate) qdisc: QdiscSpec,
    /// Treatment of packets when the discipline is full
    #[arg(long, value_name = "WAY", value_enum, default_value_t = WhenFull::Wait)]
    pub(crate) when_full: WhenFull,
    /// Bytes that one sender may have inside before it waits (as TCP small queues): on (about 1 ms of its rate, at most 1m), off, or
    /// another maximum, such as 64k; on unless packets are dropped
    #[arg(long, help_heading = TUNING, value_name = "SIZE", value_parser = values::small_queues)]
    pub(crate) small_queues: Option<SmallQueues>,
    /// Frames handed to the device at a time: on (as its byte limit allows), off (one) or bytes=N
    #[arg(long, help_heading = TUNING, value_name = "BATCH", value_parser = values::batching)]
    pub(crate) batch: Option<Batching>,
    /// Byte queue limit, the bytes that the device may have in flight: on (learnt), off (as much as its ring
    /// holds), min=SIZE, max=SIZE, gather=TIME (completions of that time count as one) or several
    /// (min=64k,max=1m)
    #[arg(long, value_name = "LIMIT", default_value = "on", value_parser = values::byte_limits)]
    pub(crate) bql: Bounds,
    /// Most frames that a sender hands over at a time [default: 64; to udp as many of one size as go in one message]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::number(1..=values::BURST_MAX))]
    pub(crate) burst: Option<usize>,
    /// Frames of memory [default: 4096, or fewer beyond 256 MiB in all]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::number(1..=values::FRAMES_MAX))]
    pub(crate) frames: Option<u32>,
    /// Bytes of memory per frame, a multiple of 64; 512 of them are headroom and placement [default: 2048, of
    /// which 1536 are a packet's, or what the longest frame or super-packet needs]
    #[arg(long, help_heading = TUNING, value_name = "N", value_parser = values::memory_bytes)]
    pub(crate) frame_bytes: Option<u32>,
    /// One JSON object instead of a table. `packets` and `bytes` are those that devices took, `sent` those that left, `failed` those that
    /// were dropped by the device or while they waited; rates are of sent packets
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page of the run into this folder (report.html, opens without a network): rates, packets that wait, byte limit, queue
    /// delay and drops over time, a sample every 100 ms, the delays of all packets, and the summary
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) recovery: RecoveryArgs,
    #[command(flatten)]
    pub(crate) wrap: WrapArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

const GENERATE: &str = "Generated packets";
const WAYS: &[values::Choice<Way>] =
    &[("in", "Those that came", Way::In), ("out", "Those that it sent", Way::Out)];

impl SendArgs {
    /// Puts the device that is named by its position in its place.
    pub(crate) fn placed(mut self) -> Self {
        self.to = self.sent_to.take().unwrap_or(self.to);
        self
    }
}
