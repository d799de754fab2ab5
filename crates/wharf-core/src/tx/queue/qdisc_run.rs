//! `QdiscRun`: one ownership of a queue, step by step. The shell between the owner's state machine and the queue.
//!
//! A run that has spent its quota ends here, whatever is left inside. With a poller the turn is over: that one comes.
//! Without one the queue is *offered*: it belongs to nobody, and whoever publishes next is its owner. The thread that
//! offers it stands by meanwhile, for a few hundred nanoseconds, and begins a run of its own if nobody has come.
//! So at no time does a frame lie in a queue that nobody owns and nobody is bound to claim (loom: `hand_off.rs`).

use super::ends::{OwnerKind, Wakeups, before_release, handle_pending};
use super::{PollerState, QueueState, Shared};
use crate::run_log::{Logged, RunLog};
use crate::tx::engine::Pause;
use crate::tx::owner::{Action, Event, Owner, Policy};
use std::sync::atomic::Ordering::Relaxed;
use wharf_mem::word::WORK;
use wharf_mem::{Ownership, Published};

/// The right and duty to run a queue. A thread calls [`QdiscRun::finish`]; a modelled processor calls
/// [`QdiscRun::step`] at the times that it models.
#[derive(Debug)]
pub struct QdiscRun<'a> {
    shared: &'a Shared,
    /// `None` once left.
    owned: Option<Ownership<'a, QueueState>>,
    owner: Owner,
    next: Action,
    calls: Wakeups,
    leaving: OwnerKind,
    /// Its holder has it between two steps: whatever happens to it then, the inside is whole.
    is_between: bool,
    /// Looks at an offer that are left.
    looks: u32,
    log: Option<Logged<'a>>,
}

impl<'a> QdiscRun<'a> {
    /// Of an ownership just claimed, for `bits`.
    #[inline(always)]
    pub(crate) fn new(shared: &'a Shared, owned: Ownership<'a, QueueState>, bits: u64) -> Self {
        let mut run = Self::owned(shared, owned, shared.policy, OwnerKind::Sender);
        run.handle_pending(bits);
        run
    }

    #[inline(always)]
    fn owned(
        shared: &'a Shared, owned: Ownership<'a, QueueState>, policy: Policy, leaving: OwnerKind,
    ) -> Self {
        let mut owner = Owner::unclocked(policy, true);
        let next = owner.step(0, Event::Claimed);
        let owned = Some(owned);
        let calls = Wakeups::default();
        Self { shared, owned, owner, next, calls, leaving, is_between: false, looks: 0, log: None }
    }

    /// Sees to the notices there are, and to `bits`.
    #[inline(always)]
    fn handle_pending(&mut self, bits: u64) {
        let shared = self.shared;
        if let Some(owned) = &mut self.owned {
            let bits = bits | owned.take_bits(WORK);
            owned.with(|state| handle_pending(shared, state, bits));
        }
    }

    /// For a holder outside: what becomes of it between two steps harms nobody.
    pub(crate) fn held_by_caller(mut self) -> Self {
        self.is_between = true;
        self
    }

    /// As [`QdiscRun::new`], for a sender, whose log it goes into if it keeps one. It sends up to `quota_packets`, unless nobody
    /// else comes.
    #[inline(always)]
    pub(crate) fn for_sender(
        shared: &'a Shared, owned: Ownership<'a, QueueState>, bits: u64, quota_packets: u32,
        log: Option<&'a RunLog>,
    ) -> Self {
        let mut run = Self::new(shared, owned, bits);
        if quota_packets < shared.policy.quota_packets {
            run.reduce_quota(quota_packets);
        }
        if let Some(log) = log {
            run.begin_log(log);
        }
        run
    }

    /// It has done its part: what others have put in is theirs to drain, unless there is a poller, who comes after a whole quota,
    /// or somebody who sleeps until there is space, and cannot come.
    #[cold]
    fn reduce_quota(&mut self, quota_packets: u32) {
        if self.look(|state| state.poller == PollerState::None && !state.waiting) {
            self.owner.set_quota(quota_packets);
        }
    }

