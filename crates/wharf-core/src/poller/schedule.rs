//! What a poller does next, as a state machine: `step(now, event) -> action`, without threads, clocks or devices.
//!
//! Assumptions: one poller steps it; it alone polls, masks and unmasks on the schedule's word. Goal: who has work is
//! polled in turn, a budget at a time; who has none costs nothing; and no event is lost between the last look and
//! the sleep. The kernel's NAPI, for many devices.
//!
//! ```text
//!            called                     found nothing                    found nothing
//! Resting ───────────► Queued ─ poll ─────────────► Queued ─ unmask, poll ─────────────► Resting
//!   ▲  due or called ►   ▲ │ found some, or spinning: once more, masked      (or Napping, where nothing tells)
//!   └────────────────────┴─┘
//! ```
//! **The invariant:** a device rests without a time only where a poll that began *after* its notifications were
//! unmasked has found nothing to come back for. What happens before that poll is found by it, what happens after
//! calls. A queue that holds nothing needs no unmasking: who fills it calls ([`crate::tx::queue::TxQueue`]).
//!
//! When to look again at a device that holds frames and cannot tell: after a nap that doubles while it brings few of
//! them, and halves when everything was done already while somebody waited. So naps go after the completions
//! that really came, in place of a constant.

mod slot;

use slot::{Place, Slot};
use std::collections::VecDeque;

/// How a poller waits when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Never: it takes a processor for itself.
    Busy,
    /// It polls on for a while where frames arrived not long ago, gathers completions, then sleeps.
    #[default]
    Adaptive,
    /// It sleeps as soon as it is idle.
    Sleeping,
}

/// How a poller should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How it waits.
    pub mode: Mode,
    /// Frames received, and frames sent, in one poll of a device at most, before the next one has its turn; 1 to 256.
    pub budget_packets: u32,
    /// Longest time that it polls on after the last frame arrived, in [`Mode::Adaptive`]. How long it does is learnt: it
    /// doubles when the next one comes within this time after falling asleep, and halves when not.
    pub spin_ns_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mode: Mode::Adaptive, budget_packets: 64, spin_ns_max: 50_000 }
    }
}

/// Polls between two looks at the notifications of others, while somebody has work.
const POLLS_PER_LOOK: u32 = 16;

/// What a poll has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollOutcome {
    /// Frames received, sent and completed.
    pub received: u32,
    /// See above.
    pub sent: u32,
    /// See above.
    pub completed: u32,
    /// The budget is spent, and there is more.
    pub more: bool,
    /// Frames that the device still holds.
    pub in_device: u32,
    /// When the poll began, somebody waited, or frames waited for the device.
    pub blocked: bool,
    /// Somebody must look again, and nothing will tell when: a sender waits, frames wait, memory is lacking.
    pub waiting: bool,
    /// Somebody else was at it: nothing was done.
    pub busy: bool,
    /// The device did not take the request to tell: something was due already.
    pub unarmed: bool,
    /// When the next frame is due, from now, where the device knows.
    pub due_ns: Option<u64>,
    /// Frames may arrive.
    pub receives: bool,
    /// There will never be anything any more.
    pub over: bool,
}

impl PollOutcome {
    /// Whether there was anything to do.
    pub fn worked(&self) -> bool {
        self.received + self.sent + self.completed > 0
    }

    fn is_pending(&self) -> bool {
        self.in_device > 0 || self.waiting
    }
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The poller begins.
    Began,
    /// The poll that was asked for.
    Polled(PollOutcome),
    /// The pause or the sleep is over.
    Rested,
}

/// What to do with a device's notifications before a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IrqChange {
    /// Nothing.
    Keep,
    /// They are not wanted now.
    Mask,
    /// They are, from before this poll on.
    Unmask,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Poll device `at`, within the budget.
    Poll {
        /// Which.
        at: usize,
        /// What to do first.
        irq: IrqChange,
        /// It may be long until the next one, if this one finds nothing.
        away: bool,
    },
    /// Let a moment pass, awake.
    Pause,
    /// Sleep until called, or for so long: `u64::MAX` for no bound, 0 to see only who has called.
    Sleep {
        /// How long.
        for_ns: u64,
    },
}

