//! `Poller`: the thread that looks after a queue when no sender does: completions that come later, waiters,
//! and owners out of quota. `Dedicated`: an owner for good, which senders leave all draining to.

use crate::host::Wake;
use crate::queue::{Control, Inside, PollerState, QueueError, Shared, Turn, TxQueue};
use crate::run::Pause;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wharf_mem::word::{CONTROL, DEDICATED, READY, WAIT, WORK};
use wharf_mem::{Ownership, Published};

/// A nap while something is under way and the device cannot say when it will be done. Shorter ones take the
/// processor from senders and receivers, and find a few frames each (at 20 us a replay ran at half the rate).
const NAP_NS: u64 = 70_000;
/// Longest nap while something is under way.
const NAP_NS_MAX: u64 = 1_000_000;
/// Polls that find nothing before a dedicated owner arms and sleeps.
const IDLE_POLLS: u32 = 100_000;
/// Pauses after a poll that found little: senders fill their lanes meanwhile, in place of fighting for lines. Fewer
/// when it found nothing: a whole burst may be there next.
const LITTLE_PACKETS: u32 = 32;
const PAUSES: u32 = 24;
const PAUSES_IDLE: u32 = 4;

/// Looks after one queue. Run it in a thread of its own.
#[derive(Debug)]
pub struct Poller {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

/// Ends a poller.
#[derive(Debug, Clone)]
pub struct PollerStop {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

impl PollerStop {
    /// Makes the poller return from its run.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.shared.wake_poller_itself();
    }
}

impl TxQueue {
    /// A poller for this queue, and what ends it. One per queue.
    pub fn poller(&self) -> (Poller, PollerStop) {
        let (shared, stop) = (self.shared.clone(), Arc::new(AtomicBool::new(false)));
        (Poller { shared: shared.clone(), stop: stop.clone() }, PollerStop { shared, stop })
    }
}

impl Poller {
    /// Registers the calling thread and polls until stopped.
    pub fn run(self) {
        self.register(Some(self.shared.park.waker()), PollerState::Awake);
        while !self.stop.load(Ordering::Acquire) {
            let nap_ns = self.poll();
            self.shared.park.park(nap_ns);
        }
        self.register(None, PollerState::None);
        self.shared.waiters.nudge_all();
        if let Published::Owner(owned) = self.shared.cell.claim(0) {
            Turn::new(&self.shared, owned, 0).finish();
        }
    }

    fn register(&self, wake: Option<Arc<dyn Wake>>, state: PollerState) {
        self.shared.set_wakers(|wakers| wakers.poller = wake);
        self.shared.control(Control::Poller(state));
    }

    /// Does what there is to do; how long to sleep then (until woken, when nothing is under way).
    fn poll(&self) -> u64 {
        if self.shared.cell.word() & DEDICATED != 0 {
            // Whoever stays for good calls when it goes.
            return u64::MAX;
        }
        let Published::Owner(owned) = self.shared.cell.claim(0) else { return NAP_NS };
        let mut turn = Turn::of_poller(&self.shared, owned);
        let mut nap_ns = u64::MAX;
        while turn.step(0) {
            nap_ns = turn.look_if_owned(next_look_ns).unwrap_or(nap_ns);
        }
        nap_ns
    }
}

/// When the poller must look again.
fn next_look_ns(inside: &mut Inside) -> u64 {
    if !inside.is_pending() && !inside.waiting {
        return u64::MAX;
    }
    inside.run.device_mut().next_completion_ns().unwrap_or(NAP_NS).min(NAP_NS_MAX)
}

/// An owner for good: senders publish and return, and this thread drains all lanes by polling them.
pub struct Dedicated<'a> {
    shared: &'a Shared,
    owned: Option<Ownership<'a, Inside>>,
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
        let (packets, pause) = owned.with(|inside| {
            crate::queue::attend(shared, inside, bits | READY);
            let (packets, pause) = inside.run.transmit(&mut inside.lanes, quota);
            let (reaped, _) = inside.run.reap(&mut inside.lanes);
            inside.reaped |= reaped > 0;
            crate::queue::close_up(shared, inside, true);
            (packets, pause)
        });
        self.in_round = false;
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
        let late = owned.with(|inside| inside.lanes.len() > 0 || inside.is_pending());
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
            Turn::new(self.shared, owned, READY).finish();
            self.shared.waiters.nudge_all();
        }
        // It slept meanwhile, and is the one to look after the queue again.
        self.shared.wake_poller_itself();
    }
}
