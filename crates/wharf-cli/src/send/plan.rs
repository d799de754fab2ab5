//! The traffic of a run, checked and loaded before anything is started.

use super::captured::{captured, check_stream, tell_streamed};
use super::ends::{Ends, pace};
use super::traffic::{Traffic, frame_bytes_for};
use crate::args::{SendArgs, SmallQueues, WhenFull};
use crate::files::{check_written, first_file};
use crate::session::check_cpus;
use crate::signals::Signals;
use crate::usage;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wharf_core::engine::Batching;
use wharf_core::random::SplitMix64;
use wharf_core::small_queue::SMALL_QUEUE_BYTES;
use wharf_devices::pcap::TOO_LONG;
use wharf_devices::pcap::format::Rotation;
use wharf_devices::registry::Registry;
use wharf_devices::spec::{Direction, Kind, QueueLayout};
use wharf_tools::traffic::{GeneratorSpec, Pace, Sizes, Skipped};

/// Most frames that a sender hands over at a time.
const BURST_PACKETS: usize = 64;
/// Low delay (RFC 1349): the kernel's first band.
const TOS_LOW_DELAY: u8 = 0x10;
/// Frames of memory by default, and the bytes of all of them from which on there are fewer.
const FRAMES: u32 = 4096;
const MEMORY_BYTES: u32 = 256 << 20;
/// The same for a capture of any size, whose memory is to be small.
const MEMORY_BYTES_STREAM: u32 = 16 << 20;
/// 2001:db8::1 and ::2, from the range kept for documentation.
const IPV6_SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const IPV6_DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// One `wharf send`: its arguments, checked, and the values that follow from several of them.
pub(super) struct Plan<'a> {
    pub(super) args: &'a SendArgs,
    /// The traffic as a phrase, for the summary.
    pub(super) what: String,
    pub(super) traffic: Traffic,
    /// The time limit of each run.
    pub(super) time: Option<Duration>,
    /// Nothing but a signal ends it.
    pub(super) is_endless: bool,
    /// One run for each; the first is reported.
    pub(super) batchings: Vec<Batching>,
    pub(super) small_queue_bytes: Option<u32>,
    pub(super) burst: usize,
    pub(super) frame_bytes: u32,
}

impl<'a> Plan<'a> {
    /// Returns the direction that the device is opened in.
    pub(super) fn direction(&self) -> Direction {
        if self.args.echo { Direction::Both } else { Direction::Send }
    }

    pub(super) fn new(args: &'a SendArgs, registry: &Registry, signals: &Signals) -> anyhow::Result<Self> {
        check_cpus(&args.cpu)?;
        check_queues(args, registry)?;
        check_echo(args, registry)?;
        check_stream(args)?;
        let read = args.pcap.as_deref().map(|path| ("--pcap", path));
        let takes_turns =
            args.to.kind().name == "pcap" && matches!(Rotation::of(args.to.options()), Ok(Some(_)));
        let to = args.to.file().map(|path| first_file(path, takes_turns));
        let to = to.as_deref().map(|path| ("--to", path));
        check_written(read, &[to, args.wrap.trace_file(), args.watch.written()])?;
        let ends = Ends::new(args)?;
        let (what, traffic) = match &args.pcap {
            Some(path) => captured(args, path, &ends, signals)?,
            None => generated(args)?,
        };
        Ok(Self {
            args,
            what,
            time: ends.time,
            is_endless: ends.is_endless,
            batchings: match (&traffic, args.batch) {
                (_, Some(batching)) => vec![batching],
                (Traffic::Stream(_), None) => vec![Batching::On],
                _ => ends.batchings(),
            },
            small_queue_bytes: small_queue_bytes(args),
            burst: burst(args)?,
            frame_bytes: args.frame_bytes.unwrap_or_else(|| frame_bytes_for(traffic.longest_bytes())),
            traffic,
        })
    }

    /// Returns the pace of all senders but that of the sparse flow.
    pub(super) fn pace(&self) -> Pace {
        pace(self.args)
    }

    /// Returns the frames of the senders' memory.
    pub(super) fn frames(&self) -> u32 {
        self.args.frames.unwrap_or_else(|| self.frames_within(FRAMES))
    }

    /// Returns `most` frames, or as many as there is memory for by default.
    pub(super) fn frames_within(&self, most: u32) -> u32 {
        let is_stream = matches!(self.traffic, Traffic::Stream(_));
        most.min(if is_stream { MEMORY_BYTES_STREAM } else { MEMORY_BYTES } / self.frame_bytes)
    }

