//! `Watch`: a sender's registered wait.

use crate::host;
use crate::pool::WaitPlace;
use crate::tx::queue::waiters::{Need, Waiter};
use crate::tx::queue::{QdiscRun, Shared};
use std::sync::Arc;
use wharf_mem::Published;
use wharf_mem::word::WAIT;

/// A sender's place among the waiters of its queue. Dropping it gives the place up.
#[derive(Debug)]
pub struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) waiter: Arc<Waiter>,
    /// The place on the pool's wait list of a sender that waits for memory.
    pub(super) pool_place: Option<WaitPlace>,
    pub(super) is_over: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(place) = self.pool_place.take() {
            place.leave(false);
        }
        if self.is_over {
            return;
        }
        self.shared.waiters().leave(&self.waiter);
        // A panic may end this wait: one of the device on top of it would end the process.
        host::outlive(|| pass_on(&self.shared));
    }
}

impl Watch {
    pub(super) fn need(&self) -> Need {
        self.waiter.need
    }

    /// Returns the number of senders that are served before this one; `None` if it has been served.
    pub(super) fn before(&self) -> Option<usize> {
        match &self.pool_place {
            Some(place) => place.before(),
            None => self.shared.waiters().before(&self.waiter),
        }
    }

    /// Ends the wait; a `served` sender keeps the buffers that it was handed. Returns the number of earlier senders
    /// that still wait.
    pub(super) fn end(&mut self, served: bool) -> usize {
        self.is_over = true;
        if let Some(place) = self.pool_place.take() {
            place.leave(served);
        }
        self.shared.waiters().leave(&self.waiter)
    }

    /// Waits again if its buffers went to others because it came too late for them. Returns true if it does.
    pub(super) fn rejoins(&mut self) -> bool {
        let Some(place) = &mut self.pool_place else { return false };
        if !place.rejoin() {
            return false;
        }
        self.shared.waiters().leave(&self.waiter);
        self.waiter = self.shared.waiters().register(self.waiter.place, self.waiter.need, place.wake());
        true
    }
}

/// Lets the owner serve the next sender.
pub(super) fn pass_on(shared: &Arc<Shared>) {
    match shared.cell().claim_unreserved(WAIT) {
        Published::Owner(owned) => {
            QdiscRun::new(shared, owned, WAIT).finish();
        }
        Published::WakeOwner => shared.wake_poller(),
        Published::Seen | Published::Dead => {}
    }
}
