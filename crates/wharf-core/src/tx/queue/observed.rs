//! A run under way that a [`RunObserver`] watches.

use super::{QueueState, Shared};
use crate::tx::owner::Owner;
use crate::tx::run_observer::{ObservedRun, RunObserver};

/// A run under way, and the counts at its beginning.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    observer: &'a dyn RunObserver,
    pub(super) place: u16,
    /// Frames handed to the device since the claim, frames accepted by the queue, frames taken out of the own lane.
    packets: u64,
    accepted: u64,
    own: u32,
    /// Frames accepted by all senders during the run; frames of the own lane; frames that went past it.
    accepted_in_run: u64,
    own_taken: u32,
    own_passed: u64,
}

impl<'a> Observed<'a> {
    #[cold]
    pub(super) fn begin(
        observer: &'a dyn RunObserver, place: u16, shared: &Shared, owner: &Owner, state: &QueueState,
    ) -> Self {
        let (packets, accepted) = (owner.packets(), shared.counters().accepted.get());
        let own = state.lanes.taken_of(place.into());
        observer.run_began(place);
        Self { observer, place, packets, accepted, own, accepted_in_run: 0, own_taken: 0, own_passed: 0 }
    }

    /// Begins the next run of the same sender.
    #[cold]
    pub(super) fn restart(&self, shared: &Shared, owner: &Owner, state: &QueueState) -> Self {
        Self::begin(self.observer, self.place, shared, owner, state)
    }

    /// Counts `packets` of the sender's own that went past its lane.
    #[cold]
    pub(super) fn passed_own(&mut self, packets: usize) {
        self.own_passed += packets as u64;
    }

    /// Takes the counts at the end of the run, while the queue is still owned.
    #[cold]
    pub(super) fn note(&mut self, shared: &Shared, state: &QueueState) {
        self.own_taken = state.lanes.taken_of(self.place.into()).wrapping_sub(self.own);
        self.accepted_in_run = shared.counters().accepted.get() - self.accepted;
    }

    /// Reports the run.
    #[cold]
    pub(super) fn end(&self, owner: &Owner) {
        let own = u64::from(self.own_taken) + self.own_passed;
        let run = ObservedRun {
            packets: owner.packets() - self.packets,
            for_others: self.accepted_in_run.saturating_sub(own),
            longest_packets: owner.longest_packets(),
        };
        self.observer.run_ended(self.place, &run);
    }
}