    /// As [`QdiscRun::new`], for a poller: it sends up to `quota_packets`, and comes back for what is left; it notes whether it
    /// will come back otherwise.
    pub(crate) fn for_poller(
        shared: &'a Shared, owned: Ownership<'a, QueueState>, quota_packets: u32, away: bool,
    ) -> Self {
        let quota_packets = quota_packets.min(shared.policy.quota_packets);
        let policy = Policy { quota_packets, ..shared.policy };
        let mut run = Self::owned(shared, owned, policy, OwnerKind::Poller { away });
        run.handle_pending(0);
        run
    }

    /// Lets `transmit` do the first transmit: a sender whose lane is empty spares its burst the way through it.
    #[inline(always)]
    pub(crate) fn transmit_first(&mut self, transmit: impl FnOnce(&mut QueueState, u32) -> (u32, Pause)) {
        if let (Action::Transmit, Some(owned)) = (self.next, &mut self.owned) {
            let quota = self.owner.quota_left();
            let (packets, pause) = owned.with(|state| transmit(state, quota));
            self.next = self.owner.step(0, Event::Transmitted { packets, pause });
        }
    }

    /// Does the next thing; whether there is more to do. After `false` the queue is no longer ours.
    pub fn step(&mut self, now_ns: u64) -> bool {
        self.is_between = false;
        let goes_on = self.step_by(|| now_ns);
        self.is_between = true;
        goes_on
    }

    // The event stays in registers: what is kept between two steps is one byte.
    #[inline(always)]
    fn step_by(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        let Some(owned) = &mut self.owned else { return self.stand_by() };
        let event = match self.next {
            Action::Transmit => {
                let quota = self.owner.quota_left();
                let (packets, pause) = owned.with(|state| state.engine.transmit(&mut state.lanes, quota));
                Event::Transmitted { packets, pause }
            }
            Action::Reap => {
                let (packets, open) = owned.with(QueueState::reap);
                Event::Reaped { packets, open }
            }
            Action::HandlePending => {
                self.handle_pending(0);
                Event::PendingHandled
            }
            Action::Leave => {
                if self.leave() {
                    return false;
                }
                Event::Refused
            }
            Action::HandOver => return self.hand_over(),
            Action::StandBy => return self.stand_by(),
        };
        self.next = self.owner.step_by(now_ns, event);
        true
    }

    /// As [`QdiscRun::step`], with at most one call to the device: for modelled processors, where every call takes
    /// time, and others act between two of them.
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

    /// What comes next, for whoever models how long it takes.
    pub fn next(&self) -> Action {
        self.next
    }

    /// Steps to the end; frames sent.
    #[inline(always)]
    pub fn finish(&mut self) -> u64 {
        let clock = &*self.shared.clock;
        while self.step_by(|| clock.now_ns()) {}
        self.owner.packets()
    }

    /// Frames sent so far.
    pub(crate) fn packets(&self) -> u64 {
        self.owner.packets()
    }

    /// Looks at the inside.
    pub(crate) fn look<R>(&mut self, look: impl FnOnce(&mut QueueState) -> R) -> R {
        let is_between = std::mem::replace(&mut self.is_between, false);
        let seen = match &mut self.owned {
            Some(owned) => owned.with(look),
            None => unreachable!("a turn is looked into while it owns the queue"),
        };
        self.is_between = is_between;
        seen
    }

    #[inline(always)]
    fn leave(&mut self) -> bool {
        self.before_release();
        let Some(owned) = self.owned.take() else { return true };
        match owned.leave() {
            Ok(()) => {
                self.done();
                true
            }
            Err(owned) => {
                self.owned = Some(owned);
                // There may be no end to what is announced: nobody waits for that.
                self.wake_served();
                false
            }
        }
    }

