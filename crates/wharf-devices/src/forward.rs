//! Forwarding: whatever arrives at one device leaves by another, and the other way round.
//!
//! Each direction is a path of its own, with its own discipline: a receive side that hands what arrives to the sender of a
//! transmit queue. What cannot be sent yet waits, and no more is received meanwhile: then the device's own ring fills, and
//! what it has no room for is dropped there and counted. Frames are never copied on the way; what a device does with its own
//! memory is its affair.
//!
//! ```text
//!   A ── receive ──► Pass ── Sender ──► TxQueue (discipline, byte limit) ── transmit ──► B
//!   A ◄── transmit ── TxQueue ◄── Sender ── Pass ◄── receive ── B
//! ```
//! A device that does both ways by itself ([`End::One`]) shares the pool of the other direction: what arrives there lies where
//! it is sent from. Otherwise each direction has memory of its own, and neither can starve the other.

mod direction;
mod end;
mod pass;

pub use direction::{Direction, Summary};
pub use end::{End, Place};

use crate::host::{HostClock, HostPark, PollerThread};
use end::Sides;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::Device;
use wharf_core::gso::Shortener;
use wharf_core::host::Clock;
use wharf_core::poller::Settings;
use wharf_core::pool::{PagePool, PoolError};
use wharf_core::qdisc::{Fifo, FifoLimit, Qdisc};
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::receive::RxQueue;

/// Frames of memory by default: of one direction, or of both where they share it. A quarter waits for packets at each end of an
/// AF_XDP pair; two rings of 2048, two disciplines of 1000 and what lies in caches come to another half. Disciplines that hold
/// more have more ([`ForwardBuilder::qdisc_packets`]).
pub const FRAMES: u32 = 16384;
/// Bytes of one by default: 1536 of data.
pub const FRAME_BYTES: u32 = 2048;
/// The same where all that is received may be super-packets: fewer, and large enough for one, since the kernel copies few
/// pieces faster than many (`bench/tap.sh`). What is not used takes no memory.
pub const SUPER_FRAMES: u32 = 4096;
/// Least memory of a direction that receives super-packets: four of the longest.
const SUPER_POOL_BYTES: u64 = 4 << 16;
/// Whatever a discipline holds: 256 MiB of ordinary frames, which an AF_XDP end would have the kernel keep in memory.
const FRAMES_MAX: u32 = 1 << 17;
/// Bytes of one, then.
pub const SUPER_FRAME_BYTES: u32 = 65536;
/// Packets in the default discipline: the kernel's `txqueuelen`.
const FIFO_PACKETS: usize = 1000;

/// Why nothing is forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// See [`QueueError`].
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Neither end receives what the other one could send.
    #[error("nothing to forward: {a} and {b} both only send, or both only receive")]
    Nothing {
        /// One end.
        a: String,
        /// The other.
        b: String,
    },
    /// Too little memory for whole super-packets to be received, of 64 KiB each: besides the one that is being received, some is
    /// with the sender, the device and the qdisc.
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
    /// The system gave no thread, or no such processor.
    #[error("cannot start a poller: {0}")]
    Thread(#[from] std::io::Error),
}

/// Makes the discipline of one direction, for frames of a pool.
pub type MakeQdisc = Box<dyn Fn(&PagePool) -> Box<dyn Qdisc>>;

/// How a forwarder should be. See [`Forward::builder`].
#[derive(Debug)]
pub struct ForwardBuilder {
    ends: [End; 2],
    how: How,
}

/// All but the ends.
struct How {
    frames: Option<u32>,
    frame_bytes: Option<u32>,
    qdisc: MakeQdisc,
    qdisc_packets: u32,
    longest_bytes: Option<u64>,
    drops_tail: bool,
    settings: Settings,
    pollers: usize,
    cpus: Vec<usize>,
}

impl std::fmt::Debug for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "How({:?} frames of {:?} bytes, {} pollers)", self.frames, self.frame_bytes, self.pollers)
    }
}

/// Forwards, by threads of its own, until it is finished or dropped.
#[derive(Debug)]
pub struct Forward {
    /// Stopped first.
    pollers: Vec<PollerThread>,
    directions: Vec<Direction>,
}

impl Forward {
    /// Between two devices. A direction for which one end lacks a side is left out.
    pub fn builder(a: End, b: End) -> ForwardBuilder {
        let how = How {
            frames: None,
            frame_bytes: None,
            qdisc: Box::new(|_| Box::new(Fifo::new(FifoLimit::Packets(FIFO_PACKETS)))),
            qdisc_packets: FIFO_PACKETS as u32,
            longest_bytes: None,
            drops_tail: false,
            settings: Settings::default(),
            pollers: 1,
            cpus: Vec::new(),
        };
        ForwardBuilder { ends: [a, b], how }
    }

