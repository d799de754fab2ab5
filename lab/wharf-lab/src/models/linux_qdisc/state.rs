//! The state of processors, softirqs, transmits and streams.

use super::{Queues, Setup};
use std::collections::VecDeque;
use wharf_core::engine::Pause;
use wharf_core::owner::Owner;
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::{Batch, Frame};
use wharf_sim::engine::cpu::{Cpu, Mode, Spent};

/// The work that ends at a processor's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// None: it was woken, or is to wake.
    Idle,
    /// A process has made a packet.
    Making,
    /// A step of a transmit.
    Xmit,
    /// Spinning for a lock: no event until it gets that.
    Spinning,
    /// A step of a softirq.
    Softirq,
}

/// One processor.
#[derive(Debug)]
pub(super) struct Processor {
    pub(super) cpu: Cpu,
    pub(super) doing: Work,
    /// The stream whose process runs here.
    pub(super) process: Option<usize>,
    pub(super) ready: VecDeque<usize>,
    /// The rest of the process's work when an interrupt came.
    pub(super) cut_ns: Option<u64>,
    pub(super) in_softirq: bool,
    pub(super) softirq: Softirq,
    pub(super) xmit: Xmit,
}

impl Processor {
    pub(super) fn new(number: usize, setup: &Setup) -> Self {
        // The kernel, too, spreads the ticks of its processors.
        let tick = setup.costs.tick;
        let first_ns = tick.every_ns * (number as u64 + 1) / (setup.cpus as u64 + 1);
        Self {
            cpu: Cpu::new(tick, first_ns),
            doing: Work::Idle,
            process: None,
            ready: VecDeque::new(),
            cut_ns: None,
            in_softirq: false,
            softirq: Softirq::default(),
            xmit: Xmit::default(),
        }
    }

    /// Returns its time up to `now_ns`, without the spinning for a lock that it does not have yet.
    pub(super) fn spent_until(&self, now_ns: u64) -> Spent {
        let mut spent = self.cpu.spent_until(now_ns);
        // Work was charged when it began; the part that an interrupt has cut off is still to come.
        spent.modes_ns[Mode::System as usize] -= self.cut_ns.unwrap_or(0);
        spent
    }

    /// Returns the mode in which it spends its time.
    pub(super) fn mode(&self) -> Mode {
        if self.in_softirq { Mode::Soft } else { Mode::System }
    }
}

/// The pending softirq work of a processor.
#[derive(Debug, Default)]
pub(super) struct Softirq {
    /// An interrupt has come: poll.
    pub(super) poll: bool,
    /// Polling; interrupts are masked until it is over.
    pub(super) polling: bool,
    /// Queues to run.
    pub(super) run: VecDeque<usize>,
    /// Acknowledgements received: stream, packets.
    pub(super) acked: VecDeque<(usize, u32)>,
    /// Packets that acknowledgements allow to be sent: stream, packets.
    pub(super) allowed: Option<(usize, u32)>,
    pub(super) step: SoftirqStep,
}

/// The step that ends at a softirq's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SoftirqStep {
    /// The interrupt: now the poll.
    #[default]
    Entered,
    /// Completions or an acknowledgement were handled.
    Done,
    /// A packet of the stream that may send was made.
    Made,
}

impl Softirq {
    /// Schedules a run of the qdisc of `queue` (`__netif_schedule`).
    pub(super) fn run_later(&mut self, queue: usize) {
        if !self.run.contains(&queue) {
            self.run.push_back(queue);
        }
    }

    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.poll || !self.run.is_empty() || self.allowed.is_some() || !self.acked.is_empty()
    }
}

/// The step that ends at a transmit's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// It has the root lock.
    #[default]
    HaveRoot,
    /// The bulk is dequeued: the root lock is released for the driver.
    Dequeued,
    /// The driver is done with the bulk: the doorbell follows.
    Driven,
    /// The doorbell has left the processor: the root lock again.
    Rung,
    /// It is done with the root lock.
    Leaving,
}

/// One transmit, of a packet or of waiting packets.
#[derive(Debug, Default)]
pub(super) struct Xmit {
    pub(super) queue: usize,
    /// The packet to enqueue.
    pub(super) frame: Option<Frame>,
    pub(super) phase: Phase,
    /// True if it was begun to run waiting packets, not to enqueue one.
    pub(super) woken: bool,
    /// Set while this transmit runs the qdisc.
    pub(super) owner: Option<Owner>,
    pub(super) taken: u32,
    pub(super) pause: Option<Pause>,
}

/// Frames taken out of the pool at a time.
const STOCK_FRAMES: usize = 64;

/// One stream of packets.
#[derive(Debug)]
pub(super) struct Stream {
    /// The processor of its process.
    pub(super) cpu: usize,
    /// The queue of its packets: the processor's own, if it has one (transmit packet steering).
    pub(super) queue: usize,
    /// The processor of its acknowledgements.
    pub(super) ack_cpu: usize,
    /// Packets in its socket's buffer: not sent yet, and sent but neither completed nor acknowledged.
    pub(super) unsent: u32,
    pub(super) inflight: u32,
    pub(super) asleep: bool,
}

impl Stream {
    pub(super) fn new(number: usize, setup: &Setup) -> Self {
        let cpu = match setup.queues {
            Queues::Each => number % setup.cpus,
            Queues::One => (number + 1) % setup.cpus,
        };
        let shift = setup.traffic.tcp.map_or(0, |tcp| tcp.ack_shift);
        let (queue, ack_cpu) = match setup.queues {
            Queues::Each => (cpu, (cpu + shift) % setup.cpus),
            Queues::One => (0, 0),
        };
        Self { cpu, queue, ack_cpu, unsent: 0, inflight: 0, asleep: false }
    }

    pub(super) fn buffered(&self) -> u32 {
        self.unsent + self.inflight
    }
}

/// A stock of frames.
#[derive(Debug)]
pub(super) struct Stock {
    pub(super) cache: Cache,
    pub(super) frames: Batch,
    pub(super) failed: Option<PoolError>,
}

impl Stock {
    pub(super) fn new(cache: Cache) -> Self {
        Self { cache, frames: Batch::new(STOCK_FRAMES), failed: None }
    }

    /// Takes one frame of `len_bytes`, charged to `stream`.
    #[inline]
    pub(super) fn take(&mut self, stream: usize, len_bytes: u32) -> Option<Frame> {
        if self.frames.is_empty()
            && let Err(error) = self.cache.take(&mut self.frames, STOCK_FRAMES, len_bytes)
        {
            self.failed = Some(error);
        }
        let mut frame = self.frames.pop()?;
        frame.set_sender(stream as u16);
        Some(frame)
    }

    /// Gives back the stock. Returns the first error.
    pub(super) fn close(&mut self) -> Result<(), PoolError> {
        self.cache.give(&mut self.frames)?;
        self.failed.take().map_or(Ok(()), Err)
    }
}
