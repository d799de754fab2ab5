//! Virtual time: what happens next, the clock that says so, and what processors share.
//!
//! Assumptions: one thread; whatever acts has a *slot* of the [`Agenda`], and at most one thing due in it; a world
//! answers an event by changing itself and by saying when its slots are due again. Goal: the same result, to the
//! byte, on any machine: integers throughout, a named generator, nothing iterated in the order of a hash. The
//! path's own state machines (`TxEngine`, `Bql`, qdiscs, `Owner`, `QdiscRun`) run inside unchanged; what a modelled
//! processor adds is only how long each step takes.
//!
//! [`lock`], [`cache_line`] and [`cpu`] are what the processors of a world are made of.

pub mod agenda;
pub mod cache_line;
pub mod cpu;
pub mod lock;
pub mod random;
mod virtual_clock;

pub use agenda::Agenda;
pub use random::Random;
pub use virtual_clock::{VirtualClock, VirtualPark};

use std::collections::VecDeque;

/// What is under way once nothing new comes has left by then, whatever parameters were set: 12 days of virtual time, of which only
/// events take any of ours.
pub const DRAIN_NS: u64 = 1_000_000_000_000_000;

/// Takes the first of `queue`, if it is due by `now_ns`.
pub fn take_due<T>(queue: &mut VecDeque<(u64, T)>, now_ns: u64) -> Option<T> {
    let &(at_ns, _) = queue.front()?;
    if at_ns <= now_ns { queue.pop_front().map(|(_, due)| due) } else { None }
}

/// What acts: processors, interrupt lines, devices.
pub trait World {
    /// What `slot` had due happens now. It is due again only if this says so.
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda);
}

/// Lets everything happen that is due before `until_ns`; how many events there were. The clock then shows
/// `until_ns`; what is due later stays on the agenda.
pub fn run(world: &mut impl World, agenda: &mut Agenda, clock: &VirtualClock, until_ns: u64) -> u64 {
    let mut events = 0;
    let mut last_ns = 0;
    while let Some((now_ns, slot)) = agenda.take_before(until_ns) {
        debug_assert!(now_ns >= last_ns, "{slot} was due at {now_ns} ns, and it is {last_ns} ns");
        last_ns = now_ns;
        clock.set(now_ns);
        world.act(slot, now_ns, agenda);
        events += 1;
    }
    clock.set(until_ns);
    events
}
