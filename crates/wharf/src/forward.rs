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
//! as if there were that many forwarders, each with memory of its own. A flow keeps the queue that its device chose. If only one end has
//! several, they are one forwarder: the single queue's flows are spread over the others by hash ([`wharf_packet::flow_hash`]), and the
//! others' flows meet in the single queue. Either way the frames of a flow keep their order.

mod delay;
mod direction;
mod end;
mod line;
mod pass;
mod ring;

#[doc(hidden)]
pub use delay::DelayMeter;
pub use delay::QueueDelay;
pub use direction::{Direction, Summary};
pub use end::{End, Place};

use line::Line;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::bql::Bounds;
use wharf_core::host::Clock;
use wharf_core::poller::{PollerCounters, Settings};
use wharf_core::pool::{PagePool, PoolError};
use wharf_core::qdisc::{Fifo, FifoLimit, Qdisc};
use wharf_core::queue::QueueError;
use wharf_devices::host::{HostClock, PollerThread};

/// Frames of memory by default: of one direction, or of both if they share it. A quarter waits for packets at each end of an AF_XDP
/// pair. Two rings of 2048, two disciplines of 1000 and the caches come to another half. Larger disciplines get more
/// ([`ForwardSettings::qdisc_packets`]).
#[doc(hidden)]
pub const FRAMES: u32 = 16384;
/// Bytes of a frame by default: 1536 of data.
#[doc(hidden)]
pub const FRAME_BYTES: u32 = 2048;
/// Frames where all arrivals may be super-packets: fewer, and each large enough for one, since the kernel copies few pieces faster
/// than many (`bench/tap.sh`). Unused ones take no memory.
#[doc(hidden)]
pub const SUPER_FRAMES: u32 = 4096;
/// Least memory of a direction that receives super-packets: four of the longest.
const SUPER_POOL_BYTES: u64 = 4 << 16;
/// Most memory, however large the discipline: 256 MiB of ordinary frames, which an AF_XDP end would pin.
const FRAMES_MAX: u32 = 1 << 17;
/// Bytes of such a frame.
#[doc(hidden)]
pub const SUPER_FRAME_BYTES: u32 = 65536;
/// Packets in the default discipline: the kernel's `txqueuelen`.
const FIFO_PACKETS: usize = 1000;

/// The reason why nothing is forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
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
    /// The system gave no thread, or not the processor asked for.
    #[error("cannot start a poller: {0}")]
    Thread(#[from] std::io::Error),
}

/// Makes the discipline of one direction, for frames of a pool.
#[doc(hidden)]
pub type MakeQdisc = Box<dyn Fn(&PagePool) -> Box<dyn Qdisc>>;

/// Settings of a forwarder.
pub struct ForwardSettings {
    /// Frames of memory for each queue: [`FRAMES`], or [`SUPER_FRAMES`] between ends that receive super-packets whole.
    pub frames: Option<u32>,
    /// Bytes of each: [`FRAME_BYTES`], or [`SUPER_FRAME_BYTES`] between such ends.
    pub frame_bytes: Option<u32>,
    /// Makes the discipline of each direction: a FIFO of 1000 packets.
    pub qdisc: MakeQdisc,
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
}