    fn all_skipped(&self) -> Option<Skipped> {
        match &self.traffic {
            Traffic::Stream(stream) => Some(stream.state.counts().skipped),
            Traffic::Replay { split, .. } => Some(split.capture().skipped()),
            Traffic::Generated { .. } => None,
        }
    }

    /// Returns the records of the capture that are not sent, by reason; `None` for generated traffic.
    pub(super) fn skipped(&self) -> Option<BTreeMap<String, u64>> {
        self.all_skipped().map(|skipped| reasons(&skipped))
    }

    /// Notes what is known of a stream by its end.
    pub(super) fn tell_streamed(&self) {
        if let Traffic::Stream(stream) = &self.traffic {
            tell_streamed(self.args, &self.what, &stream.state.counts());
        }
    }

    /// Returns the faults of the capture: the error at which it ended, and records that were to be sent and
    /// are longer than any frame.
    pub(super) fn faults(&self) -> Vec<String> {
        let error = match &self.traffic {
            Traffic::Stream(stream) => stream.state.counts().error,
            Traffic::Replay { split, .. } => split.capture().error().map(ToString::to_string),
            Traffic::Generated { .. } => None,
        };
        let too_long = self.all_skipped().map_or(0, |skipped| skipped.too_long);
        let too_long = (too_long > 0)
            .then(|| format!("{too_long} records of the capture are longer than any frame: {TOO_LONG}"));
        error.into_iter().chain(too_long).collect()
    }

    /// Returns the number of threads that send. That of the sparse flow is the last.
    pub(super) fn threads(&self) -> u16 {
        self.args.senders + u16::from(self.args.priority_rate.is_some())
    }

    /// Returns the pace of thread `at`.
    pub(super) fn pace_of(&self, at: usize) -> Pace {
        let sparse = self.args.priority_rate.filter(|_| at == usize::from(self.args.senders));
        sparse.unwrap_or_else(|| self.pace())
    }
}

/// Returns the names of the kinds that `can`, for a message.
fn kinds_that(registry: &Registry, can: fn(&Kind) -> bool) -> String {
    let names: Vec<&str> = registry.kinds().iter().filter(|kind| can(kind)).map(|kind| kind.name).collect();
    match &names[..] {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        names => names.concat(),
    }
}

/// Checks that what is asked for can be sent by several queues.
fn check_queues(args: &SendArgs, registry: &Registry) -> anyhow::Result<()> {
    let has_several: fn(&Kind) -> bool = |kind| kind.queues == QueueLayout::Devices;
    let why = match args.to.kind() {
        _ if args.queues == 1 => return Ok(()),
        kind if !has_several(kind) => format!("{} can have several", kinds_that(registry, has_several)),
        _ if args.wrap.trace.is_some() || args.wrap.fault.is_some() => {
            "--fault and --trace are for one".into()
        }
        _ if args.when_full == WhenFull::DropTail => "drop-tail is for one".into(),
        _ => return Ok(()),
    };
    Err(usage(format!("--queues {}: {why}", args.queues)))
}

/// Checks that what is sent can come back by the device.
fn check_echo(args: &SendArgs, registry: &Registry) -> anyhow::Result<()> {
    let kind = args.to.kind();
    let (name, can) = (kind.name, kind.can);
    match () {
        () if !args.echo => Ok(()),
        () if args.queues > 1 => Err(usage("--echo is for one queue")),
        () if can.echo => Ok(()),
        () if can.far_end => Err(usage(format!(
            "--echo: what a `{name}` carries is received and checked at its other end already"
        ))),
        () => {
            let others = kinds_that(registry, |kind| kind.can.echo);
            Err(usage(format!("--echo: nothing comes back by `{name}`: {others} receive, too")))
        }
    }
}

/// Returns the reasons that occurred, each with its count.
fn reasons(skipped: &Skipped) -> BTreeMap<String, u64> {
    let by_reason = skipped.by_reason().into_iter().filter(|(_, count)| *count > 0);
    by_reason.map(|(reason, count)| (reason.to_string(), count)).collect()
}