    /// The directions that there are, that of the first end's arrivals first.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Whether nothing will arrive any more, anywhere, and all that has was taken over.
    pub fn is_over(&self) -> bool {
        self.directions.iter().all(Direction::is_over)
    }

    /// Ends it: nothing is received any more, and what is inside is sent for up to `grace`. What is left then comes back
    /// unsent, and is counted as returned. What was wrong with the devices as they closed is in the summaries.
    pub fn finish(self, grace: Duration) -> Vec<Summary> {
        let Self { pollers, directions } = self;
        drop(pollers);
        let deadline_ns =
            HostClock.now_ns().saturating_add(u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX));
        for direction in &directions {
            direction.drain(deadline_ns);
        }
        let mut closed: Vec<_> = directions.into_iter().map(Direction::close).collect();
        closed.iter().for_each(|summary| drop(summary.queue.shutdown(0)));
        // The directions may share their memory: completions of both come first.
        closed.iter_mut().for_each(Summary::settle);
        closed
    }
}

impl ForwardBuilder {
    /// Frames of memory and bytes of each: [`FRAMES`] and [`FRAME_BYTES`] by default, [`SUPER_FRAMES`] and
    /// [`SUPER_FRAME_BYTES`] between ends that receive super-packets whole.
    #[must_use]
    pub fn memory(mut self, frames: Option<u32>, frame_bytes: Option<u32>) -> Self {
        (self.how.frames, self.how.frame_bytes) = (frames, frame_bytes);
        self
    }

    /// The discipline of each direction; a FIFO of 1000 packets by default.
    #[must_use]
    pub fn qdisc(mut self, make: MakeQdisc) -> Self {
        self.how.qdisc = make;
        self
    }

    /// Packets that a discipline holds, all bands together; 1000 by default. For more than that there is more memory by default, in
    /// each direction, or a full discipline would leave none to receive into.
    #[must_use]
    pub fn qdisc_packets(mut self, packets: u32) -> Self {
        self.how.qdisc_packets = packets;
        self
    }

    /// Cuts super-packets of more than so many bytes on a wire before the discipline: what a token bucket holds, for one.
    #[must_use]
    pub fn longest_bytes(mut self, bytes: u64) -> Self {
        self.how.longest_bytes = Some(bytes);
        self
    }

    /// Drops what the discipline has no room for, in place of letting it wait. A packet of high priority then never waits
    /// behind others for which there is no room.
    #[must_use]
    pub fn drop_tail(mut self, drops: bool) -> Self {
        self.how.drops_tail = drops;
        self
    }

    /// How pollers wait, and how much they do at a time.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.how.settings = settings;
        self
    }

    /// Threads: 1, the default, for both directions, or 2, one each.
    #[must_use]
    pub fn pollers(mut self, pollers: usize) -> Self {
        self.how.pollers = pollers.clamp(1, 2);
        self
    }

    /// Processors to pin the pollers to, in turn; none by default.
    #[must_use]
    pub fn cpus(mut self, cpus: Vec<usize>) -> Self {
        self.how.cpus = cpus;
        self
    }

    /// Begins.
    ///
    /// # Errors
    /// [`ForwardError`]: above all, what a device meets as it is attached to its memory.
    pub fn start(self) -> Result<Forward, ForwardError> {
        let Self { ends, how } = self;
        let mut sides = ends.map(Sides::from);
        let [a, b] = &sides;
        let there = [a.receives() && b.sends(), b.receives() && a.sends()];
        if there == [false; 2] {
            return Err(ForwardError::Nothing { a: a.name.clone(), b: b.name.clone() });
        }
        let large = sides.iter().filter(|side| side.receives()).all(Sides::receives_super_packets);
        let pools = how.pools(there == [true; 2] && (a.is_one || b.is_one), large)?;
        for at in (0..2).filter(|&at| there[at] && sides[at].receives_super_packets()) {
            suffices(&pools[at], &sides[at].name)?;
        }
        let mut queues = [None, None];
        for at in (0..2).filter(|&at| there[at]) {
            let device = sides[1 - at].sending.take();
            queues[at] = device.map(|device| how.queue(&pools[at], device)).transpose()?;
        }
        let names = sides.each_ref().map(|side| side.name.clone());
        let mut directions = Vec::new();
        for at in 0..2 {
            let Some(leaving) = &queues[at] else { continue };
            let from = Source { side: &mut sides[at], back: queues[1 - at].as_ref(), pool: &pools[at] };
            directions.push(how.direction(leaving, from, names[1 - at].clone())?);
        }
        let pollers = how.start_pollers(&directions)?;
        Ok(Forward { pollers, directions })
    }
}

