//! One transmit queue: the real `TxEngine` behind modelled locks.

use super::Setup;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use wharf::testing;
use wharf_core::counters::QueueCounters;
use wharf_core::device::{Device, TxDevice};
use wharf_core::engine::{Sink, Source, TxEngine};
use wharf_core::pool::{Cache, PagePool};
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_mem::{Batch, Frame};
use wharf_sim::RunError;
use wharf_sim::engine::VirtualClock;
use wharf_sim::engine::lock::SpinLock;
use wharf_sim::nic::simple::Driver;

/// One queue.
#[derive(Debug)]
pub(super) struct TxQueue {
    pub(super) root: SpinLock,
    pub(super) txq: SpinLock,
    /// True while a processor runs the qdisc.
    pub(super) running: bool,
    /// Frames enqueued since the engine last looked.
    pub(super) list: List,
    pub(super) run: TxEngine,
    pub(super) counters: Arc<QueueCounters>,
    /// Packets of each driver call whose completion is to come.
    pub(super) calls: VecDeque<u32>,
    /// The qdisc's limit, in packets.
    limit_packets: usize,
    ring_frames: usize,
    wake_free_frames: usize,
    stopped: bool,
}

impl TxQueue {
    pub(super) fn new(
        mut driver: Driver, pool: &PagePool, setup: &Setup, clock: Arc<VirtualClock>,
    ) -> Result<Self, RunError> {
        driver.attach(pool.region().clone())?;
        let device: Box<dyn TxDevice> = match &setup.errors {
            Some(errors) => Box::new(testing::Fault::new(driver, errors)),
            None => Box::new(driver),
        };
        let counters = Arc::new(QueueCounters::default());
        let qdisc = Box::new(Fifo::new(FifoLimit::Packets(setup.qdisc_packets)));
        let hold = Duration::from_nanos(setup.hold_ns);
        let mut run = TxEngine::new(pool.region(), device.into(), qdisc, hold, clock, counters.clone());
        if !setup.byte_limit {
            run.set_bql(None);
        }
        run.set_batching(setup.batching);
        let lock = || SpinLock::new(setup.costs.lock_kind, setup.costs.lock);
        Ok(Self {
            root: lock(),
            txq: lock(),
            running: false,
            list: List::default(),
            run,
            counters,
            calls: VecDeque::new(),
            limit_packets: setup.qdisc_packets,
            ring_frames: setup.ring_frames,
            wake_free_frames: setup.wake_free_frames.min(setup.ring_frames - 1).max(1),
            stopped: false,
        })
    }

    /// True if the device would take a packet now.
    pub(super) fn is_open(&mut self) -> bool {
        self.run.bql().is_none_or(|bql| bql.available() >= 0) && !self.is_stopped()
    }

    /// True if the ring has stopped the queue, and is not free enough yet.
    pub(super) fn is_stopped(&mut self) -> bool {
        let free_frames = self.ring_frames.saturating_sub(self.run.in_device() + 1);
        self.stopped = free_frames < if self.stopped { self.wake_free_frames } else { 1 };
        self.stopped
    }

    /// Returns the driver calls that `packets` completions end.
    pub(super) fn calls_done(&mut self, packets: u32) -> u64 {
        let (mut left, mut done) = (packets, 0);
        while let Some(first) = self.calls.front_mut() {
            if *first > left {
                *first -= left;
                break;
            }
            left -= *first;
            self.calls.pop_front();
            done += 1;
        }
        done
    }

    /// True if packets wait.
    pub(super) fn has_backlog(&self) -> bool {
        !self.list.0.is_empty() || self.run.backlog() > 0
    }

    /// True if the qdisc takes another packet. The streams' windows keep within its limit. If they do not,
    /// the setup is wrong, since the model has no path for drops.
    pub(super) fn has_room(&self) -> bool {
        self.list.0.len() + self.run.backlog() < self.limit_packets
    }
}

/// Packets enqueued, in order.
#[derive(Debug, Default)]
pub(super) struct List(pub(super) VecDeque<Frame>);

impl Source for List {
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize {
        let count = max.min(to.room()).min(self.0.len());
        for frame in self.0.drain(..count) {
            let pushed = to.push(frame);
            debug_assert!(pushed.is_ok(), "bounded by the room");
        }
        count
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The sink of completed packets: counts them for their stream, and returns them to the pool.
pub(super) struct CompletionSink<'a> {
    pub(super) cache: &'a mut Cache,
    pub(super) counts: &'a mut [u32],
}

impl Sink for CompletionSink<'_> {
    fn recycle(&mut self, done: &mut Batch) {
        for frame in done.frames() {
            self.counts[usize::from(frame.sender())] += 1;
        }
        let given = self.cache.give(done);
        debug_assert!(given.is_ok(), "there is only one pool");
    }
}
