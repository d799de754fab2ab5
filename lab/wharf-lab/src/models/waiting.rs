//! A sender that always has packets waiting, and probes that pass them all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::counters::QueueCounters;
use wharf_core::device::{Device, TxSide};
use wharf_core::engine::{Sink, Source, TxEngine};
use wharf_core::pool::{Cache, PagePool};
use wharf_core::qdisc::Prio;
use wharf_mem::{Batch, Frame};
use wharf_sim::engine::VirtualClock;
use wharf_sim::nic::simple::Driver;
use wharf_sim::{ConservationChecker, RunError, harness};

/// Streams: the sender's packets, and probes.
pub(super) const BULK: usize = 0;
pub(super) const PROBE: usize = 1;

/// Packets that wait outside of the engine.
pub(super) struct Waiting {
    pub(super) cache: Cache,
    pub(super) probes: VecDeque<Frame>,
    /// Packets that the sender may still put in.
    pub(super) window: usize,
    /// Lengths of its packets, one after the other, and the next one.
    pub(super) lengths_bytes: Vec<u32>,
    pub(super) next: usize,
    pub(super) witness: ConservationChecker,
    pub(super) stock: Batch,
    pub(super) failed: Option<RunError>,
}

impl Waiting {
    /// Creates a sender of `window` packets of these lengths, measured within `window_ns`.
    pub(super) fn new(
        pool: &PagePool, window: usize, lengths_bytes: Vec<u32>, window_ns: (u64, u64),
    ) -> Result<Self, RunError> {
        Ok(Self {
            cache: pool.cache("sender")?,
            probes: VecDeque::new(),
            window,
            lengths_bytes,
            next: 0,
            witness: ConservationChecker::new(2, pool.frames(), window_ns),
            stock: Batch::new(1),
            failed: None,
        })
    }

    /// Checks the rules. Returns the number of packets.
    pub(super) fn finish(mut self, mut run: TxEngine, pool: &PagePool) -> Result<u64, RunError> {
        self.failed.take().map_or(Ok(()), Err)?;
        let accepted = self.witness.packets();
        let inside = run.backlog() + run.in_device() + self.probes.len();
        if inside > 0 {
            return Err(RunError::Conservation { queue: 0, accepted, left: accepted - inside as u64 });
        }
        self.witness.check(0)?;
        run.close(&mut self);
        drop((run, self));
        harness::check_ledger(pool)?;
        Ok(accepted)
    }

    /// Takes a frame for a packet that enters now.
    pub(super) fn take(&mut self, stream: usize, len_bytes: u32) -> Option<Frame> {
        if let Err(error) = self.cache.take(&mut self.stock, 1, len_bytes) {
            self.failed = Some(error.into());
        }
        let mut frame = self.stock.pop()?;
        frame.set_band(if stream == PROBE { 1 } else { 2 });
        frame.set_sender(stream as u16);
        self.witness.enters(stream, frame.index());
        Some(frame)
    }
}

impl Source for Waiting {
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize {
        let mut count = 0;
        while count < max && to.room() > 0 {
            let frame = match self.probes.pop_front() {
                Some(probe) => Some(probe),
                None if self.window == 0 => None,
                None => {
                    self.window -= 1;
                    self.next = (self.next + 1) % self.lengths_bytes.len();
                    self.take(BULK, self.lengths_bytes[self.next])
                }
            };
            let Some(frame) = frame else { break };
            let pushed = to.push(frame);
            debug_assert!(pushed.is_ok(), "there was room");
            count += 1;
        }
        count
    }

    fn is_empty(&self) -> bool {
        self.window == 0 && self.probes.is_empty()
    }
}

impl Sink for Waiting {
    fn recycle(&mut self, done: &mut Batch) {
        self.window += done.frames().iter().filter(|frame| usize::from(frame.sender()) == BULK).count();
        if let Err(error) = self.cache.give(done) {
            self.failed = Some(error.into());
        }
    }
}

/// Creates the engine over a driver, with a `prio` for `window` packets.
pub(super) fn engine(
    mut driver: Driver, window: usize, hold_ns: u64, pool: &PagePool, clock: &Arc<VirtualClock>,
) -> Result<TxEngine, RunError> {
    driver.attach(pool.region().clone())?;
    let (qdisc, hold) = (Box::new(Prio::new(window)), Duration::from_nanos(hold_ns));
    let (device, counters) = (TxSide::Tx(Box::new(driver)), Arc::new(QueueCounters::default()));
    Ok(TxEngine::new(pool.region(), device, qdisc, hold, clock.clone(), counters))
}