/// Whether there is memory for super-packets to be received.
fn suffices(pool: &PagePool, name: &str) -> Result<(), ForwardError> {
    let (frames, frame_bytes) = (pool.frames(), pool.region().spec().frame_bytes);
    match u64::from(frames) * u64::from(frame_bytes) < SUPER_POOL_BYTES {
        true => Err(ForwardError::TooFew { frames, frame_bytes, name: name.into() }),
        false => Ok(()),
    }
}

/// What a direction's frames leave by.
#[derive(Debug, Clone)]
struct Leaving {
    queue: TxQueue,
    has_bql: bool,
}

/// Where a direction's frames come from.
struct Source<'a> {
    side: &'a mut Sides,
    /// The queue of the other direction, which has the device where that does both.
    back: Option<&'a Leaving>,
    pool: &'a PagePool,
}

impl How {
    /// Memory for each direction: the same where a device does both; `large` where both receive super-packets.
    fn pools(&self, shared: bool, large: bool) -> Result<[PagePool; 2], ForwardError> {
        // Whoever says how many, or how large, has the usual for the other.
        let is_open = large && self.frames.is_none() && self.frame_bytes.is_none();
        let (frames, bytes) = if is_open { (SUPER_FRAMES, SUPER_FRAME_BYTES) } else { (FRAMES, FRAME_BYTES) };
        let further = self.qdisc_packets.saturating_sub(FIFO_PACKETS as u32).saturating_mul(2);
        let frames = self.frames.unwrap_or_else(|| frames.saturating_add(further).min(FRAMES_MAX));
        let pool = || {
            let builder = PagePool::builder().frames(frames);
            let builder = builder.frame_bytes(self.frame_bytes.unwrap_or(bytes));
            builder.clock(Arc::new(HostClock)).build()
        };
        let first = pool()?;
        let second = if shared { first.clone() } else { pool()? };
        Ok([first, second])
    }

    /// Small queues are off: what is forwarded is nobody's own.
    fn queue(&self, pool: &PagePool, device: Box<dyn Device>) -> Result<Leaving, ForwardError> {
        let has_bql = device.capabilities().real_completions;
        let builder = TxQueue::builder(pool, device, Arc::new(HostClock), Arc::new(HostPark));
        let queue = builder.qdisc((self.qdisc)(pool)).small_queues(None).build()?;
        Ok(Leaving { queue, has_bql })
    }

    fn direction(&self, leaving: &Leaving, from: Source<'_>, to: String) -> Result<Direction, ForwardError> {
        let queue = &leaving.queue;
        let name = from.side.name.clone();
        let sender = queue.sender(&format!("from {name}"))?;
        let shortener = self.longest_bytes.map(|bytes| Shortener::new(queue.pool(), bytes));
        let (handler, counts) = match self.drops_tail {
            true => pass::handler(sender.into_drop_tail(), shortener),
            false => pass::handler(sender, shortener),
        };
        let own = from.side.take_receiving();
        let is_of_queue = own.is_none();
        let receiver = match (own, from.back) {
            (Some(device), _) => RxQueue::new(device, from.pool, std::slice::from_ref(queue), handler)?,
            (None, Some(back)) => RxQueue::of(&back.queue, handler)?,
            (None, None) => return Err(ForwardError::Nothing { a: name.clone(), b: name }),
        };
        Ok(Direction::new([name, to], leaving.clone(), receiver, counts, is_of_queue))
    }

    /// Each direction's receiver and queue, by one thread or two. A queue whose device also receives is looked after by whoever
    /// receives from it.
    fn start_pollers(&self, directions: &[Direction]) -> Result<Vec<PollerThread>, ForwardError> {
        let threads = self.pollers.min(directions.len());
        let start = |thread: usize| {
            let mut builder = PollerThread::builder().settings(self.settings);
            if let Some(&cpu) = self.cpus.get(thread % self.cpus.len().max(1)) {
                builder = builder.pin(cpu);
            }
            for (at, direction) in directions.iter().enumerate().filter(|(at, _)| at % threads == thread) {
                builder = builder.receiver(direction.receiver());
                if !directions.iter().enumerate().any(|(other, back)| other != at && back.is_of_queue) {
                    builder = builder.queue(direction.queue());
                }
            }
            builder.start()
        };
        Ok((0..threads).map(start).collect::<Result<_, _>>()?)
    }
}
