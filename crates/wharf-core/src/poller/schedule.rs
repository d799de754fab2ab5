//! `Schedule`: a poller's decisions, as a state machine without threads, clocks or devices: `step(now, event) ->
//! action`.
//!
//! Assumption: one poller steps it, and alone polls, masks and unmasks as it says. Goal: devices with work are polled
//! in turn, a budget at a time; idle devices cost nothing; no event is lost between the last poll and the sleep. It
//! is the kernel's NAPI for many devices (`napi_poll`, `napi_complete_done`).
//!
//! ```text
//!            called                     found nothing                    found nothing
//! Resting ───────────► Queued ─ poll ─────────────► Queued ─ unmask, poll ─────────────► Resting
//!   ▲  due or called ►   ▲ │ found some, or spinning: once more, masked      (or Napping: no notifications)
//!   └────────────────────┴─┘
//! ```
//! **The invariant:** a device rests without a deadline only if a poll that began *after* its notifications were
//! unmasked found nothing to come back for. That poll finds earlier events; later ones call the poller. An empty
//! queue needs no unmasking: the thread that fills it calls ([`crate::tx::queue::TxQueue`]).
//!
//! A device that holds frames and cannot notify is polled after a nap. The nap doubles while few frames complete in
//! it, and halves when all had completed while a sender waited. So naps follow the completions, in place of a
//! constant.
//!
//! ```
//! use wharf_core::poller::Settings;
//! use wharf_core::poller::schedule::{Action, Event, PollOutcome, Schedule};
//!
//! let mut schedule = Schedule::new(Settings::default(), [true]);
//! assert!(matches!(schedule.step(0, Event::Began), Action::Poll { at: 0, .. }));
//! // Nothing to do: a queue without frames rests until it is called.
//! assert_eq!(schedule.step(10, Event::Polled(PollOutcome::default())), Action::Sleep { for_ns: u64::MAX });
//! schedule.called(20, 0);
//! assert!(matches!(schedule.step(20, Event::Rested), Action::Poll { at: 0, .. }));
//! ```

mod slot;

use slot::{Slot, SlotState};
use std::collections::VecDeque;
use std::time::Duration;

/// The way in which an idle poller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It polls all the time, and takes a processor for itself.
    Busy,
    /// It polls on for a while after frames have arrived, gathers completions, then sleeps.
    #[default]
    Adaptive,
    /// It sleeps as soon as it is idle.
    Sleeping,
}

/// The settings of a poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The way in which it waits when idle.
    pub mode: Mode,
    /// Most frames received, and most frames sent, in one poll of a device, before the next device is polled; 1 to
    /// 256.
    pub budget_packets: u32,
    /// Longest time of polling on after the last frame arrived, in [`Mode::Adaptive`]. The time is learnt: it
    /// doubles when the next frame arrives within this time after falling asleep, and halves otherwise.
    pub spin_max: Duration,
}

impl Settings {
    fn spin_ns_max(&self) -> u64 {
        u64::try_from(self.spin_max.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { mode: Mode::Adaptive, budget_packets: 64, spin_max: Duration::from_micros(50) }
    }
}

/// Polls between two looks at notifications, while a device has work.
const POLLS_PER_LOOK: u32 = 16;

/// The result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollOutcome {
    /// Frames received.
    pub received: u32,
    /// Frames sent.
    pub sent: u32,
    /// Frames completed.
    pub completed: u32,
    /// The budget is spent, and there is more.
    pub more: bool,
    /// Frames that the device still holds.
    pub in_device: u32,
    /// When the poll began, a sender waited, or frames waited for the device.
    pub blocked: bool,
    /// The device must be polled again, without a notification: a sender waits, frames wait, or memory is short.
    pub waiting: bool,
    /// Another thread owned the device: nothing was done.
    pub busy: bool,
    /// The device did not unmask: an event was pending.
    pub unarmed: bool,
    /// Time until the next frame is due, ns, if the device knows it; `u64::MAX` if none is before a
    /// notification.
    pub due_ns: Option<u64>,
    /// Frames may arrive.
    pub receives: bool,
    /// The device has ended: it is never polled again.
    pub over: bool,
}

impl PollOutcome {
    /// True if the poll found work.
    pub fn worked(&self) -> bool {
        self.received + self.sent + self.completed > 0
    }

    fn is_pending(&self) -> bool {
        self.in_device > 0 || self.waiting
    }
}

