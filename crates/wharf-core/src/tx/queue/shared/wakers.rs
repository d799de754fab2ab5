//! The threads that a queue calls, and those that may own it.

use super::{ControlMessage, PollerState, Shared};
use crate::host::Wake;
use crate::wakeup::{Call, Callers};
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wharf_mem::lock;
use wharf_mem::word::RESERVED;

/// The threads that come when called. A caller takes no lock.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    /// The queue's pollers.
    pollers: Callers,
    /// A dedicated owner's wake-up: while there is one, it is called in place of the pollers.
    owner: ArcSwapOption<Arc<dyn Wake>>,
    /// The threads that may own the queue; locked by those that come and go.
    claimants: Mutex<Claimants>,
    /// There is a poller or a dedicated owner.
    is_any: AtomicBool,
    /// Senders that live.
    senders: AtomicUsize,
}

/// The threads that may own a queue which has pollers. Without one, senders do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claimants {
    /// Senders and pollers.
    #[default]
    All,
    /// Pollers. Senders only publish: one that is stopped or has a low priority holds up no other.
    Pollers,
    /// A sole sender and pollers; pollers alone while there are more senders.
    PollersOrSoleSender,
}

impl Claimants {
    fn reserves(self, senders: usize) -> bool {
        match self {
            Claimants::All => false,
            Claimants::Pollers => true,
            Claimants::PollersOrSoleSender => senders > 1,
        }
    }
}

impl Shared {
    /// True if a poller or a dedicated owner runs the queue and wakes waiters.
    pub(crate) fn has_poller(&self) -> bool {
        self.wakers.is_any.load(Ordering::Relaxed)
    }

    /// Returns the number of senders that live.
    pub(super) fn living_senders(&self) -> usize {
        self.wakers.senders.load(Ordering::Relaxed)
    }

    /// Wakes the dedicated owner, or else a poller.
    pub(crate) fn wake_poller(&self) {
        match &*self.wakers.owner.load() {
            Some(owner) => _ = crate::host::wake(Arc::clone(owner)),
            None => _ = self.wakers.pollers.call_one(),
        }
    }

    /// Wakes all pollers, also beside a dedicated owner. Returns true if there is any.
    pub(crate) fn wake_pollers(&self) -> bool {
        self.wakers.pollers.call_all();
        !self.wakers.pollers.is_empty()
    }

    /// Returns the state of changed pollers: those there are about to look.
    pub(super) fn poller_state(&self) -> PollerState {
        if self.wakers.pollers.is_empty() { PollerState::None } else { PollerState::Awake }
    }

    /// Changes the threads that come when called, in turn with other changes.
    fn set_wakers(&self, change: impl FnOnce(&Wakers, &mut Claimants)) {
        let claimants = &mut *lock(&self.wakers.claimants);
        change(&self.wakers, claimants);
        let is_any = !self.wakers.pollers.is_empty() || self.wakers.owner.load().is_some();
        self.wakers.is_any.store(is_any, Ordering::Release);
        self.reserve(*claimants);
    }

    /// Sets the threads that may own the queue.
    pub(crate) fn set_claimants(&self, claimants: Claimants) {
        self.set_wakers(|_, before| *before = claimants);
    }

    /// Sets the dedicated owner's wake-up.
    pub(crate) fn set_dedicated(&self, wake: Option<Arc<dyn Wake>>) {
        self.set_wakers(|wakers, _| wakers.owner.store(wake.map(Arc::new)));
    }

    /// Counts a sender that comes (1) or goes (-1).
    pub(crate) fn count_sender(&self, change: isize) {
        let claimants = lock(&self.wakers.claimants);
        let senders = self.living_senders().wrapping_add_signed(change);
        self.wakers.senders.store(senders, Ordering::Relaxed);
        self.reserve(*claimants);
    }

    /// Reserves the queue for pollers, or ends that, as `claimants` and the number of senders say.
    fn reserve(&self, claimants: Claimants) {
        let is_reserved = self.cell.word() & RESERVED != 0;
        match claimants.reserves(self.living_senders()) && !self.wakers.pollers.is_empty() {
            wanted if wanted == is_reserved => {}
            true => self.cell.reserve(),
            false => {
                self.cell.unreserve();
                // For what was announced to a poller that does not come any more, or comes later than a sender.
                _ = self.wakers.pollers.call_one();
            }
        }
    }

    /// Adds a poller to those that are called for this queue.
    pub(crate) fn add_poller(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers, _| wakers.pollers.add(call));
        self.control(ControlMessage::Pollers);
    }

    /// Calls a poller no more for this queue.
    pub(super) fn forget_poller(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers, _| wakers.pollers.remove(call));
    }
}