    /// The quota is spent, and there is more to do: ends the run; whether this turn goes on.
    #[cold]
    fn hand_over(&mut self) -> bool {
        let (poller, is_sole, looks) =
            self.look(|state| (state.poller, state.lanes.is_sole(), state.offer_looks));
        let has_poller = poller != PollerState::None;
        if is_sole && !has_poller {
            // There is nobody else, and what is left is the caller's own.
            self.restart();
            return true;
        }
        self.before_release();
        let Some(mut owned) = self.owned.take() else { return false };
        if self.leaving != OwnerKind::Sender {
            // It comes back by itself, when its other devices have had their turn.
            self.next = Action::Leave;
            owned.hand_over();
            self.done();
            return false;
        }
        self.next = Action::StandBy;
        if has_poller {
            // Whatever is announced from here on lies until the poller comes: one that sleeps, or comes late, is called.
            if poller != PollerState::Awake {
                self.calls.poller = true;
                owned.with(|state| state.poller = PollerState::Awake);
            }
            owned.hand_over();
            self.done();
            // The poller may have gone meanwhile, and have looked for the last time before this.
            return !self.shared.has_poller.load(Relaxed) && self.take_back();
        }
        owned.offer();
        self.done();
        self.looks = looks;
        true
    }

    /// The queue is on offer: looks whether somebody has taken it; after a few looks, takes it back.
    #[cold]
    fn stand_by(&mut self) -> bool {
        if self.next != Action::StandBy || !self.shared.cell.is_offered() {
            // Taken: whoever has it must see to what is inside.
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

    /// Nobody has come: claims the queue again, and begins another run; whether it is ours.
    fn take_back(&mut self) -> bool {
        self.next = Action::Leave;
        let Published::Owner(mut owned) = self.shared.cell.claim(0) else { return false };
        let looks = owned.with(|state| state.offer_looks);
        self.owned = Some(owned);
        self.handle_pending(0);
        self.look(|state| state.offer_looks = looks / 2);
        if let Some(Logged { log, .. }) = self.log.take() {
            self.begin_log(log);
        }
        self.restart();
        true
    }

    fn restart(&mut self) {
        self.owner.restart();
        self.owner.set_quota(self.shared.policy.quota_packets);
        self.next = Action::Transmit;
    }

    #[inline(always)]
    fn before_release(&mut self) {
        let (shared, leaving) = (self.shared, self.leaving);
        self.note_log();
        if let Some(owned) = &mut self.owned {
            let calls = owned.with(|state| before_release(shared, state, leaving, true));
            self.calls.poller |= calls.poller;
            self.calls.served |= calls.served;
        }
    }

    #[inline(always)]
    fn wake_served(&mut self) {
        if std::mem::take(&mut self.calls.served) {
            self.shared.wake_served();
        }
    }

    #[inline]
    fn done(&mut self) {
        self.wake_served();
        if std::mem::take(&mut self.calls.poller) {
            self.shared.wake_poller();
        }
        if let Some(logged) = &self.log {
            logged.end(self.shared, &self.owner);
        }
    }
}

/// What a sender that keeps a log notes of its runs; see [`RunLog`].
impl<'a> QdiscRun<'a> {
    #[cold]
    fn begin_log(&mut self, log: &'a RunLog) {
        if let Some(owned) = &mut self.owned {
            let own = owned.with(|state| state.lanes.taken_of(log.place()));
            self.log = Some(Logged::begin(log, self.shared, &self.owner, own));
        }
    }

    /// A burst of the sender's own has gone past its lane.
    #[inline(always)]
    pub(crate) fn passed_own(&mut self, packets: usize) {
        if let Some(logged) = &mut self.log {
            logged.passed_own(packets);
        }
    }

    /// Before leaving, while the inside can be looked at.
    #[inline(always)]
    fn note_log(&mut self) {
        if let (Some(logged), Some(owned)) = (&mut self.log, &mut self.owned) {
            let place = logged.log.place();
            logged.note(owned.with(|state| state.lanes.taken_of(place)), self.shared);
        }
    }
}

impl Drop for QdiscRun<'_> {
    fn drop(&mut self) {
        if self.is_between {
            // A caller, who may have panicked elsewhere, leaves it half-way: somebody must end it.
            self.is_between = false;
            // A device that panics here, on top of the caller's panic, would end the process.
            crate::host::outlive(|| self.finish());
        }
        if let Some(owned) = self.owned.take() {
            // A device panicked. Dead first: who is woken must see that.
            drop(owned);
            self.shared.die();
        }
    }
}

#[cfg(test)]
mod tests;
