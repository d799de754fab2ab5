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
//! calls. A queue that holds nothing needs no unmasking: who fills it calls ([`crate::queue::TxQueue`]).
//!
//! When to look again at a device that holds frames and cannot tell: after a nap that doubles while it brings few of
//! them, and halves when everything was done already while somebody waited. So naps go after the completions
//! that really came, in place of a constant.

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

/// The first nap, and the one after somebody else was at the device. Shorter ones take the processor from senders and
/// receivers, and find a few frames each: at 20 us always, a replay ran at half the rate.
const NAP_NS: u64 = 70_000;
/// Shortest and longest nap.
const NAP_NS_MIN: u64 = 20_000;
const NAP_NS_MAX: u64 = 1_000_000;
/// Longest rest of a device that holds frames and will tell: should it not, they are found all the same.
const REST_NS_MAX: u64 = 10_000_000;
/// Shortest time worth spinning.
const SPIN_NS_MIN: u64 = 5_000;
/// Polls between two looks at the notifications of others, while somebody has work.
const POLLS_PER_LOOK: u32 = 16;

/// What a poll has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
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

impl Found {
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
    Polled(Found),
    /// The pause or the sleep is over.
    Rested,
}

/// What to do with a device's notifications before a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
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
        notice: Notice,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Queued,
    Polled,
    /// Until a time; until called, too.
    Napping(u64),
    Resting(u64),
    Over,
}

#[derive(Debug)]
struct Slot {
    place: Place,
    /// Whether something tells when to look.
    notifies: bool,
    /// Whether it has been asked to.
    unmasked: bool,
    /// Ask it before the next poll.
    unmask: bool,
    /// Called while it was being polled.
    again: bool,
    /// It is polled on though nothing was found.
    spins: bool,
    /// The last poll ended a nap.
    napped: bool,
    nap_ns: u64,
    spin_ns: u64,
    /// When frames arrived last, and when it came to rest.
    active_ns: u64,
    rested_ns: u64,
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
        let slot = |notifies| Slot {
            place: Place::Queued,
            notifies,
            unmasked: false,
            unmask: false,
            again: false,
            spins: false,
            napped: false,
            nap_ns: NAP_NS,
            spin_ns: settings.spin_ns_max,
            active_ns: 0,
            rested_ns: 0,
        };
        let slots: Vec<Slot> = notifies.into_iter().map(slot).collect();
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
                slot.learn_to_spin(now_ns, spin_ns_max);
                slot.nap_ns = NAP_NS;
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
        let (notice, away) = self.slots[at].begin();
        Action::Poll { at, notice, away }
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

    fn polled(&mut self, now_ns: u64, found: Found) {
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

impl Slot {
    /// It is polled now.
    fn begin(&mut self) -> (Notice, bool) {
        self.place = Place::Polled;
        self.again = false;
        let was_unmasked = std::mem::replace(&mut self.unmasked, std::mem::take(&mut self.unmask));
        let notice = match (was_unmasked, self.unmasked) {
            (_, true) => Notice::Unmask,
            (true, false) => Notice::Mask,
            (false, false) => Notice::Keep,
        };
        (notice, self.unmasked || self.nap_ns > NAP_NS)
    }

    /// Where it goes after a poll.
    fn after(&mut self, now_ns: u64, mode: Mode, found: &Found) -> Place {
        if found.received > 0 {
            self.active_ns = now_ns;
        }
        if std::mem::take(&mut self.napped) && !found.busy {
            self.learn_to_nap(found);
        }
        self.spins = false;
        if found.over {
            return Place::Over;
        }
        if found.more || self.again || self.unmasked && (found.worked() || found.unarmed) {
            return Place::Queued;
        }
        self.spins = match mode {
            Mode::Busy => true,
            Mode::Adaptive => !found.busy && self.is_worth_spinning(now_ns, found),
            Mode::Sleeping => false,
        };
        match mode {
            _ if self.spins => Place::Queued,
            _ if found.busy => Place::Napping(now_ns.saturating_add(NAP_NS)),
            _ if !found.receives && !found.is_pending() => self.rest(now_ns, u64::MAX),
            // Completions that come one by one are taken in one go.
            Mode::Adaptive if !found.receives && found.worked() => self.nap(now_ns, found),
            _ if !self.notifies => self.nap(now_ns, found),
            _ if self.unmasked => self.rest(now_ns, rest_ns(found)),
            _ => {
                self.unmask = true;
                Place::Queued
            }
        }
    }

    fn is_worth_spinning(&self, now_ns: u64, found: &Found) -> bool {
        let recent = self.active_ns > 0 && now_ns.saturating_sub(self.active_ns) < self.spin_ns;
        found.receives && recent && !self.unmasked
    }

    fn rest(&mut self, now_ns: u64, for_ns: u64) -> Place {
        self.rested_ns = now_ns;
        Place::Resting(now_ns.saturating_add(for_ns))
    }

    fn nap(&mut self, now_ns: u64, found: &Found) -> Place {
        let nap_ns = found.due_ns.unwrap_or(self.nap_ns).min(NAP_NS_MAX);
        Place::Napping(now_ns.saturating_add(nap_ns))
    }

    /// What a nap has brought says how long the next one should be: longer and longer while it brings nothing; the usual
    /// time again when it brings something; shorter when everything was done already while somebody waited for it.
    fn learn_to_nap(&mut self, found: &Found) {
        let came = found.completed + found.received;
        let all = found.in_device == 0 && (found.blocked || found.received > 0);
        self.nap_ns = match (came, all) {
            (0, _) => (2 * self.nap_ns).min(NAP_NS_MAX),
            (_, true) => (self.nap_ns.min(NAP_NS) / 2).max(NAP_NS_MIN),
            (_, false) if 4 * came < came + found.in_device => (2 * self.nap_ns).min(NAP_NS),
            (_, false) => self.nap_ns.min(NAP_NS),
        };
    }

    /// How long the device rested says whether spinning on would have been better.
    fn learn_to_spin(&mut self, now_ns: u64, max_ns: u64) {
        let came_soon = now_ns.saturating_sub(self.rested_ns) <= max_ns;
        self.spin_ns = match (came_soon, self.spin_ns / 2) {
            (true, _) => (2 * self.spin_ns).max(SPIN_NS_MIN).min(max_ns),
            (false, half_ns) if half_ns < SPIN_NS_MIN => 0,
            (false, half_ns) => half_ns,
        };
    }
}

/// How long a device may rest that will tell.
fn rest_ns(found: &Found) -> u64 {
    let longest_ns = match found {
        Found { waiting: true, .. } => NAP_NS_MAX,
        Found { in_device: 0, .. } => u64::MAX,
        _ => REST_NS_MAX,
    };
    found.due_ns.map_or(longest_ns, |due_ns| due_ns.min(longest_ns))
}

#[cfg(test)]
mod tests;
