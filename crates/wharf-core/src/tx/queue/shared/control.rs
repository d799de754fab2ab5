//! Messages for the owner of a queue, and the runs that carry them out or read its state.

use super::Shared;
use crate::device::TxSide;
use crate::pool::{Inside, PeerQueue};
use crate::tx::engine::TxEngine;
use crate::tx::feeding::Drops;
use crate::tx::queue::changes::Changes;
use crate::tx::queue::lanes::{Lane, Lanes};
use crate::tx::queue::{QdiscRun, QueueState};
use crate::wakeup::Call;
use std::sync::{Arc, OnceLock};
use wharf_mem::Published;
use wharf_mem::return_ring::ReturnConsumer;
use wharf_mem::word::{CONTROL, DEAD, WAIT};

/// Nap between two tries to claim a queue that another thread owns.
pub(crate) const OWNED_NAP_NS: u64 = 20_000;
/// Naps to wait for an owner's answer, between two checks of a deadline.
const PENDING_TRIES: u32 = 50;
/// Waits for an owner's answer that a closing thread takes, each of [`PENDING_TRIES`] naps: a second at
/// least.
const OWNER_TRIES: u32 = 1000;
/// Naps to wait for an owner to leave, for an audit.
pub(in crate::tx::queue) const AUDIT_TRIES: u32 = 2000;

/// A message that the owner carries out.
pub(crate) enum ControlMessage {
    Add(usize, Lane),
    Orphan(usize, ReturnConsumer),
    /// A flood comes by the lane at that place.
    Flood(u16, Arc<Drops>),
    /// There are changes of settings.
    Changes,
    Apply(Box<dyn FnOnce(&mut TxEngine) + Send>),
    /// The set of pollers has changed; one of them is about to poll.
    Pollers,
    /// Give back all frames inside and those that still arrive, and close the device.
    Shut,
    /// Answer true if frames are inside.
    IsPending(Arc<OnceLock<bool>>),
}

impl Shared {
    /// Leaves `message` for the owner; without one, this thread becomes the owner.
    pub(crate) fn control(&self, message: ControlMessage) {
        self.messages.push(message);
        match self.cell.claim_unreserved(CONTROL) {
            Published::Owner(owned) => {
                QdiscRun::new(self, owned, CONTROL).finish();
            }
            Published::WakeOwner => self.wake_poller(),
            Published::Seen => {}
            // No owner comes any more.
            Published::Dead => drop(self.messages.take()),
        }
    }

    /// Carries out the control messages. Returns their number.
    pub(crate) fn apply_control(&self, state: &mut QueueState) -> u32 {
        let mut messages = 0;
        for message in self.messages.take() {
            messages += 1;
            match message {
                ControlMessage::Add(at, lane) => {
                    if state.lanes.add(at, lane) {
                        state.engine.reserve(self.setup.lane_frames as usize);
                    }
                }
                ControlMessage::Orphan(at, ring) => {
                    state.lanes.orphan(at, ring);
                    if state.waiting {
                        state.lanes.note_returned(at as u16);
                    }
                }
                ControlMessage::Flood(at, drops) => state.lanes.flood_by(at, drops),
                ControlMessage::Changes => self.changes.take().make(&mut state.engine, self.setup.uses_bands),
                ControlMessage::Apply(change) => self.apply(change, &mut state.engine),
                ControlMessage::Pollers => state.poller = self.poller_state(),
                ControlMessage::Shut => self.shut(state),
                ControlMessage::IsPending(answer) => {
                    state.engine.force_completion();
                    _ = answer.set(state.is_pending() || state.lanes.len() > 0);
                }
            }
        }
        // A thread that makes a sender may be stopped: its next message is another chance.
        if let Ok(mut senders) = self.senders.try_lock() {
            state.lanes.sweep(|at| senders.give_back(at));
        }
        messages
    }

    /// Has the owner put into force the change of settings that `set` notes.
    pub(in crate::tx::queue) fn change<R>(&self, set: impl FnOnce(&mut Changes) -> R) -> R {
        let (is_first, done) = self.changes.note(set);
        if is_first {
            self.control(ControlMessage::Changes);
        }
        done
    }

