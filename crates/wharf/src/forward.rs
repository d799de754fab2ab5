//! Forwarding: frames that arrive at one device leave by another, both ways.
//!
//! Each direction is a path of its own with its own discipline: a receive side hands arrivals to the sender of a transmit queue.
//! What becomes of frames for which the discipline has no room is its own policy and the sender's ([`ForwardSettings::drop_tail`]). If
//! both wait, the direction receives no more meanwhile: the device's own ring fills, which no discipline reorders, and the device drops
//! and counts frames that do not fit. The forwarder never copies frames; a device may, within its own memory.
//!
//! ```text
//!   A ── receive ──► Pass ── Sender ──► TxQueue (discipline, byte limit) ── transmit ──► B
//!   A ◄── transmit ── TxQueue ◄── Sender ── Pass ◄── receive ── B
//! ```
//! A device that does both ways shares the pool of the other direction: arrivals lie in the memory that it sends
//! from. Otherwise each direction has memory of its own, and neither can starve the other.
//!
//! Ends of several queues: if both have as many, arrivals of one queue leave by the queue of the same number,
//! as if there were that many forwarders, each with memory of its own. A flow keeps the queue that its device
//! chose. If only one end has several, they are one forwarder: the single queue's flows are spread over the
//! others by hash ([`flow_hash`](crate::net::flow_hash)), and the others' flows meet in the single queue.
//! Either way the frames of a flow keep their order.

mod direction;
mod end;
mod line;
mod pass;
mod ring;
mod switch;
mod switched;
mod way;

pub use direction::{Direction, Summary};
pub use way::Way;

use crate::open_error::OpenError;
use crate::port::{Pollers, Port, PortBuilder};
use end::End;
use line::{Line, Lines};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use switched::Switched;
use wharf_core::bql::Bounds;
use wharf_core::host::Clock;
use wharf_core::poller::{PollerCounters, Settings};
use wharf_core::pool::{PagePool, PoolError};
use wharf_core::qdisc::{Fifo, FifoLimit, Qdisc};
use wharf_core::queue::QueueError;
use wharf_devices::host::HostClock;
use wharf_devices::spec::{self, DeviceSpec, Kind, Opened};

/// Frames of memory by default: of one direction, or of both if they share it. A quarter waits for packets at each end of an AF_XDP
/// pair. Two rings of 2048, two disciplines of 1000 and the caches come to another half. Larger disciplines get more
/// ([`ForwardSettings::qdisc_packets`]).
const FRAMES: u32 = 16384;
/// Bytes of a frame by default: 1536 of data.
const FRAME_BYTES: u32 = 2048;
/// Frames where all arrivals may be super-packets: fewer, and each large enough for one, since the kernel copies few pieces faster
/// than many (`bench/tap.sh`). Unused ones take no memory.
const SUPER_FRAMES: u32 = 4096;
/// Least memory of a direction that receives super-packets: four of the longest.
const SUPER_POOL_BYTES: u64 = 4 << 16;
/// Most memory, however large the discipline: 256 MiB of ordinary frames, which an AF_XDP end would pin.
const FRAMES_MAX: u32 = 1 << 17;
/// Bytes of such a frame.
const SUPER_FRAME_BYTES: u32 = 65536;
/// Packets in the default discipline: the kernel's `txqueuelen`.
const FIFO_PACKETS: usize = 1000;