/// An event of the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The poller starts.
    Began,
    /// The poll was done.
    Polled(PollOutcome),
    /// The pause or the sleep is over.
    Rested,
}

/// A change of a device's notifications before a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IrqChange {
    /// No change.
    Keep,
    /// Mask them.
    Mask,
    /// Unmask them, before this poll looks at the device.
    Unmask,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Poll device `at`, within the budget.
    Poll {
        /// Index of the device.
        at: usize,
        /// The change of its notifications, to be made first.
        irq: IrqChange,
        /// If this poll finds nothing, the next one may be long after it.
        away: bool,
    },
    /// Pause for a moment without sleeping.
    Pause,
    /// Sleep until called, or for a time.
    Sleep {
        /// The time, ns: `u64::MAX` for no bound, 0 to only collect notifications.
        for_ns: u64,
    },
}

/// The schedule of one poller's devices.
#[derive(Debug)]
pub struct Schedule {
    settings: Settings,
    slots: Vec<Slot>,
    queue: VecDeque<usize>,
    /// No nap or rest ends before this time.
    due_ns: u64,
    /// Consecutive polls of spinning devices that found nothing.
    fruitless: usize,
    look_due: u32,
    polling: usize,
    /// The time at which the present sleep ends by itself.
    wakes_ns: u64,
}

impl Schedule {
    /// Makes a schedule. `notifies` has one value per device: true if it can notify the poller.
    pub fn new(settings: Settings, notifies: impl IntoIterator<Item = bool>) -> Self {
        let slots: Vec<Slot> =
            notifies.into_iter().map(|notifies| Slot::new(notifies, settings.spin_ns_max())).collect();
        let queue = (0..slots.len()).collect();
        let look_due = POLLS_PER_LOOK;
        Self { settings, slots, queue, due_ns: 0, fruitless: 0, look_due, polling: 0, wakes_ns: 0 }
    }

    /// Notes that device `at` has notified the poller, or that a thread calls for it.
    pub fn called(&mut self, now_ns: u64, at: usize) {
        let spin_ns_max = self.settings.spin_ns_max();
        let Some(slot) = self.slots.get_mut(at) else { return };
        match slot.state {
            SlotState::Resting(_) => {
                slot.called(now_ns, spin_ns_max);
                self.enqueue(at);
            }
            SlotState::Napping(_) => self.enqueue(at),
            SlotState::Polled => slot.again = true,
            SlotState::Queued | SlotState::Over => {}
        }
    }

    /// Returns the next thing to do after `event`.
    pub fn step(&mut self, now_ns: u64, event: Event) -> Action {
        let mut now_ns = now_ns;
        match event {
            Event::Began => {}
            Event::Polled(found) => self.polled(now_ns, found),
            // A clock that is coarse, or stands still, must not delay the end of a sleep.
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

    /// Queues devices that are due, and finds the time of the next one.
    fn wake_due(&mut self, now_ns: u64) {
        self.due_ns = u64::MAX;
        for at in 0..self.slots.len() {
            match self.slots[at].state {
                SlotState::Napping(until_ns) | SlotState::Resting(until_ns) if until_ns <= now_ns => {
                    self.slots[at].napped = matches!(self.slots[at].state, SlotState::Napping(_));
                    self.enqueue(at);
                }
                SlotState::Napping(until_ns) | SlotState::Resting(until_ns) => {
                    self.due_ns = self.due_ns.min(until_ns);
                }
                SlotState::Queued | SlotState::Polled | SlotState::Over => {}
            }
        }
    }

    fn enqueue(&mut self, at: usize) {
        self.slots[at].state = SlotState::Queued;
        self.queue.push_back(at);
    }

    fn polled(&mut self, now_ns: u64, found: PollOutcome) {
        let (at, mode) = (self.polling, self.settings.mode);
        let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.state == SlotState::Polled) else {
            return;
        };
        slot.state = slot.after(now_ns, mode, &found);
        if found.worked() {
            self.fruitless = 0;
        } else if slot.spins {
            self.fruitless += 1;
        }
        match slot.state {
            SlotState::Queued => self.queue.push_back(at),
            SlotState::Napping(until_ns) | SlotState::Resting(until_ns) => {
                self.due_ns = self.due_ns.min(until_ns)
            }
            SlotState::Polled | SlotState::Over => {}
        }
    }
}
