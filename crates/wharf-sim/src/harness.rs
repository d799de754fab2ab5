//! The course of a simulation: it settles, is measured, and drains; then frames and packets are counted.

use crate::RunError;
use crate::engine::{self, Agenda, DRAIN_NS, VirtualClock, World};
use std::sync::Arc;
use wharf_core::pool::PagePool;

/// A world that is measured.
pub trait Model: World {
    /// Sums of all that has happened up to some time.
    type Totals;
    /// Modelled time between two questions whether to go on.
    const SLICE_NS: u64 = 20_000_000;

    /// Returns the sums up to `now_ns`.
    fn totals(&self, now_ns: u64) -> Self::Totals;

    /// Sends nothing new from now on, so that the world drains.
    fn end(&mut self);
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

/// Runs `model` for `settle_ns`, measures it for `measure_ns`, and drains it. Asks `goes_on` after each
/// slice.
///
/// # Errors
/// [`RunError::Interrupted`]: `goes_on` returned false.
pub fn settle_measure_drain<M: Model>(
    model: &mut M, agenda: &mut Agenda, clock: &VirtualClock, (settle_ns, measure_ns): (u64, u64),
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Course<M::Totals>, RunError> {
    let (mut events, to_ns) = (0, settle_ns + measure_ns);
    let mut advance = |model: &mut M, from_ns: u64, to_ns: u64| {
        for slice_ns in (from_ns..to_ns).step_by(M::SLICE_NS as usize).skip(1).chain([to_ns]) {
            events += engine::run(model, agenda, clock, slice_ns);
            if !goes_on() {
                return Err(RunError::Interrupted);
            }
        }
        Ok(model.totals(to_ns))
    };
    let before = advance(model, 0, settle_ns)?;
    let after = advance(model, settle_ns, to_ns)?;
    model.end();
    events += engine::run(model, agenda, clock, to_ns + DRAIN_NS);
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
