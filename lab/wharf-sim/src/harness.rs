//! The course of a simulation: it settles, is measured, and drains; then frames and packets are counted.

use crate::RunError;
use crate::engine::{self, Agenda, DRAIN_NS, Random, VirtualClock, World};
use serde::Deserialize;
use std::sync::Arc;
use wharf_core::pool::PagePool;

/// Modelled time between two questions whether to go on.
const SLICE_NS: u64 = 1_000_000;

/// The chance and the times of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Timing {
    /// Seed of the generator.
    pub seed: u64,
    /// Thousandths by which times of work vary, either way.
    pub jitter_permille: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}

impl Timing {
    /// Creates the generator of a run.
    pub fn random(&self) -> Random {
        Random::new(self.seed)
    }

    /// Returns the beginning and the end of the measured time.
    pub fn window(&self) -> (u64, u64) {
        (self.settle_ns, self.settle_ns + self.measure_ns)
    }

    /// True once the measured time is over: sources send nothing new, so that the world drains.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.window().1
    }
}

/// The result of [`settle_measure_drain`].
#[derive(Debug, Clone, Copy)]
pub struct Course<T> {
    /// Sums when measuring began.
    pub before: T,
    /// Sums when measuring ended.
    pub after: T,
    /// Events of the whole run.
    pub events: u64,
}

/// Runs `model` until `from_ns`, measures it until `to_ns`, and drains it; from `to_ns` on it sends nothing
/// new. `totals` returns the sums up to a time. Asks `goes_on` after each slice.
///
/// # Errors
/// [`RunError::Interrupted`]: `goes_on` returned false.
pub fn settle_measure_drain<M: World, T>(
    model: &mut M, agenda: &mut Agenda, clock: &VirtualClock, (from_ns, to_ns): (u64, u64),
    totals: impl Fn(&M, u64) -> T, goes_on: &mut dyn FnMut() -> bool,
) -> Result<Course<T>, RunError> {
    let mut events = 0;
    let mut advance = |model: &mut M, from_ns: u64, to_ns: u64| {
        for slice_ns in (from_ns..to_ns).step_by(SLICE_NS as usize).skip(1).chain([to_ns]) {
            events += engine::run(model, agenda, clock, slice_ns);
            if !goes_on() {
                return Err(RunError::Interrupted);
            }
        }
        Ok(totals(model, to_ns))
    };
    let before = advance(model, 0, from_ns)?;
    let after = advance(model, from_ns, to_ns)?;
    let (mut at_ns, mut step_ns, end_ns) = (to_ns, 100 * SLICE_NS, to_ns + DRAIN_NS);
    while at_ns < end_ns {
        at_ns = end_ns.min(at_ns + step_ns);
        match engine::run(model, agenda, clock, at_ns) {
            // Little is left, or nothing.
            0 => step_ns *= 2,
            done => events += done,
        }
        if !goes_on() {
            return Err(RunError::Interrupted);
        }
    }
    Ok(Course { before, after, events })
}

/// Creates a pool of `frames` that lie `frame_bytes` apart.
///
/// # Errors
/// [`RunError::Pool`].
pub fn pool(frames: u32, frame_bytes: u32, clock: &Arc<VirtualClock>) -> Result<PagePool, RunError> {
    let builder = PagePool::builder().frames(frames).frame_bytes(frame_bytes).huge_pages(false);
    Ok(builder.clock(clock.clone()).build()?)
}

/// Checks that all frames are back in the pool.
///
/// # Errors
/// [`RunError::Ledger`].
pub fn check_ledger(pool: &PagePool) -> Result<(), RunError> {
    let audit = pool.audit();
    if audit.out() == 0 { Ok(()) } else { Err(RunError::Ledger(audit.to_string())) }
}
