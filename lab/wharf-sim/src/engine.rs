//! Virtual time: the agenda of events, the virtual clock, and the costs that processors share.
//!
//! Assumptions: one thread. Each actor has a *slot* of the [`Agenda`] with at most one event due. A world
//! answers an event by changing itself and by scheduling its slots. Goal: the same result to the byte on any
//! machine. All arithmetic is in integers, the generator is named, and nothing is iterated in hash order. The
//! path's own state machines (`TxEngine`, `Bql`, qdiscs, `Owner`, `QdiscRun`) run inside unchanged; a
//! modelled processor adds the time that each step takes.
//!
//! [`lock`], [`cache_line`] and [`cpu`] are the parts of modelled processors.

pub mod agenda;
pub mod cache_line;
pub mod cpu;
pub mod lock;
pub mod random;
mod virtual_clock;

pub use agenda::Agenda;
pub use random::Random;
pub use virtual_clock::{CoarseClock, VirtualClock, VirtualPark};

use std::collections::VecDeque;

/// Time to drain: 12 days of virtual time, longer than anything is in flight at any setting. Only events cost
/// real time.
pub const DRAIN_NS: u64 = 1_000_000_000_000_000;

/// Returns the time of the first of `queue`; the end of time if it is empty.
pub fn first_due<T>(queue: &VecDeque<(u64, T)>) -> u64 {
    queue.front().map_or(u64::MAX, |&(at_ns, _)| at_ns)
}

/// Takes the first of `queue`, if it is due by `now_ns`.
pub fn take_due<T>(queue: &mut VecDeque<(u64, T)>, now_ns: u64) -> Option<T> {
    let &(at_ns, _) = queue.front()?;
    if at_ns <= now_ns { queue.pop_front().map(|(_, due)| due) } else { None }
}

/// A set of actors: processors, interrupt lines, devices.
pub trait World {
    /// Handles the event of `slot`. The slot is due again only if this schedules it.
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda);
}

/// Handles all events before `until_ns`. Returns their number. The clock then shows `until_ns`; later events
/// stay on the agenda.
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
