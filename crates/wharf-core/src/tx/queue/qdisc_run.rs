//! `QdiscRun`: one ownership of a queue, from claim to release (the kernel's `__qdisc_run`).
//!
//! [`crate::tx::owner`] decides each step; this file carries the steps out on the queue:
//!
//! ```text
//! claim ─► handle_pending ─► transmit, reap ─► … ─► before_release ─► release ─► wake
//!              ▲  refused: new work was announced        │
//!              └─────────────────────────────────────────┘   quota spent: hand_over.rs
//! ```
//! A sender on an idle queue sends its own burst in the first step ([`QdiscRun::transmit_first`]).

mod hand_over;
mod poll;

#[cfg(feature = "model")]
#[path = "../../model/run.rs"]
mod model;

pub(crate) use poll::poll_queue;

use super::observed::Observed;
use super::{PollerState, QueueState, Shared};
use crate::tx::engine::Pause;
use crate::tx::feeding::Feeding;
use crate::tx::owner::{Action, Event, Owner, Policy};
use wharf_mem::Ownership;
use wharf_mem::word::{CONTROL, OFFERED, READY, WAIT, WORK};

/// Looks at an offered queue before its last owner takes it back, at most. Each offer that is not taken halves the
/// number; one that is taken restores it.
pub(crate) const LOOKS_MAX: u32 = 32;

/// The threads to wake once the queue has been released.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wakeups {
    /// The poller: frames stay behind.
    pub(crate) poller: bool,
    /// Senders that were served.
    pub(crate) served: bool,
}

/// The kind of thread that owns the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    /// A sender, or any thread that does not come back by itself.
    Sender,
    /// A poller, which comes back by itself while frames are inside.
    Poller {
        /// It comes back late, or when the device notifies it.
        away: bool,
    },
}

/// The right and duty to run a queue. A thread calls [`QdiscRun::finish`]; a modelled processor calls
/// [`QdiscRun::step`] at the times that it models.
#[derive(Debug)]
pub struct QdiscRun<'a> {
    shared: &'a Shared,
    /// `None` once released.
    owned: Option<Ownership<'a, QueueState>>,
    owner: Owner,
    next: Action,
    wakeups: Wakeups,
    kind: OwnerKind,
    /// The holder has it between two steps: the state is whole, so that a panic of the holder does no harm.
    is_between: bool,
    /// Looks at the offered queue that are left.
    looks: u32,
    observed: Option<Observed<'a>>,
}

impl<'a> QdiscRun<'a> {
    /// Starts the run of a queue claimed for `bits`.
    #[inline(always)]
    pub(crate) fn new(shared: &'a Shared, owned: Ownership<'a, QueueState>, bits: u64) -> Self {
        let mut run = Self::owned(shared, owned, shared.setup().policy, OwnerKind::Sender);
        run.handle_pending(bits);
        if Feeding::now() != Feeding::Nothing {
            run.feed();
        }
        run
    }

    #[inline(always)]
    fn owned(shared: &'a Shared, owned: Ownership<'a, QueueState>, policy: Policy, kind: OwnerKind) -> Self {
        let mut owner = Owner::unclocked(policy, true);
        let next = owner.step(0, Event::Claimed);
        let owned = Some(owned);
        let wakeups = Wakeups::default();
        Self { shared, owned, owner, next, wakeups, kind, is_between: false, looks: 0, observed: None }
    }

    /// Starts the run of the sender at `place`. It sends up to `quota_packets`, or the queue's quota
    /// if no other thread would send the rest.
    #[inline(always)]
    pub(crate) fn for_sender(
        shared: &'a Shared, owned: Ownership<'a, QueueState>, bits: u64, quota_packets: u32, place: u16,
    ) -> Self {
        let mut run = Self::new(shared, owned, bits);
        if quota_packets < shared.setup().policy.quota_packets {
            run.reduce_quota(quota_packets);
        }
        if shared.setup().run_observer.is_some() {
            run.observe(place);
        }
        run
    }

    /// Lowers the quota of a sender that has drained its share. Keeps the full quota if a poller continues
    /// the run, or if senders sleep: they cannot take over.
    #[cold]
    fn reduce_quota(&mut self, quota_packets: u32) {
        if self.look(|state| state.poller == PollerState::None && !state.waiting) {
            self.owner.set_quota(quota_packets);
        }
    }

