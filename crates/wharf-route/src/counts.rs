//! `Counts`: what a router's senders have done, and the cells that one sender counts in.

use crate::reason::Reason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The packets of a router's senders: `given = routed + waiting + dropped`, once the senders are at rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Packets that senders were given, and ICMP messages of their own.
    pub given: u64,
    /// Packets handed to a port, which counts them from there on.
    pub routed: u64,
    /// Packets that wait for a neighbour, or in a burst that is not full.
    pub waiting: u64,
    dropped: [u64; Reason::COUNT],
}

impl Counts {
    /// Returns the packets dropped for a reason.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Sets the packets that wait: those of which nothing has become yet.
    pub(crate) fn close(mut self) -> Self {
        self.waiting = self.given.saturating_sub(self.routed + self.dropped.iter().sum::<u64>());
        self
    }

    /// Returns the reasons for which packets were dropped, each with their number.
    pub fn drops(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.dropped).filter(|(_, count)| *count > 0)
    }
}

/// The counters of one sender. Others count as dropped what they drop for it while it waits.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    given: AtomicU64,
    routed: AtomicU64,
    dropped: [AtomicU64; Reason::COUNT],
}

fn add(cell: &AtomicU64, count: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(count), Relaxed);
}

impl Cells {
    pub(crate) fn give(&self) {
        add(&self.given, 1);
    }

    pub(crate) fn route(&self, packets: usize) {
        add(&self.routed, packets as u64);
    }

    pub(crate) fn lose(&self, reason: Reason, packets: usize) {
        self.dropped[reason as usize].fetch_add(packets as u64, Relaxed);
    }

    /// Returns the reasons for which packets were dropped, each with their number.
    pub(crate) fn drops(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let counted = Reason::ALL.into_iter().zip(&self.dropped);
        counted.map(|(reason, count)| (reason, count.load(Relaxed))).filter(|(_, count)| *count > 0)
    }

    /// Adds these to a sum, but for those that wait.
    pub(crate) fn add_to(&self, sum: &mut Counts) {
        sum.routed += self.routed.load(Relaxed);
        sum.dropped.iter_mut().zip(&self.dropped).for_each(|(sum, count)| *sum += count.load(Relaxed));
        // Read last: a packet is given before it becomes anything.
        sum.given += self.given.load(Relaxed);
    }
}
