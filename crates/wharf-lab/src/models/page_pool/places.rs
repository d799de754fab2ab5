//! The locks of depot and mailboxes, and the times that they are held.

use super::Costs;
use crate::comparators::page_policy::Place;
use wharf_sim::engine::Random;
use wharf_sim::engine::lock::{HandedOver, LockKind, SpinLock};

#[derive(Debug)]
pub(super) struct Places {
    /// The depot's lock, then one per mailbox.
    locks: Vec<SpinLock>,
    costs: Costs,
}

impl Places {
    /// Creates a mailbox for each processor: caches are numbered as they are made, one per processor.
    pub(super) fn new(cpus: usize, costs: Costs) -> Self {
        // Queued spin locks serve in order, and each spinner waits on a line of its own.
        let locks = (0..=cpus).map(|_| SpinLock::new(LockKind::Ticket, costs.lock)).collect();
        Self { locks, costs }
    }

    fn number(place: Place) -> usize {
        match place {
            Place::Depot => 0,
            Place::Mailbox(cache) => 1 + cache,
        }
    }

    /// Works like [`SpinLock::acquire`].
    pub(super) fn acquire(&mut self, place: Place, cpu: usize, now_ns: u64) -> Option<u64> {
        self.locks[Self::number(place)].acquire(cpu, now_ns)
    }

    /// Works like [`SpinLock::release`].
    pub(super) fn release(&mut self, place: Place, now_ns: u64, random: &mut Random) -> Option<HandedOver> {
        self.locks[Self::number(place)].release(now_ns, random)
    }

    /// Returns the time of moving `moved` pages there or from there.
    pub(super) fn held_ns(&self, place: Place, moved: usize) -> u64 {
        let each_ps = match place {
            Place::Depot => self.costs.depot_page_ps,
            Place::Mailbox(_) => self.costs.mail_frame_ps,
        };
        moved as u64 * each_ps / 1000
    }
}
