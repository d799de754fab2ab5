//! `Turn`: one ownership of a queue, step by step. The shell between the owner's state machine and the queue.

use super::{Inside, PollerState, Shared};
use crate::owner::{Action, Event, Owner};
use crate::run::Pause;
use std::sync::atomic::Ordering::Relaxed;
use wharf_mem::Ownership;
use wharf_mem::word::{CONTROL, READY, WAIT, WORK};

/// The right and duty to run a queue. A thread calls [`Turn::finish`]; a modelled processor calls
/// [`Turn::step`] at the times that it models.
#[derive(Debug)]
pub struct Turn<'a> {
    shared: &'a Shared,
    /// `None` once left.
    owned: Option<Ownership<'a, Inside>>,
    owner: Owner,
    next: Action,
    wake_poller: bool,
    is_poller: bool,
}

impl<'a> Turn<'a> {
    /// Of an ownership just claimed, for `bits`.
    #[inline(always)]
    pub(crate) fn new(shared: &'a Shared, mut owned: Ownership<'a, Inside>, bits: u64) -> Self {
        let bits = bits | owned.take_bits(WORK);
        owned.with(|inside| attend(shared, inside, bits));
        let successor = shared.has_poller.load(Relaxed);
        Self::owned(shared, owned, successor, false)
    }

    #[inline(always)]
    fn owned(shared: &'a Shared, owned: Ownership<'a, Inside>, successor: bool, is_poller: bool) -> Self {
        let now_ns = shared.policy_now_ns();
        let mut owner = Owner::new(shared.policy, successor, now_ns);
        let next = owner.step(now_ns, Event::Claimed);
        Self { shared, owned: Some(owned), owner, next, wake_poller: false, is_poller }
    }

    /// As [`Turn::new`], for the poller: it hands over to nobody, and notes when it goes to sleep.
    pub(crate) fn of_poller(shared: &'a Shared, mut owned: Ownership<'a, Inside>) -> Self {
        let bits = owned.take_bits(WORK);
        owned.with(|inside| attend(shared, inside, bits));
        Self::owned(shared, owned, false, true)
    }

    /// Lets `transmit` do the first transmit: a sender whose lane is empty spares its burst the way through it.
    #[inline(always)]
    pub(crate) fn transmit_first(&mut self, transmit: impl FnOnce(&mut Inside, u32) -> (u32, Pause)) {
        if let (Action::Transmit, Some(owned)) = (self.next, &mut self.owned) {
            let quota = self.owner.quota_left();
            let (packets, pause) = owned.with(|inside| transmit(inside, quota));
            self.next = self.owner.step(0, Event::Transmitted { packets, pause });
        }
    }

    /// Does the next thing; whether there is more to do. After `false` the queue is no longer ours.
    // The event stays in registers: what is kept between two steps is one byte.
    #[inline(always)]
    pub fn step(&mut self, now_ns: u64) -> bool {
        let Some(owned) = &mut self.owned else { return false };
        let event = match self.next {
            Action::Transmit => {
                let quota = self.owner.quota_left();
                let (packets, pause) = owned.with(|inside| inside.run.transmit(&mut inside.lanes, quota));
                Event::Transmitted { packets, pause }
            }
            Action::Reap => {
                let (packets, open) = owned.with(|inside| {
                    let (packets, open) = inside.run.reap(&mut inside.lanes);
                    inside.reaped |= packets > 0;
                    (packets, open)
                });
                Event::Reaped { packets, open }
            }
            Action::Attend => {
                let bits = owned.take_bits(WORK);
                owned.with(|inside| attend(self.shared, inside, bits));
                Event::Attended
            }
            Action::Leave => {
                if self.leave() {
                    return false;
                }
                Event::Refused
            }
            Action::HandOver => {
                if self.hand_over() {
                    return false;
                }
                Event::Attended
            }
        };
        self.next = self.owner.step(now_ns, event);
        true
    }