    /// Starts the run of a poller. It sends up to `quota_packets` and comes back for the rest; `away`: it comes back
    /// late, or when the device notifies it.
    pub(crate) fn for_poller(
        shared: &'a Shared, owned: Ownership<'a, QueueState>, quota_packets: u32, away: bool,
    ) -> Self {
        let quota_packets = quota_packets.min(shared.setup().policy.quota_packets);
        let policy = Policy { quota_packets, ..shared.setup().policy };
        let mut run = Self::owned(shared, owned, policy, OwnerKind::Poller { away });
        run.handle_pending(0);
        run
    }

    /// Lets `transmit` do the first transmit: a sender with an empty lane passes its burst by the lane.
    #[inline(always)]
    pub(crate) fn transmit_first(&mut self, transmit: impl FnOnce(&mut QueueState, u32) -> (u32, Pause)) {
        if let (Action::Transmit, Some(owned)) = (self.next, &mut self.owned) {
            let quota = self.owner.quota_left();
            let (packets, pause) = owned.with(|state| transmit(state, quota));
            self.next = self.owner.step(0, Event::Transmitted { packets, pause });
        }
    }

    /// Does the next step. Returns true if there is another one; after `false` the queue is released.
    pub fn step(&mut self, now_ns: u64) -> bool {
        self.is_between = false;
        let goes_on = self.step_by(|| now_ns);
        self.is_between = true;
        goes_on
    }

    // The event stays in registers: one byte is kept between two steps.
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

    /// Returns the next step, for callers that model its duration.
    pub fn next(&self) -> Action {
        self.next
    }

    /// Steps to the end. Returns the number of frames sent.
    #[inline(always)]
    pub fn finish(&mut self) -> u64 {
        let clock = &*self.shared.setup().clock;
        while self.step_by(|| clock.now_ns()) {}
        self.owner.packets()
    }

    /// Returns the number of frames sent so far.
    pub(crate) fn packets(&self) -> u64 {
        self.owner.packets()
    }

    /// Runs `look` on the queue's state.
    pub(crate) fn look<R>(&mut self, look: impl FnOnce(&mut QueueState) -> R) -> R {
        let is_between = std::mem::replace(&mut self.is_between, false);
        let seen = match &mut self.owned {
            Some(owned) => owned.with(look),
            None => unreachable!("the state is looked at while the run owns the queue"),
        };
        self.is_between = is_between;
        seen
    }

    /// Handles the pending work of the owner word and of `bits`.
    #[inline(always)]
    fn handle_pending(&mut self, bits: u64) {
        let shared = self.shared;
        if let Some(owned) = &mut self.owned {
            let bits = bits | owned.take_bits(WORK);
            let messages = owned.with(|state| handle_pending(shared, state, bits));
            if messages > 0 {
                self.owner.carried_out(messages);
            }
        }
    }

    /// Releases the queue. Returns false if new work was announced meanwhile: the run goes on.
    #[inline(always)]
    fn leave(&mut self) -> bool {
        self.before_release();
        let Some(owned) = self.owned.take() else { return true };
        match owned.leave() {
            Ok(()) => {
                self.after_release();
                true
            }
            Err(owned) => {
                self.owned = Some(owned);
                // New work may be announced without end: served senders do not wait for that.
                self.wake_served();
                false
            }
        }
    }

    #[inline(always)]
    fn before_release(&mut self) {
        let (shared, kind) = (self.shared, self.kind);
        self.note_observed();
        if let Some(owned) = &mut self.owned {
            let wakeups = owned.with(|state| before_release(shared, state, kind, true));
            self.wakeups.poller |= wakeups.poller;
            self.wakeups.served |= wakeups.served;
        }
    }

    #[inline(always)]
    fn wake_served(&mut self) {
        if std::mem::take(&mut self.wakeups.served) {
            self.shared.wake_served();
        }
    }

    #[inline]
    fn after_release(&mut self) {
        self.wake_served();
        if std::mem::take(&mut self.wakeups.poller) {
            self.shared.wake_poller();
        }
        if let Some(observed) = &self.observed {
            observed.end(&self.owner);
        }
    }
}

