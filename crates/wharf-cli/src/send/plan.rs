//! The traffic of a run, checked and loaded before anything is started.

use super::traffic::{Stream, Traffic};
use crate::args::{SendArgs, SmallQueues, WhenFull};
use crate::files::check_written;
use crate::output::note;
use crate::session::check_cpus;
use crate::signals::{Signals, Waits};
use crate::usage;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wharf_core::engine::Batching;
use wharf_core::random::SplitMix64;
use wharf_core::small_queue::SMALL_QUEUE_BYTES;
use wharf_devices::pcap::{TOO_LONG, is_stream};
use wharf_devices::registry::Registry;
use wharf_devices::spec::{Direction, Kind, QueueLayout};
use wharf_tools::traffic::{
    CAPTURE_BYTES_MAX, Capture, GeneratorSpec, Pace, Sizes, Skipped, Split, StreamReplay,
};

/// Length of a run that nothing else ends.
const DEFAULT_TIME: Duration = Duration::from_secs(1);
/// Most frames that a sender hands over at a time.
const BURST_PACKETS: usize = 64;
/// Low delay (RFC 1349): the kernel's first band.
const TOS_LOW_DELAY: u8 = 0x10;
/// Bytes of memory of a frame, at least by default.
const FRAME_BYTES: u32 = 2048;
/// Bytes of a frame's memory beside its data, by default: headroom, and placement.
const BESIDE_BYTES: u32 = 512;
/// Frames of memory by default, and the bytes of all of them from which on there are fewer.
const FRAMES: u32 = 4096;
const MEMORY_BYTES: u32 = 256 << 20;
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
        let to = args.to.file().map(|path| ("--to", path));
        check_written(read, &[to, args.wrap.trace_file(), args.watch.written()])?;
        let ends = Ends::new(args)?;
        let (what, traffic) = match &args.pcap {
            Some(path) if is_stream(path) => stream(args, path, signals)?,
            Some(path) => replay(args, path, &ends)?,
            None => generated(args)?,
        };
        Ok(Self {
            args,
            what,
            time: ends.time,
            is_endless: ends.is_endless,
            batchings: args.batch.map_or_else(|| ends.batchings(), |batching| vec![batching]),
            small_queue_bytes: small_queue_bytes(args),
            burst: burst(args)?,
            frame_bytes: args.frame_bytes.unwrap_or_else(|| frame_bytes_for(traffic.longest_bytes())),
            traffic,
        })
    }

    /// Returns the pace of all senders but that of the sparse flow.
    pub(super) fn pace(&self) -> Pace {
        self.args.rate.unwrap_or_default()
    }

    /// Returns the frames of the senders' memory.
    pub(super) fn frames(&self) -> u32 {
        self.args.frames.unwrap_or_else(|| self.frames_within(FRAMES))
    }

    /// Returns `most` frames, or as many as there is memory for by default.
    pub(super) fn frames_within(&self, most: u32) -> u32 {
        most.min(MEMORY_BYTES / self.frame_bytes)
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

    /// Notes the frames of a stream that had been cut short. Those of a file are known, and noted, before.
    pub(super) fn tell_snapped(&self) {
        let Traffic::Stream(stream) = &self.traffic else { return };
        let counts = stream.state.counts();
        tell_snapped(&self.what, counts.snapped, counts.frames);
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

/// The ends of runs, and whether runs are compared.
struct Ends {
    rounds: u64,
    time: Option<Duration>,
    compares: bool,
    is_endless: bool,
}

impl Ends {
    fn new(args: &SendArgs) -> anyhow::Result<Self> {
        let is_inside = args.to.kind().can.stays_inside;
        let at_top = args.rate.is_none_or(Pace::is_top);
        let is_counted = args.rounds.is_some() || args.count.is_some();
        let is_bounded = is_counted || args.seconds.is_some();
        if args.pcap.is_none() && args.rate == Some(Pace::Original) {
            return Err(usage("--rate original: generated packets have no time stamps; it is for --pcap"));
        }
        // Devices that leave this process are sent to until a signal; a file would fill the disk.
        let is_endless = !is_bounded && args.pcap.is_none() && !is_inside;
        if is_endless && args.to.file().is_some_and(|path| !is_stream(path)) {
            return Err(usage("say how much to generate into a file: --count N or --seconds S"));
        }
        let is_stream = args.pcap.as_deref().is_some_and(is_stream);
        let once = !is_bounded && args.pcap.is_some() && (is_stream || !(is_inside && at_top));
        let time = if is_bounded || is_endless || once { args.seconds } else { Some(DEFAULT_TIME) };
        let rounds = args.rounds.unwrap_or(if once { 1 } else { u64::MAX });
        let is_endless = is_endless || (args.rounds == Some(u64::MAX) && time.is_none());
        Ok(Self {
            rounds,
            time,
            is_endless,
            compares: is_inside && at_top && !is_stream && !is_counted && args.wrap.trace.is_none(),
        })
    }

    fn batchings(&self) -> Vec<Batching> {
        if self.compares { vec![Batching::On, Batching::Off] } else { vec![Batching::On] }
    }
}

/// Checks that a stream is asked for what it can do: one pass, by one sender.
fn check_stream(args: &SendArgs) -> anyhow::Result<()> {
    let Some(path) = args.pcap.as_deref().filter(|path| is_stream(path)) else { return Ok(()) };
    let why = match () {
        () if args.rounds.is_some_and(|rounds| rounds != 1) => "--loop: a stream cannot be read again",
        () if args.senders > 1 => "--senders: a stream goes by one sender",
        () => return Ok(()),
    };
    Err(usage(format!("--pcap {}: {why}; a file would do", path.display().to_string().escape_debug())))
}

fn stream(args: &SendArgs, path: &Path, signals: &Signals) -> anyhow::Result<(String, Traffic)> {
    let longest_bytes = args.frame_bytes.unwrap_or(FRAME_BYTES).saturating_sub(BESIDE_BYTES);
    let file = path.display().to_string();
    let waits = Waits::new(format!("--pcap {}: waiting for the capture", file.escape_debug()));
    let opened = path.to_path_buf();
    let replay = signals.unless_asked(&waits, move || StreamReplay::open(&opened, longest_bytes))??;
    let what = format!("{} (a stream)", replay.name());
    Ok((what, Traffic::Stream(Stream::new(replay))))
}

fn replay(args: &SendArgs, path: &Path, ends: &Ends) -> anyhow::Result<(String, Traffic)> {
    let capture = Capture::load(path, CAPTURE_BYTES_MAX)?;
    let skipped = capture.skipped();
    if skipped.empty > 0 {
        let (name, empty) = (capture.name(), skipped.empty);
        let all = capture.len() as u64 + skipped.total();
        note(&format!("{name}: {empty} of {all} records have length 0, and are skipped"));
    }
    tell_snapped(capture.name(), capture.snapped(), capture.len() as u64);
    // A run that has an end reports the error there.
    if let Some(error) = capture.error().filter(|_| ends.is_endless) {
        note(&format!("{error}; the {} frames before are sent", capture.len()));
    }
    let what = format!("{} ({} frames)", capture.name(), capture.len());
    let split = Split::new(Arc::new(capture), args.senders.into(), args.qdisc.kind().order);
    Ok((what, Traffic::Replay { split, rounds: ends.rounds }))
}

fn tell_snapped(name: &str, snapped: u64, all: u64) {
    if snapped > 0 {
        note(&format!(
            "{name}: {snapped} of {all} frames were cut short when captured, and are sent as they are"
        ));
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

/// Returns the bytes of memory of a frame into which `len_bytes` fit, at most [`wharf_mem::FRAME_BYTES_MAX`]: no frame of any
/// traffic is too long for that.
pub(super) fn frame_bytes_for(len_bytes: u32) -> u32 {
    (len_bytes + BESIDE_BYTES).next_multiple_of(64).max(FRAME_BYTES)
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