/// The reason why nothing is forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// See [`OpenError`].
    #[error(transparent)]
    Open(#[from] OpenError),
    /// See [`QueueError`].
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Neither end receives frames that the other could send.
    #[error("nothing to forward: {a} and {b} both only send, or both only receive")]
    Nothing {
        /// The first end.
        a: String,
        /// The second end.
        b: String,
    },
    /// The ends have different numbers of queues, and neither has just one.
    #[error("{a_queues} queues of {a} and {b_queues} of {b}: as many of both, or one of one")]
    Queues {
        /// The first end.
        a: String,
        /// Its queues.
        a_queues: usize,
        /// The second end.
        b: String,
        /// Its queues.
        b_queues: usize,
    },
    /// What passes arrivals on could not be made.
    #[error("cannot route: {0}")]
    Ways(#[from] io::Error),
    /// The other end of a device is in this process, where nothing uses it: a wire's.
    #[error("{device}: its other end is in this process, where nothing uses it")]
    OtherEnd {
        /// The device.
        device: String,
    },
    /// A setting that a port of a switch cannot have.
    #[error("{port}: {what}")]
    Port {
        /// Its device.
        port: String,
        /// The reason.
        what: String,
    },
    /// Too little memory for super-packets of 64 KiB: besides the one being received, some are with the sender, the device and the
    /// discipline.
    #[error(
        "{frames} frames of {frame_bytes} B are too few: {name} receives super-packets, which want {SUPER_POOL_BYTES} B in all"
    )]
    TooFew {
        /// Frames.
        frames: u32,
        /// Bytes of each.
        frame_bytes: u32,
        /// The end that receives.
        name: String,
    },
}

/// Makes the discipline of one direction, for frames of a pool.
type MakeQdisc = Box<dyn Fn(&PagePool) -> Box<dyn Qdisc>>;

type MakeWays = Box<dyn Fn([&Port; 2]) -> io::Result<[Way; 2]>>;

/// Settings of a forwarder.
pub struct ForwardSettings {
    /// Frames of memory for each queue: 16,384, or 4096 between ends that receive super-packets whole.
    pub frames: Option<u32>,
    /// Bytes of each: 2048, of which 1536 are of data, or 65,536 between such ends.
    pub frame_bytes: Option<u32>,
    /// Make the disciplines in front of each end, in the order of the ends; the last does for those beyond. What the
    /// disciplines of one maker share, a rate above all, they share by end. A FIFO of 1000 packets.
    pub qdisc: Vec<MakeQdisc>,
    /// Packets that a discipline holds, all bands together: 1000. A larger one gets more memory by default, or a full discipline would
    /// leave none to receive into.
    pub qdisc_packets: u32,
    /// Most bytes on a wire of a super-packet that is not segmented before the discipline: what a token bucket holds, for example.
    pub longest_bytes: Option<u64>,
    /// Bounds of the byte queue limit of each queue.
    pub byte_limits: Bounds,
    /// Most bytes that a direction may have inside before its frames wait: none, since no local sender produces them.
    pub small_queues: Option<u32>,
    /// True to drop frames for which the discipline has no room, in place of having them wait. A packet of high priority then never
    /// waits behind others.
    pub drop_tail: bool,
    /// How pollers wait, and how much they do at a time.
    pub poller: Settings,
    /// Threads: one for each queue, both directions of it. Up to two for each queue are one for each direction; fewer share the queues.
    pub pollers: Option<usize>,
    /// Processors to pin the pollers to, in turn; none.
    pub cpus: Vec<usize>,
    /// Makes what passes on the arrivals of each end, given the ports of both, which then share one pool. For ends
    /// of one queue each; a sender to the other end.
    pub ways: Option<MakeWays>,
    /// Copies a second of what one port of a switch sends to all, or to a station that is not known: 20,000.
    /// One in several buffers counts as so many.
    pub flood_pps: u32,
    /// VLANs of ports of a switch, by name: `10`, one whose frames have no tag there, or several with tags,
    /// `10+20`. The others are in all VLANs, with tags, and in one of their own.
    pub vlans: Vec<(String, String)>,
    /// Time after which a switch forgets a station that it has not seen: 5 minutes.
    pub age: Duration,
}

impl Default for ForwardSettings {
    fn default() -> Self {
        Self {
            frames: None,
            frame_bytes: None,
            qdisc: vec![Box::new(|_| Box::new(Fifo::new(FifoLimit::Packets(FIFO_PACKETS))))],
            qdisc_packets: FIFO_PACKETS as u32,
            longest_bytes: None,
            byte_limits: Bounds::LEARN,
            small_queues: None,
            drop_tail: false,
            poller: Settings::default(),
            pollers: None,
            cpus: Vec::new(),
            ways: None,
            flood_pps: 20_000,
            vlans: Vec::new(),
            age: Duration::from_secs(300),
        }
    }
}