    /// Runs a user's `change`. Its panic is counted and does not end the queue.
    fn apply(&self, change: Box<dyn FnOnce(&mut TxEngine) + Send>, engine: &mut TxEngine) {
        if crate::host::outlive(|| change(engine)).is_none() {
            self.counters.panics.add_shared(1);
        }
    }

    fn shut(&self, state: &mut QueueState) {
        state.shut = true;
        self.drain_unsent(state);
        state.engine.close(&mut Lanes::new(self.setup.pool.clone()));
    }

    /// Returns all frames that the device has not taken to their pool.
    #[cold]
    pub(crate) fn drain_unsent(&self, state: &mut QueueState) {
        state.lanes.announce_all();
        let QueueState { engine, lanes, .. } = state;
        engine.drain_unsent(lanes, &mut Lanes::new(self.setup.pool.clone()));
    }

    /// Runs `look` on the state, as the owner. Returns `None` if the owner died or stays for longer than `tries`
    /// naps.
    pub(crate) fn inspect<R>(&self, tries: u32, look: impl FnOnce(&mut QueueState) -> R) -> Option<R> {
        for _ in 0..tries {
            match self.cell.claim(0) {
                Published::Owner(owned) => {
                    let mut run = QdiscRun::new(self, owned, 0);
                    let seen = run.look(look);
                    run.finish();
                    return Some(seen);
                }
                Published::Dead => return None,
                Published::Seen | Published::WakeOwner => self.setup.park.park(OWNED_NAP_NS),
            }
        }
        None
    }

    /// Runs `look` on the device, as the owner. Does nothing if the owner died or never leaves.
    pub(crate) fn look_at_device(&self, look: impl FnOnce(&mut TxSide)) {
        self.inspect(AUDIT_TRIES, |state| look(state.engine.device_mut()));
    }

    /// True if frames are inside. The owner (this thread, the present one, or a dedicated one) answers after all
    /// earlier messages. An owner that does not answer counts as true: `asked` keeps the question for the
    /// next call. A dead one counts as false, since its frames never leave.
    pub(in crate::tx::queue) fn pending(&self, asked: &mut Option<Arc<OnceLock<bool>>>) -> bool {
        let answer = asked.get_or_insert_with(|| {
            let answer = Arc::new(OnceLock::new());
            self.control(ControlMessage::IsPending(answer.clone()));
            answer
        });
        for _ in 0..PENDING_TRIES {
            match answer.get() {
                Some(&pending) => {
                    *asked = None;
                    return pending;
                }
                None if self.cell.word() & DEAD != 0 => break,
                None => self.setup.park.park(OWNED_NAP_NS),
            }
        }
        self.cell.word() & DEAD == 0
    }

    /// Waits until the owner has carried out all messages so far. Gives up if the owner died, or after
    /// the time for which a preempted thread stays away.
    pub(in crate::tx::queue) fn await_owner(&self) {
        let mut asked = None;
        for _ in 0..OWNER_TRIES {
            self.pending(&mut asked);
            if asked.is_none() || self.cell.word() & DEAD != 0 {
                break;
            }
        }
    }

    /// Removes a poller. Without another one, waiting senders poll the queue.
    pub(crate) fn remove_poller(&self, call: &Arc<Call>) {
        self.forget_poller(call);
        self.control(ControlMessage::Pollers);
        if self.wake_pollers() {
            return;
        }
        self.waiters.nudge_all();
        if let Published::Owner(owned) = self.cell.claim(0) {
            QdiscRun::new(self, owned, 0).finish();
        }
    }
}

impl PeerQueue for Shared {
    fn reap_for_waiters(&self) {
        if self.has_poller() {
            return;
        }
        // The owner finds a waiting sender announced, so completed frames go to the pool's wait list.
        if let Published::Owner(owned) = self.cell.claim(WAIT) {
            QdiscRun::new(self, owned, WAIT).finish();
        }
    }

    fn inside(&self) -> Inside {
        self.counters.inside(|| self.senders().totals().packets.get())
    }
}
