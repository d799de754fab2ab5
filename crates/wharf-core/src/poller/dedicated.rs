//! `Dedicated`: a permanent owner, to which senders leave all draining.

use crate::tx::engine::Pause;
use crate::tx::queue::{OwnerKind, QdiscRun, QueueState, Shared, TxQueue, Wakeups};
use crate::tx::sender::SendError;
use wharf_mem::word::{CONTROL, READY, WAIT, WORK};
use wharf_mem::{Ownership, Published};

/// Nap between two attempts to claim a queue that has an owner.
const NAP_NS: u64 = 70_000;
/// Polls that find nothing before a dedicated owner arms and sleeps.
const IDLE_POLLS: u32 = 100_000;
/// Empty polls between two attempts to serve waiters, which take a lock: memory that other threads free, and served
/// senders that never return, are no event here.
const SERVE_EVERY: u32 = 64;
/// A poll of fewer packets is followed by pauses, in which senders fill their lanes without contention for cache
/// lines. An empty poll is followed by fewer: a whole burst may come next.
const LITTLE_PACKETS: u32 = 32;
const PAUSES: u32 = 24;
const PAUSES_IDLE: u32 = 4;

/// A permanent owner. Senders publish and return; this thread polls and drains all lanes.
pub struct Dedicated<'a> {
    shared: &'a Shared,
    owned: Option<Ownership<'a, QueueState>>,
    idle_polls: u32,
    /// A round is under way; found true in `drop`, the device has panicked.
    in_round: bool,
}

impl std::fmt::Debug for Dedicated<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dedicated({})", self.shared.setup().device.name)
    }
}

impl TxQueue {
    /// Makes the calling thread the owner until the value is dropped. Waits for the present owner to leave.
    ///
    /// # Errors
    /// [`SendError::Ended`]: the owner before has panicked.
    #[doc(hidden)]
    pub fn dedicate(&self) -> Result<Dedicated<'_>, SendError> {
        let shared = &*self.shared;
        let mut owned = loop {
            match shared.cell().claim(0) {
                Published::Owner(owned) => break owned,
                Published::Dead => return Err(shared.dead()),
                Published::Seen | Published::WakeOwner => shared.setup().park.park(NAP_NS),
            }
        };
        shared.set_dedicated(Some(shared.setup().park.waker()));
        owned.dedicate();
        Ok(Dedicated { shared, owned: Some(owned), idle_polls: 0, in_round: false })
    }
}

impl Dedicated<'_> {
    /// Does one round over all lanes. Returns the number of frames sent.
    #[inline]
    pub fn poll(&mut self) -> u32 {
        let Some(owned) = &mut self.owned else { return 0 };
        let bits = owned.take_bits(WORK);
        let shared = self.shared;
        let quota = shared.setup().policy.quota_packets;
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
            (0..Self::pauses_after(packets)).for_each(|_| std::hint::spin_loop());
        }
        packets
    }

    /// Returns the pauses after a round of so many packets, which has ended for want of more.
    #[inline(always)]
    pub const fn pauses_after(packets: u32) -> u32 {
        match packets {
            0 => PAUSES_IDLE,
            LITTLE_PACKETS.. => 0,
            _ => PAUSES,
        }
    }

    /// Polls, and sleeps for up to `nap_ns` after many empty polls. Returns the number of frames sent.
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
            self.shared.setup().park.park(nap_ns);
        }
        if let Some(owned) = &mut self.owned {
            owned.disarm();
        }
        packets
    }
}

impl Drop for Dedicated<'_> {
    fn drop(&mut self) {
        self.shared.set_dedicated(None);
        let Some(mut owned) = self.owned.take() else { return };
        if self.in_round {
            // The state may be half-changed. The queue is marked dead before waiters are woken: they must see that.
            drop(owned);
            self.shared.die();
        } else {
            owned.undedicate();
            // A panic of the caller may end this: one of the device on top of it would end the process.
            crate::host::outlive(|| _ = QdiscRun::new(self.shared, owned, READY).finish());
            self.shared.waiters().nudge_all();
        }
        // The pollers slept meanwhile, and look after the queue again.
        self.shared.wake_pollers();
    }
}