/// Reports to a [`RunObserver`](crate::run_observer::RunObserver).
impl QdiscRun<'_> {
    #[cold]
    fn observe(&mut self, place: u16) {
        if let (Some(observer), Some(owned)) = (&self.shared.setup().run_observer, &mut self.owned) {
            let (shared, owner) = (self.shared, &self.owner);
            self.observed =
                Some(owned.with(|state| Observed::begin(&**observer, place, shared, owner, state)));
        }
    }

    /// Counts a burst of the sender's own that passed by its lane.
    #[inline(always)]
    pub(crate) fn passed_own(&mut self, packets: usize) {
        if let Some(observed) = &mut self.observed {
            observed.passed_own(packets);
        }
    }

    /// Takes the counts before the release, while the state can be read.
    #[inline(always)]
    fn note_observed(&mut self) {
        if let (Some(observed), Some(owned)) = (&mut self.observed, &mut self.owned) {
            let shared = self.shared;
            owned.with(|state| observed.note(shared, state));
        }
    }
}

impl Drop for QdiscRun<'_> {
    fn drop(&mut self) {
        if self.is_between {
            // The caller, which may have panicked elsewhere, leaves the run half-way: it is finished here.
            self.is_between = false;
            // A panic of the device on top of the caller's would end the process.
            crate::host::outlive(|| self.finish());
        }
        if let Some(owned) = self.owned.take() {
            // The device panicked. The queue is marked dead before waiters are woken: they must see that.
            drop(owned);
            self.shared.die();
        }
    }
}

/// Handles the pending work in `bits`: control messages first, since they may add the lanes that other bits announce. Returns
/// the number of messages.
#[inline]
pub(crate) fn handle_pending(shared: &Shared, state: &mut QueueState, bits: u64) -> u32 {
    let is_rare = bits & (CONTROL | WAIT | OFFERED) != 0;
    let messages = if is_rare { handle_rare(shared, state, bits) } else { 0 };
    state.lanes.announce(bits & READY);
    if state.shut {
        shared.drain_unsent(state);
    }
    messages
}

#[cold]
fn handle_rare(shared: &Shared, state: &mut QueueState, bits: u64) -> u32 {
    let messages = if bits & CONTROL != 0 { shared.apply_control(state) } else { 0 };
    state.waiting |= bits & WAIT != 0;
    if bits & OFFERED != 0 {
        state.offer_looks = LOOKS_MAX;
    }
    messages
}

/// Prepares the release: serves waiters (if `serve`; else nothing has changed since they were last served) and
/// publishes the full bands. Returns the threads to wake after the release.
#[inline]
pub(crate) fn before_release(
    shared: &Shared, state: &mut QueueState, kind: OwnerKind, serve: bool,
) -> Wakeups {
    let mut full = state.settle_qdisc();
    let mut wakes = false;
    if state.waiting {
        if serve {
            let (space, is_empty) = (state.engine.backpressure(), !state.engine.has_queued());
            let pool = &shared.setup().pool;
            let served = shared.waiters().serve(space, is_empty, &mut state.lanes, pool);
            (state.waiting, wakes) = (served.waiting, served.wakes);
            state.waited_bands = served.full;
        }
        full |= state.waited_bands;
    }
    shared.set_full_bands(full);
    let pending = state.is_pending() || state.waiting;
    let poller = match (state.poller, kind) {
        (PollerState::None, _) => false,
        (_, OwnerKind::Poller { away }) => {
            state.poller = match (pending, away) {
                (false, _) => PollerState::Asleep,
                (true, false) => PollerState::Awake,
                (true, true) => PollerState::Away,
            };
            false
        }
        // The device notifies the poller of the frames that it holds; of no others.
        (PollerState::Away, OwnerKind::Sender) if pending && state.engine.in_device() == 0 => {
            state.poller = PollerState::Awake;
            true
        }
        (PollerState::Asleep, OwnerKind::Sender) if pending => {
            state.poller = PollerState::Awake;
            true
        }
        _ => false,
    };
    Wakeups { poller, served: wakes }
}

#[cfg(test)]
mod tests;
