//! `Dedicated`: an owner for good, which senders leave all draining to.

use crate::tx::engine::Pause;
use crate::tx::queue::{OwnerKind, QdiscRun, QueueError, QueueState, Shared, TxQueue, Wakeups};
use wharf_mem::word::{CONTROL, READY, WAIT, WORK};
use wharf_mem::{Ownership, Published};

/// Between two looks whether the present owner has left.
const NAP_NS: u64 = 70_000;
/// Polls that find nothing before a dedicated owner arms and sleeps.
const IDLE_POLLS: u32 = 100_000;
/// Polls that find nothing between two looks at those who wait, which take a lock: who was served and never comes, and memory
/// that others free, are no event here.
const SERVE_EVERY: u32 = 64;
/// Pauses after a poll that found little: senders fill their lanes meanwhile, in place of fighting for lines. Fewer
/// when it found nothing: a whole burst may be there next.
const LITTLE_PACKETS: u32 = 32;
const PAUSES: u32 = 24;
const PAUSES_IDLE: u32 = 4;

/// An owner for good: senders publish and return, and this thread drains all lanes by polling them.
pub struct Dedicated<'a> {
    shared: &'a Shared,
    owned: Option<Ownership<'a, QueueState>>,
    idle_polls: u32,
    /// A round has begun and not ended: a device has panicked in it.
    in_round: bool,
}

impl std::fmt::Debug for Dedicated<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dedicated({})", self.shared.name)
    }
}

impl TxQueue {
    /// Makes the calling thread the owner until the value is dropped; waits for the present owner to leave.
    ///
    /// # Errors
    /// [`QueueError::Dead`].
    pub fn dedicate(&self) -> Result<Dedicated<'_>, QueueError> {
        let shared = &*self.shared;
        let mut owned = loop {
            match shared.cell.claim(0) {
                Published::Owner(owned) => break owned,
                Published::Dead => return Err(shared.dead()),
                Published::Seen | Published::WakeOwner => shared.park.park(NAP_NS),
            }
        };
        shared.set_wakers(|wakers| wakers.owner = Some(shared.park.waker()));
        owned.dedicate();
        Ok(Dedicated { shared, owned: Some(owned), idle_polls: 0, in_round: false })
    }
}

impl Dedicated<'_> {
    /// One round over all lanes; frames sent.
    #[inline]
    pub fn poll(&mut self) -> u32 {
        let Some(owned) = &mut self.owned else { return 0 };
        let bits = owned.take_bits(WORK);
        let shared = self.shared;
        let quota = shared.policy.quota_packets;
        self.in_round = true;
        let is_due = self.idle_polls.is_multiple_of(SERVE_EVERY);
        let mut calls = Wakeups::default();
        let (packets, pause) = owned.with(|state| {
            crate::tx::queue::handle_pending(shared, state, bits | READY);
            let (packets, pause) = state.engine.transmit(&mut state.lanes, quota);
            let (reaped, _) = state.reap();
            let serve = packets > 0 || reaped > 0 || bits != 0 || is_due;
            calls = crate::tx::queue::before_release(shared, state, OwnerKind::Poller { away: false }, serve);
            (packets, pause)
        });
        self.in_round = false;
        if calls.served {
            shared.wake_served();
        }
        if packets < LITTLE_PACKETS && pause != Pause::Quota {
            self.idle_polls = if packets == 0 { self.idle_polls + 1 } else { 0 };
            let pauses = if packets == 0 { PAUSES_IDLE } else { PAUSES };
            (0..pauses).for_each(|_| std::hint::spin_loop());
        }
        packets
    }

    /// Polls, and sleeps when nothing has come for a while; returns at least every `nap_ns`.
    pub fn poll_or_sleep(&mut self, nap_ns: u64) -> u32 {
        let packets = self.poll();
        if self.idle_polls < IDLE_POLLS {
            return packets;
        }
        self.idle_polls = 0;
        let Some(owned) = &mut self.owned else { return packets };
        owned.arm();
        let late = owned.with(|state| state.lanes.len() > 0 || state.is_pending());
        if !late && owned.peek_bits(CONTROL | WAIT) == 0 {
            self.shared.park.park(nap_ns);
        }
        if let Some(owned) = &mut self.owned {
            owned.disarm();
        }
        packets
    }
}

impl Drop for Dedicated<'_> {
    fn drop(&mut self) {
        self.shared.set_wakers(|wakers| wakers.owner = None);
        let Some(mut owned) = self.owned.take() else { return };
        if self.in_round {
            // The inside may be half-changed: nobody may run it any more. Dead first: who is woken must see that.
            drop(owned);
            self.shared.die();
        } else {
            owned.undedicate();
            // It may be the caller's panic that ends this: one of the device's on top of it would end the process.
            crate::host::outlive(|| _ = QdiscRun::new(self.shared, owned, READY).finish());
            self.shared.waiters.nudge_all();
        }
        // It slept meanwhile, and is the one to look after the queue again.
        self.shared.wake_pollers();
    }
}
