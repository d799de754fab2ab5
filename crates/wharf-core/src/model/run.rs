//! A run that a modelled processor steps.

use super::{Action, Event, QdiscRun};
use crate::tx::queue::TxQueue;
use wharf_mem::Published;
use wharf_mem::word::RUNNING;

#[doc(hidden)]
impl TxQueue {
    /// True if a thread owns the queue, and has not offered it.
    pub fn is_owned(&self) -> bool {
        self.shared.cell().word() & RUNNING != 0
    }

    /// Claims the queue for `bits` of the owner word; the caller steps the run. Returns `None` if another thread owns
    /// the queue.
    pub fn claim(&self, bits: u64) -> Option<QdiscRun<'_>> {
        match self.shared.cell().claim_unreserved(bits) {
            Published::Owner(owned) => Some(QdiscRun::new(&self.shared, owned, bits).held_by_caller()),
            Published::WakeOwner => {
                self.shared.wake_poller();
                None
            }
            _ => None,
        }
    }
}

impl QdiscRun<'_> {
    /// Marks the run as stepped by a user's code, whose panic between two steps must do no harm.
    fn held_by_caller(mut self) -> Self {
        self.is_between = true;
        self
    }

    /// Works like [`QdiscRun::step`], with at most one call to the device: a modelled processor lets time pass, and
    /// others act, between two calls.
    pub fn step_bulk(&mut self, now_ns: u64) -> bool {
        let (Action::Transmit, Some(owned)) = (self.next, &mut self.owned) else { return self.step(now_ns) };
        let quota = self.owner.quota_left();
        self.is_between = false;
        let (packets, pause) = owned.with(|state| state.engine.transmit_bulk(&mut state.lanes, quota));
        self.is_between = true;
        match pause {
            Some(pause) => self.next = self.owner.step(now_ns, Event::Transmitted { packets, pause }),
            None => self.owner.sent_some(packets),
        }
        true
    }
}