impl std::fmt::Debug for ForwardSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { frames, frame_bytes, pollers, .. } = self;
        write!(f, "ForwardSettings({frames:?} frames of {frame_bytes:?} bytes, {pollers:?} pollers)")
    }
}

/// A forwarder: it runs on threads of its own until it is finished or dropped.
///
/// ```no_run
/// use std::time::Duration;
/// use wharf::forward::{Forward, ForwardSettings};
/// use wharf::{Direction, Port};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ends = ["packet:eth0", "tap:guest"].map(|spec| Port::builder(spec, Direction::Both));
/// let forwarder = Forward::start(ends, &ForwardSettings::default())?;
/// std::thread::sleep(Duration::from_secs(60));
/// for way in forwarder.finish(Duration::from_millis(100)) {
///     println!("{} to {}: {} received, lost: {:?}", way.from, way.to, way.received, way.drops);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Forward {
    pollers: Vec<Arc<Pollers>>,
    directions: Vec<Direction>,
    ports: Vec<Vec<Port>>,
    switch: Option<Switched>,
}

impl Forward {
    /// Returns the directions of a device of `kind` at end 0 or 1: both, or the only one of the kind or the end. A
    /// capture is read at the first end and written at the second.
    pub fn direction_at(end: usize, kind: &Kind) -> spec::Direction {
        match end {
            _ if kind.can.both => spec::Direction::Both,
            0 if kind.can.receive => spec::Direction::Receive,
            1 if !kind.can.send => spec::Direction::Receive,
            _ => spec::Direction::Send,
        }
    }

    /// Returns the settings of the ports of both ends, each opened as [`Forward::direction_at`] says.
    pub fn ends(a: &DeviceSpec, b: &DeviceSpec) -> [PortBuilder; 2] {
        [Self::end(0, a), Self::end(1, b)]
    }

    /// Returns the settings of the ports of end `at`, opened as [`Forward::direction_at`] says.
    pub fn end(at: usize, spec: &DeviceSpec) -> PortBuilder {
        Port::builder_of(spec, Self::direction_at(at, spec.kind()))
    }

    /// Opens `queues` queues of each end that can have several, without memory.
    ///
    /// # Errors
    /// Those of [`PortBuilder::open`].
    pub fn open(ends: impl Into<Vec<PortBuilder>>, queues: u32) -> Result<Vec<PortBuilder>, OpenError> {
        // Packets longer than a frame go through as chains: a device is asked for them as it opens.
        let ends: Vec<_> = ends.into().into_iter().map(|end| end.takes_chains(true)).collect();
        // If one end has one queue only, all queues of the other share memory, as all ports of a switch do.
        let has_pool_each = matches!(&ends[..], [a, b] if a.queues_of(queues) == b.queues_of(queues));
        let pool_shared_by = if has_pool_each { 1 } else { queues };
        ends.into_iter().map(|end| end.open_as(queues, pool_shared_by)).collect()
    }

    /// Starts a forwarder between two devices, of which a queue each is opened unless some are open already: see the
    /// module. Both have as many, or one has one. It leaves out a direction for which one end lacks a side. Of the
    /// settings of the ends' ports, it sets the pools, qdiscs, byte limits, owners and pollers.
    ///
    /// Three devices and more, up to 255, are the ports of a switch that learns: a frame leaves by the port
    /// at which its destination was seen last, or by all.
    ///
    /// # Errors
    /// [`ForwardError`]: above all, a device's error as it is opened, or attached to its memory.
    pub fn start(
        ends: impl Into<Vec<PortBuilder>>, settings: &ForwardSettings,
    ) -> Result<Self, ForwardError> {
        match <[PortBuilder; 2]>::try_from(Self::open(ends, 1)?) {
            Ok(ends) => Self::start_pair(ends, settings),
            Err(ends) => Self::start_switch(ends, settings),
        }
    }

