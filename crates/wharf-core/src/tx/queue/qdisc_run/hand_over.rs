//! The end of a run whose quota is spent: to the poller, to another sender, or into another run.
//!
//! With a poller the run ends, and the poller comes. Without one the queue is *offered*: it is released, and the next
//! thread that publishes becomes its owner. The thread that offers it stands by for a few hundred nanoseconds, and
//! claims the queue again for a run of its own if no other thread has. So a frame never lies in a queue that has no
//! owner and no thread bound to claim it (loom: `hand_off.rs`).

use super::{LOOKS_MAX, OwnerKind, PollerState, QdiscRun};
use crate::tx::owner::Action;
use wharf_mem::Published;

impl QdiscRun<'_> {
    /// Ends a run that has spent its quota with work left. Returns true if this thread goes on.
    #[cold]
    pub(super) fn hand_over(&mut self) -> bool {
        let (poller, is_sole, looks) =
            self.look(|state| (state.poller, state.lanes.is_sole(), state.offer_looks));
        let (has_poller, has_callers) = (poller != PollerState::None, self.owner.has_carried_out_all());
        if is_sole && !has_poller && !has_callers {
            // No other thread could come, and the frames left are the caller's own.
            self.restart();
            return true;
        }
        self.before_release();
        let Some(mut owned) = self.owned.take() else { return false };
        if self.kind != OwnerKind::Sender {
            // The poller comes back by itself, after its other devices.
            self.next = Action::Leave;
            owned.hand_over();
            self.after_release();
            return false;
        }
        self.next = Action::StandBy;
        if has_poller {
            // Work announced from here on lies until the poller comes: one that sleeps, or comes late, is called.
            if poller != PollerState::Awake {
                self.wakeups.poller = true;
                owned.with(|state| state.poller = PollerState::Awake);
            }
            owned.hand_over();
            self.after_release();
            // The poller may have gone meanwhile, and have looked for the last time before this.
            return !self.shared.has_poller() && self.take_back();
        }
        owned.offer();
        self.after_release();
        // The thread whose messages these were comes with its next one.
        self.looks = if has_callers { LOOKS_MAX } else { looks };
        true
    }

    /// Looks whether another thread has claimed the offered queue; takes it back after some looks. Returns true if
    /// this thread goes on.
    #[cold]
    pub(super) fn stand_by(&mut self) -> bool {
        if self.next != Action::StandBy || !self.shared.cell().is_offered() {
            // Claimed: the new owner handles what is inside.
            self.next = Action::Leave;
            return false;
        }
        if self.looks > 0 {
            self.looks -= 1;
            std::hint::spin_loop();
            return true;
        }
        self.take_back()
    }

    /// Claims the queue again, since no other thread has, and starts another run. Returns false if another thread was
    /// faster.
    fn take_back(&mut self) -> bool {
        self.next = Action::Leave;
        let Published::Owner(mut owned) = self.shared.cell().claim(0) else { return false };
        let looks = owned.with(|state| state.offer_looks);
        self.owned = Some(owned);
        self.handle_pending(0);
        self.look(|state| state.offer_looks = looks / 2);
        if let (Some(before), Some(owned)) = (self.observed.take(), &mut self.owned) {
            self.observed = Some(owned.with(|state| before.restart(self.shared, &self.owner, state)));
        }
        self.restart();
        true
    }

    fn restart(&mut self) {
        self.owner.restart();
        self.owner.set_quota(self.shared.setup().policy.quota_packets);
        self.next = Action::Transmit;
    }
}