impl Default for ForwardSettings {
    fn default() -> Self {
        Self {
            frames: None,
            frame_bytes: None,
            qdisc: Box::new(|_| Box::new(Fifo::new(FifoLimit::Packets(FIFO_PACKETS)))),
            qdisc_packets: FIFO_PACKETS as u32,
            longest_bytes: None,
            byte_limits: Bounds::LEARN,
            small_queues: None,
            drop_tail: false,
            poller: Settings::default(),
            pollers: None,
            cpus: Vec::new(),
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
#[derive(Debug)]
pub struct Forward {
    /// Stopped first.
    pollers: Vec<PollerThread>,
    directions: Vec<Direction>,
}

impl Forward {
    /// Starts a forwarder between two devices, each queue of which is an end: see the module. Both have as many, or one has one. It leaves
    /// out a direction for which one end lacks a side.
    ///
    /// # Errors
    /// [`ForwardError`]: above all, a device's error as it is attached to its memory.
    pub fn start(a: Vec<End>, b: Vec<End>, settings: &ForwardSettings) -> Result<Self, ForwardError> {
        let queues = a.len().max(b.len());
        let mut directions = [None, None];
        for line in lines([a, b])? {
            line.start(settings, &mut directions)?;
        }
        let directions: Vec<Direction> = directions.into_iter().flatten().collect();
        let pollers = settings.start_pollers(&directions, queues)?;
        Ok(Self { pollers, directions })
    }

    /// Returns its directions, that of the first end's arrivals first.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Returns the counters of its pollers.
    pub fn poller_counters(&self) -> impl Iterator<Item = &Arc<PollerCounters>> {
        self.pollers.iter().map(PollerThread::counters)
    }

    /// True if nothing will arrive any more at either end, and all arrivals have left.
    pub fn is_over(&self) -> bool {
        self.directions.iter().all(Direction::is_over)
    }

    /// Ends it: it receives no more, and sends the frames inside for up to `grace`. The rest comes back unsent and is counted as returned.
    /// The summaries have the devices' errors as they closed.
    pub fn finish(self, grace: Duration) -> Vec<Summary> {
        let Self { pollers, directions } = self;
        drop(pollers);
        let deadline_ns =
            HostClock.now_ns().saturating_add(u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX));
        for direction in &directions {
            direction.drain(deadline_ns);
        }
        let mut closed: Vec<_> = directions.into_iter().map(Direction::close).collect();
        closed
            .iter()
            .flat_map(|summary| &summary.queues)
            .for_each(|queue| drop(queue.shutdown(Duration::ZERO)));
        // The directions may share their memory: completions of both come first.
        closed.iter_mut().for_each(Summary::settle);
        closed
    }
}

/// Groups the queues that forward by themselves: queue by queue, or all of them.
fn lines(ends: [Vec<End>; 2]) -> Result<Vec<Line>, ForwardError> {
    let name = |ends: &[End]| ends.first().map_or(String::new(), |end| end.name.clone());
    let [a, b] = ends;
    match (a.len(), b.len()) {
        (1.., 1) | (1, 1..) => Ok(vec![Line { ends: [a, b] }]),
        (a_queues, b_queues) if a_queues == b_queues && a_queues > 0 => {
            Ok(a.into_iter().zip(b).map(|(a, b)| Line { ends: [vec![a], vec![b]] }).collect())
        }
        (a_queues, b_queues) => Err(ForwardError::Queues { a: name(&a), a_queues, b: name(&b), b_queues }),
    }
}

impl ForwardSettings {
    /// Starts the pollers: one for each of the `queues`, or as many as were asked for. A queue whose device also receives is served by
    /// the poller that receives from it.
    fn start_pollers(
        &self, directions: &[Direction], queues: usize,
    ) -> Result<Vec<PollerThread>, ForwardError> {
        let receivers: usize = directions.iter().map(|direction| direction.receivers.len()).sum();
        let threads = self.pollers.unwrap_or(queues).clamp(1, receivers.max(1));
        let start = |thread: usize| {
            let mut builder = PollerThread::builder().settings(self.poller);
            if let Some(&cpu) = self.cpus.get(thread % self.cpus.len().max(1)) {
                builder = builder.pin(cpu);
            }
            for (at, direction) in directions.iter().enumerate() {
                // One thread takes both directions of a queue if there are no more threads than queues.
                let is_mine = |&number: &usize| (at * queues + number) % threads == thread;
                let mine = (0..direction.receivers.len()).filter(is_mine);
                builder =
                    mine.fold(builder, |builder, number| builder.receiver(&direction.receivers[number]));
                if !directions.iter().enumerate().any(|(other, back)| other != at && back.is_of_queue) {
                    let mine = (0..direction.queues.len()).filter(is_mine);
                    builder = mine.fold(builder, |builder, number| builder.queue(&direction.queues[number]));
                }
            }
            builder.start()
        };
        Ok((0..threads).map(start).collect::<Result<_, _>>()?)
    }
}
