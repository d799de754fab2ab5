//! `Receiving`: the far end of one direction.
//!
//! It copies the bytes from the sender's memory into frames of its own, and sends the sender's frames back at
//! once: that is their completion. With a delay its own frames then wait until they are due.

use super::link::{Link, Unread};
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::host::Clock;
use wharf_core::pool::{Cache, PagePool, PoolError};
use wharf_core::sg_writer::{Placement, SgWriter};
use wharf_mem::lane::{LaneConsumer, LaneProducer};
use wharf_mem::{Batch, Frame, Region};

/// Frames taken off the lane at a time.
const ARRIVED: usize = 64;

pub(super) struct Receiving {
    /// `None` once closed.
    arrivals: Option<Arrivals>,
    delay: Option<Delay>,
    /// True if nothing will be received any more.
    ended: bool,
}

/// Frames as they come off the lane.
struct Arrivals {
    link: Arc<Link>,
    from_far: LaneConsumer,
    back: LaneProducer,
    /// The sender's frames, off the lane and not yet copied for lack of memory.
    arrived: Batch,
    theirs: Option<Arc<Region>>,
    ours: Option<Arc<Region>>,
    placer: SgWriter,
}

/// Frames of the receiver that are on their way.
struct Delay {
    delay_ns: u64,
    clock: Arc<dyn Clock>,
    /// Each frame with the time at which it is due.
    frames: VecDeque<(Frame, u64)>,
    landed: Batch,
    /// The pool that takes them if they are never received.
    pool: Option<PagePool>,
}

impl Receiving {
    pub(super) fn new(
        link: Arc<Link>, from_far: LaneConsumer, back: LaneProducer, delay_ns: u64, clock: Arc<dyn Clock>,
    ) -> Self {
        let (arrived, placer) = (Batch::new(ARRIVED), SgWriter::default());
        let arrivals = Arrivals { link, from_far, back, arrived, theirs: None, ours: None, placer };
        let delay = (delay_ns > 0).then(|| Delay::new(delay_ns, clock, arrivals.back.capacity()));
        Self { arrivals: Some(arrivals), delay, ended: false }
    }