    /// As [`Turn::step`], with at most one call to the device: for modelled processors, where every call takes
    /// time, and others act between two of them.
    pub fn step_bulk(&mut self, now_ns: u64) -> bool {
        let (Action::Transmit, Some(owned)) = (self.next, &mut self.owned) else { return self.step(now_ns) };
        let quota = self.owner.quota_left();
        let (packets, pause) = owned.with(|inside| inside.run.transmit_bulk(&mut inside.lanes, quota));
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
        while self.step(self.shared.policy_now_ns()) {}
        self.owner.packets()
    }

    /// Looks at the inside, unless it is no longer ours.
    pub(crate) fn look_if_owned<R>(&mut self, look: impl FnOnce(&mut Inside) -> R) -> Option<R> {
        self.owned.as_mut().map(|owned| owned.with(look))
    }

    /// Looks at the inside.
    pub(crate) fn look<R>(&mut self, look: impl FnOnce(&mut Inside) -> R) -> R {
        match &mut self.owned {
            Some(owned) => owned.with(look),
            None => unreachable!("a turn is looked into before it is stepped"),
        }
    }

    #[inline(always)]
    fn leave(&mut self) -> bool {
        let Some(mut owned) = self.owned.take() else { return true };
        let is_poller = self.is_poller;
        self.wake_poller |= owned.with(|inside| close_up(self.shared, inside, is_poller));
        match owned.leave() {
            Ok(()) => {
                self.done();
                true
            }
            Err(owned) => {
                self.owned = Some(owned);
                false
            }
        }
    }

    /// Hands over to the poller; false when there is none any more.
    #[cold]
    fn hand_over(&mut self) -> bool {
        let Some(mut owned) = self.owned.take() else { return true };
        let is_poller = self.is_poller;
        if owned.with(|inside| inside.poller == PollerState::None) {
            self.owner.carry_on();
            self.owned = Some(owned);
            return false;
        }
        self.wake_poller |= owned.with(|inside| close_up(self.shared, inside, is_poller));
        owned.hand_over();
        self.done();
        true
    }

    #[inline]
    fn done(&mut self) {
        if self.wake_poller {
            self.shared.wake_poller();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(owned) = self.owned.take() {
            // A device panicked, or a caller dropped a turn half-way. Dead first: who is woken must see that.
            drop(owned);
            self.shared.die();
        }
    }
}

/// Sees to the notices in `bits`: messages first, since they may bring the lanes that the others are about.
#[inline]
pub(crate) fn attend(shared: &Shared, inside: &mut Inside, bits: u64) {
    if bits & (CONTROL | WAIT) != 0 {
        attend_rare(shared, inside, bits);
    }
    inside.lanes.announce(bits & READY);
    if inside.shut {
        shared.give_up(inside);
    }
}

#[cold]
fn attend_rare(shared: &Shared, inside: &mut Inside, bits: u64) {
    if bits & CONTROL != 0 {
        shared.obey(inside);
    }
    if bits & WAIT != 0 {
        // Frames may have come home after the waiter had looked, and before its notice was seen here.
        (inside.waiting, inside.reaped) = (true, inside.reaped || inside.reaped_before);
    }
}

/// Before leaving: wakes who can go on, publishes which bands are full; whether the poller must be woken.
#[inline]
pub(crate) fn close_up(shared: &Shared, inside: &mut Inside, is_poller: bool) -> bool {
    let mut full = inside.run.shed(&mut inside.lanes);
    if inside.waiting {
        let served = shared.waiters.serve(inside.run.qdisc(), inside.reaped);
        inside.waiting = served.waiting;
        full |= served.bands;
    }
    (inside.reaped_before, inside.reaped) = (inside.reaped, false);
    if shared.full_bands.load(Relaxed) != full {
        shared.full_bands.store(full, Relaxed);
    }
    let pending = inside.is_pending();
    match (inside.poller, is_poller) {
        (PollerState::None, _) => false,
        (_, true) => {
            inside.poller = if pending || inside.waiting { PollerState::Awake } else { PollerState::Asleep };
            false
        }
        (PollerState::Asleep, false) if pending || inside.waiting => {
            inside.poller = PollerState::Awake;
            true
        }
        _ => false,
    }
}

impl Shared {
    /// The time, if the owner's policy looks at it.
    #[inline(always)]
    fn policy_now_ns(&self) -> u64 {
        if self.policy.time_ns.is_some() { self.clock.now_ns() } else { 0 }
    }
}