/// The devices of one poller.
#[derive(Debug)]
pub struct Schedule {
    settings: Settings,
    slots: Vec<Slot>,
    queue: VecDeque<usize>,
    /// No nap or rest ends before.
    due_ns: u64,
    /// Polls one after the other that found nothing, of devices that are polled on all the same.
    fruitless: usize,
    look_due: u32,
    polling: usize,
    /// When the sleep under way ends by itself.
    wakes_ns: u64,
}

impl Schedule {
    /// For devices of which each tells when to look (`notifies`), or not.
    pub fn new(settings: Settings, notifies: impl IntoIterator<Item = bool>) -> Self {
        let slots: Vec<Slot> =
            notifies.into_iter().map(|notifies| Slot::new(notifies, settings.spin_ns_max)).collect();
        let queue = (0..slots.len()).collect();
        let look_due = POLLS_PER_LOOK;
        Self { settings, slots, queue, due_ns: 0, fruitless: 0, look_due, polling: 0, wakes_ns: 0 }
    }

    /// Device `at` has told, or somebody calls for it.
    pub fn called(&mut self, now_ns: u64, at: usize) {
        let spin_ns_max = self.settings.spin_ns_max;
        let Some(slot) = self.slots.get_mut(at) else { return };
        match slot.place {
            Place::Resting(_) => {
                slot.called(now_ns, spin_ns_max);
                self.enqueue(at);
            }
            Place::Napping(_) => self.enqueue(at),
            Place::Polled => slot.again = true,
            Place::Queued | Place::Over => {}
        }
    }

    /// What to do after `event`.
    pub fn step(&mut self, now_ns: u64, event: Event) -> Action {
        let mut now_ns = now_ns;
        match event {
            Event::Began => {}
            Event::Polled(found) => self.polled(now_ns, found),
            // Where clocks stand still, or are coarse, it is time all the same.
            Event::Rested if self.queue.is_empty() => now_ns = now_ns.max(self.wakes_ns),
            Event::Rested => {}
        }
        self.wakes_ns = 0;
        self.next(now_ns)
    }

    fn next(&mut self, now_ns: u64) -> Action {
        if now_ns >= self.due_ns {
            self.wake_due(now_ns);
        }
        if self.look_due == 0 && self.slots.iter().any(|slot| slot.unmasked) {
            self.look_due = POLLS_PER_LOOK;
            return Action::Sleep { for_ns: 0 };
        }
        if self.fruitless > 0 && self.fruitless >= self.queue.len() && !self.queue.is_empty() {
            self.fruitless = 0;
            return Action::Pause;
        }
        let Some(at) = self.queue.pop_front() else {
            (self.wakes_ns, self.fruitless, self.look_due) = (self.due_ns, 0, POLLS_PER_LOOK);
            let for_ns = if self.due_ns == u64::MAX { u64::MAX } else { self.due_ns - now_ns };
            return Action::Sleep { for_ns };
        };
        self.look_due = self.look_due.saturating_sub(1);
        self.polling = at;
        let (irq, away) = self.slots[at].begin();
        Action::Poll { at, irq, away }
    }

    /// Queues whose time has come, and finds out who is next.
    fn wake_due(&mut self, now_ns: u64) {
        self.due_ns = u64::MAX;
        for at in 0..self.slots.len() {
            match self.slots[at].place {
                Place::Napping(until_ns) | Place::Resting(until_ns) if until_ns <= now_ns => {
                    self.slots[at].napped = matches!(self.slots[at].place, Place::Napping(_));
                    self.enqueue(at);
                }
                Place::Napping(until_ns) | Place::Resting(until_ns) => {
                    self.due_ns = self.due_ns.min(until_ns);
                }
                Place::Queued | Place::Polled | Place::Over => {}
            }
        }
    }

    fn enqueue(&mut self, at: usize) {
        self.slots[at].place = Place::Queued;
        self.queue.push_back(at);
    }

    fn polled(&mut self, now_ns: u64, found: PollOutcome) {
        let (at, mode) = (self.polling, self.settings.mode);
        let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.place == Place::Polled) else { return };
        slot.place = slot.after(now_ns, mode, &found);
        if found.worked() {
            self.fruitless = 0;
        } else if slot.spins {
            self.fruitless += 1;
        }
        match slot.place {
            Place::Queued => self.queue.push_back(at),
            Place::Napping(until_ns) | Place::Resting(until_ns) => self.due_ns = self.due_ns.min(until_ns),
            Place::Polled | Place::Over => {}
        }
    }
}

#[cfg(test)]
mod tests;