    #[inline]
    pub(super) fn receive(
        &mut self, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<usize, PoolError> {
        let Some(arrivals) = &mut self.arrivals else { return Ok(0) };
        let budget = budget.min(to.room());
        let received = match &mut self.delay {
            None => arrivals.land(cache, to, budget)?,
            Some(delay) => delay.receive(arrivals, cache, to, budget)?,
        };
        if received == 0 && budget > 0 {
            let under_way = self.delay.as_ref().is_some_and(|delay| !delay.frames.is_empty());
            self.ended = !under_way && arrivals.have_ended();
        }
        Ok(received)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns in how many nanoseconds the first frame on its way is due.
    pub(super) fn next_landing_ns(&self) -> Option<u64> {
        let delay = self.delay.as_ref()?;
        let (_, due_ns) = delay.frames.front()?;
        Some(due_ns.saturating_sub(delay.clock.now_ns()))
    }

    /// Hangs up: frames not yet copied go back to their sender, frames on their way to their pool.
    pub(super) fn close(&mut self) {
        self.ended = true;
        if let Some(Arrivals { link, from_far, arrived, .. }) = self.arrivals.take() {
            link.hang_up(Unread { arrived, lane: from_far });
        }
        if let Some(delay) = &mut self.delay {
            delay.give_up();
        }
    }
}

impl Arrivals {
    /// Copies up to `max` frames into memory of `cache` and pushes them onto `to`, which has room. Returns
    /// the number of frames.
    #[inline]
    fn land(&mut self, cache: &mut Cache, to: &mut Batch, max: usize) -> Result<usize, PoolError> {
        let mut landed = 0;
        while landed < max {
            if self.arrived.is_empty() && self.from_far.pop(&mut self.arrived, max - landed) == 0 {
                break;
            }
            let count = match self.plain(cache, max - landed) {
                0 => self.land_one(cache, to)?,
                plain => self.land_plain(cache, to, plain)?,
            };
            match count {
                Some(count) => landed += count,
                None => break,
            }
        }
        Ok(landed)
    }

    /// Returns the number of frames, from the first on and up to `max`, that are ordinary and fit one frame
    /// each.
    #[inline]
    fn plain(&mut self, cache: &Cache, max: usize) -> usize {
        let region = cache.pool().region();
        if self.ours.as_ref().is_none_or(|ours| ours.number() != region.number()) {
            self.ours = Some(region.clone());
        }
        if self.theirs.is_none() {
            self.theirs = self.link.region().cloned();
        }
        let Some(theirs) = &self.theirs else { return 0 };
        let (pool, len_bytes_max) = (theirs.number(), region.data_bytes_max());
        let plain = |frame: &&Frame| {
            !frame.has_meta() & (frame.pool() == pool) & (frame.len_bytes() <= len_bytes_max)
        };
        self.arrived.frames().iter().take(max).take_while(plain).count()
    }

    /// Copies `count` ordinary frames; `None` without memory.
    #[inline]
    fn land_plain(
        &mut self, cache: &mut Cache, to: &mut Batch, count: usize,
    ) -> Result<Option<usize>, PoolError> {
        let (Some(theirs), Some(ours)) = (&self.theirs, &self.ours) else { return Ok(None) };
        let taken = match cache.take(to, count, 0) {
            Ok(taken) => taken,
            Err(PoolError::Exhausted { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let start = to.len() - taken;
        for (from, into) in self.arrived.frames().iter().zip(&mut to.frames_mut()[start..]) {
            let bytes = theirs.bytes(from)?;
            ours.set_len(into, bytes.len() as u32)?;
            ours.bytes_mut(into)?.copy_from_slice(bytes);
        }
        self.back.push_first(&mut self.arrived, taken);
        Ok(Some(taken))
    }

    /// Copies the first frame, of any shape. Returns 1, or 0 if it failed; `None` without memory.
    #[cold]
    fn land_one(&mut self, cache: &mut Cache, to: &mut Batch) -> Result<Option<usize>, PoolError> {
        let Some(frame) = self.arrived.frames().first() else { return Ok(Some(0)) };
        let placed = match &self.theirs {
            None => Err("not-attached"),
            Some(theirs) => match (theirs.chunks(frame), theirs.meta(frame)) {
                (Ok(chunks), Ok(meta)) => {
                    Ok(self.placer.place(cache, to, chunks, frame.len_bytes(), &meta)?)
                }
                _ => Err("foreign-pool"),
            },
        };
        let reason = match placed {
            Ok(Placement::Done) => {
                self.back.push_first(&mut self.arrived, 1);
                return Ok(Some(1));
            }
            Ok(Placement::NoMemory) => return Ok(None),
            Ok(Placement::TooLong) => "too-long",
            Err(reason) => reason,
        };
        if let Some(frame) = self.arrived.pop() {
            self.link.fail(frame, reason);
        }
        Ok(Some(0))
    }

    /// Returns true if the sender is gone and all its frames have been taken.
    #[cold]
    fn have_ended(&mut self) -> bool {
        self.arrived.is_empty() && self.from_far.is_abandoned() && self.from_far.ready_now() == 0
    }
}

impl Delay {
    fn new(delay_ns: u64, clock: Arc<dyn Clock>, capacity: usize) -> Self {
        let frames = VecDeque::with_capacity(capacity);
        Self { delay_ns, clock, frames, landed: Batch::new(ARRIVED), pool: None }
    }

    fn receive(
        &mut self, arrivals: &mut Arrivals, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<usize, PoolError> {
        let now_ns = self.clock.now_ns();
        self.take_in(arrivals, cache, now_ns)?;
        let mut received = 0;
        while received < budget && self.frames.front().is_some_and(|&(_, due_ns)| due_ns <= now_ns) {
            self.frames.pop_front().into_iter().for_each(|(frame, _)| to.push_within(frame));
            received += 1;
        }
        Ok(received)
    }

    /// Copies the frames that have arrived, at most a ring of them.
    fn take_in(&mut self, arrivals: &mut Arrivals, cache: &mut Cache, now_ns: u64) -> Result<(), PoolError> {
        if self.pool.as_ref().is_none_or(|pool| pool.region().number() != cache.pool().region().number()) {
            self.pool = Some(cache.pool().clone());
        }
        let due_ns = now_ns.saturating_add(self.delay_ns);
        let mut left = arrivals.back.capacity();
        while left > 0 {
            let landed = arrivals.land(cache, &mut self.landed, left.min(ARRIVED))?;
            if landed == 0 {
                break;
            }
            left -= landed;
            self.frames.extend(self.landed.pop_each().map(|frame| (frame, due_ns)));
        }
        Ok(())
    }

    /// Gives the frames on their way back to their pool.
    fn give_up(&mut self) {
        let Some(pool) = &self.pool else { return };
        while let Some((frame, _)) = self.frames.pop_front() {
            self.landed.push_within(frame);
            // This fails for a frame of a pool that an earlier caller received into: that pool's ledger names
            // it.
            if pool.give_back(&mut self.landed).is_err() {
                self.landed.pop();
            }
        }
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.give_up();
    }
}