fn generated(args: &SendArgs) -> anyhow::Result<(String, Traffic)> {
    let spec = generator_spec(args)?;
    let made = |spec: &GeneratorSpec| {
        spec.generators().map_err(|error| usage(format!("generated packets: {error}")))
    };
    let mut generators = made(&spec)?;
    let mut what = match spec.sizes {
        Sizes::Fixed(len_bytes) => format!("generated frames of {len_bytes} bytes"),
        Sizes::Imix => "generated frames of 60, 590 and 1514 bytes".into(),
    };
    if spec.super_packets > 1 {
        what = format!("{what} in super-packets of {}", spec.super_packets);
    }
    if args.priority_rate.is_some() {
        generators.extend(made(&priority_spec(&spec))?);
        what = format!("{what}, and a sparse flow of the first band");
    }
    Ok((what, Traffic::Generated { generators, senders: args.senders, packets: args.count }))
}

/// Returns the frames handed over at a time. To a UDP socket, it is as many datagrams of one size as make one message: the rest of a
/// longer burst would be another message, which costs as much again (`bench/udp.sh`).
fn burst(args: &SendArgs) -> anyhow::Result<usize> {
    if let Some(packets) = args.burst {
        return Ok(packets);
    }
    let is_joined = args.to.kind().can.joins_bursts && args.pcap.is_none() && args.gso.is_none();
    let packets = if is_joined { generator_spec(args)?.super_packets_max() } else { 1 };
    Ok(if packets > 1 { packets.into() } else { BURST_PACKETS })
}

/// Returns the specification of the sparse flow: shortest packets, by one more sender, from a port behind the others'.
fn priority_spec(spec: &GeneratorSpec) -> GeneratorSpec {
    let sizes = Sizes::Fixed(spec.shortest_bytes());
    GeneratorSpec {
        sizes,
        flows: 1,
        senders: 1,
        first_sender: spec.senders,
        first_port: spec.flows as u16,
        tos: TOS_LOW_DELAY,
        super_packets: 1,
        ..*spec
    }
}

/// Returns the packets of a super-packet of `--gso` bytes, or an error if the receiver is in this process.
fn super_packets(args: &SendArgs, spec: &GeneratorSpec) -> anyhow::Result<u16> {
    let Some(bytes) = args.gso else { return Ok(1) };
    if args.to.kind().can.far_end {
        let kind = args.to.kind().name;
        return Err(usage(format!(
            "--gso: `{kind}` has super-packets neither cut nor received; try packet or null"
        )));
    }
    let frame_bytes = spec.longest_bytes();
    if bytes < frame_bytes {
        return Err(usage(format!("--gso {bytes}: shorter than one frame of --size {frame_bytes}")));
    }
    let headers = spec.headers_bytes();
    let (payload, most) = (spec.longest_bytes() - headers, spec.super_packets_max());
    Ok((bytes.saturating_sub(headers) / payload.max(1)).clamp(1, most.into()) as u16)
}

/// Returns a number for this run: two runs at a time have the same one once in 256 times.
fn run_number() -> u8 {
    let time_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    SplitMix64::new(time_ns ^ u64::from(std::process::id())).draw() as u8
}

fn generator_spec(args: &SendArgs) -> anyhow::Result<GeneratorSpec> {
    let default = GeneratorSpec::default();
    let is_ipv6 = args.src.or(args.dst).is_some_and(|address| address.is_ipv6());
    let or = |given: Option<IpAddr>, ipv4: IpAddr, ipv6: Ipv6Addr| {
        given.unwrap_or(if is_ipv6 { ipv6.into() } else { ipv4 })
    };
    let [source_mac, destination_mac] = args.mac.unwrap_or([default.source_mac, default.destination_mac]);
    let spec = GeneratorSpec {
        sizes: if args.imix { Sizes::Imix } else { args.size.map_or(default.sizes, Sizes::Fixed) },
        source: or(args.src, default.source, IPV6_SOURCE),
        destination: or(args.dst, default.destination, IPV6_DESTINATION),
        source_mac,
        destination_mac,
        vlan: args.vlan,
        flows: args.flows.unwrap_or(args.senders.into()),
        senders: args.senders,
        run: run_number(),
        first_sender: 0,
        first_port: 0,
        tos: args.tos,
        super_packets: 1,
    };
    Ok(GeneratorSpec { super_packets: super_packets(args, &spec)?, ..spec })
}

/// Returns the bytes that one sender may have inside. A sender that is to lose packets must not be held before that.
fn small_queue_bytes(args: &SendArgs) -> Option<u32> {
    let default = (args.when_full == WhenFull::Wait).then_some(SMALL_QUEUE_BYTES);
    args.small_queues.map_or(default, |SmallQueues(bytes)| bytes)
}