    fn start_pair(
        [mut a, mut b]: [PortBuilder; 2], settings: &ForwardSettings,
    ) -> Result<Self, ForwardError> {
        let (queues_a, queues_b) = (a.take_devices(), b.take_devices());
        let end = |builder, queues: &[Opened]| match queues {
            [] => Err(ForwardError::Queues { a: String::new(), a_queues: 0, b: String::new(), b_queues: 0 }),
            [first, ..] => End::of(builder, first),
        };
        let ends = [end(a, &queues_a)?, end(b, &queues_b)?];
        let counts = [queues_a.len(), queues_b.len()];
        let lines = lines([queues_a, queues_b], &ends)?;
        let there = [0, 1].map(|at| ends[at].receives && ends[1 - at].sends);
        if there == [false; 2] {
            let [a, b] = ends.map(|end| end.name);
            return Err(ForwardError::Nothing { a, b });
        }
        let direction = |at: usize| {
            let [from, to] = [at, 1 - at].map(|at| ends[at].name.clone());
            there[at].then(|| Direction::new(["a-b", "b-a"][at], from, to))
        };
        let directions = vec![direction(0), direction(1)];
        let queues = counts[0].max(counts[1]);
        let receivers = (0..2).filter(|&at| there[at]).map(|at| counts[at]).sum();
        let pollers = settings.pollers_of(queues, receivers);
        let (ports, ends) = (vec![Vec::new(), Vec::new()], Vec::from(ends));
        let mut all = Lines { settings, ends, pollers, queues, directions, ports, is_switch: false };
        for line in lines {
            all.start(line)?;
        }
        let Lines { pollers, directions, ports, .. } = all;
        let directions = directions.into_iter().flatten().collect();
        Ok(Self { pollers, directions, ports, switch: None })
    }

    /// Returns the ports of each end, by queue: for their events and states.
    pub fn ports(&self) -> &[Vec<Port>] {
        &self.ports
    }

    /// Returns its directions, that of the first end's arrivals first.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Returns the counters of its pollers.
    pub fn poller_counters(&self) -> impl Iterator<Item = Arc<PollerCounters>> {
        self.pollers.iter().filter_map(|pollers| pollers.counters())
    }

    /// True if nothing will arrive any more at either end, and all arrivals have left.
    pub fn is_over(&self) -> bool {
        self.directions.iter().all(Direction::is_over)
    }

    /// Ends it: it receives no more, and sends the frames inside for up to `grace`. The rest comes back unsent and is counted as returned.
    /// The summaries have the devices' errors as they closed.
    pub fn finish(mut self, grace: Duration) -> Vec<Summary> {
        self.pollers.iter().for_each(|pollers| pollers.stop());
        let (directions, ports) = (std::mem::take(&mut self.directions), std::mem::take(&mut self.ports));
        let deadline_ns =
            HostClock.now_ns().saturating_add(u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX));
        for direction in &directions {
            direction.drain(deadline_ns);
        }
        let mut closed: Vec<_> = directions.into_iter().map(Direction::close).collect();
        closed.extend(self.take_gone());
        closed
            .iter()
            .flat_map(|summary| &summary.queues)
            .for_each(|queue| drop(queue.shutdown(Duration::ZERO)));
        // The directions may share their memory: completions of both come first.
        closed.iter_mut().for_each(Summary::settle);
        ports.iter().flatten().for_each(|port| drop(port.close(Duration::ZERO)));
        closed
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        // A port that leaves pollers that go on has them begin anew.
        self.pollers.iter().for_each(|pollers| pollers.stop());
    }
}

/// Groups the queues that forward by themselves: queue by queue, or all of them.
fn lines(queues: [Vec<Opened>; 2], ends: &[End; 2]) -> Result<Vec<Line>, ForwardError> {
    let [a, b] = queues.map(|queues| queues.into_iter().enumerate().collect::<Vec<_>>());
    match (a.len(), b.len()) {
        (1.., 1) | (1, 1..) => Ok(vec![Line { queues: [a, b] }]),
        (a_queues, b_queues) if a_queues == b_queues => {
            Ok(a.into_iter().zip(b).map(|(a, b)| Line { queues: [vec![a], vec![b]] }).collect())
        }
        (a_queues, b_queues) => {
            let [a, b] = ends.each_ref().map(|end| end.name.clone());
            Err(ForwardError::Queues { a, a_queues, b, b_queues })
        }
    }
}
