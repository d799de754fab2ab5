//! `Slot`: one device of a poller: its state, and the nap and spin times learnt.

use super::{IrqChange, Mode, PollOutcome};

/// The first nap, and the nap after another thread owned the device. Shorter naps take the processor from senders and
/// receivers and find few frames each: with 20 us throughout, a replay ran at half the rate.
const NAP_NS: u64 = 70_000;
/// Shortest nap.
const NAP_NS_MIN: u64 = 20_000;
/// Longest nap.
const NAP_NS_MAX: u64 = 1_000_000;
/// Longest rest of a device that holds frames and notifies: should a notification be lost, the frames are found.
const REST_NS_MAX: u64 = 10_000_000;
/// Shortest time worth spinning.
const SPIN_NS_MIN: u64 = 5_000;

/// State of a device in the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    Queued,
    Polled,
    /// Until a time; a call ends the nap too.
    Napping(u64),
    /// Until a time or a call.
    Resting(u64),
    Over,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: SlotState,
    /// The device can notify the poller.
    notifies: bool,
    /// Its notifications are unmasked.
    pub(super) unmasked: bool,
    /// Unmask them before the next poll.
    unmask: bool,
    /// It was called during a poll.
    pub(super) again: bool,
    /// It is polled on although the last poll found nothing.
    pub(super) spins: bool,
    /// The last poll ended a nap.
    pub(super) napped: bool,
    nap_ns: u64,
    spin_ns: u64,
    /// Time of the last arrival.
    active_ns: u64,
    /// Start of the last rest.
    rested_ns: u64,
}

impl Slot {
    /// Makes a slot, queued for its first poll. `notifies`: the device can notify the poller.
    pub(super) fn new(notifies: bool, spin_ns: u64) -> Self {
        Self {
            state: SlotState::Queued,
            notifies,
            unmasked: false,
            unmask: false,
            again: false,
            spins: false,
            napped: false,
            nap_ns: NAP_NS,
            spin_ns,
            active_ns: 0,
            rested_ns: 0,
        }
    }

    /// Notes a call during a rest.
    pub(super) fn called(&mut self, now_ns: u64, spin_ns_max: u64) {
        self.learn_to_spin(now_ns, spin_ns_max);
        self.nap_ns = NAP_NS;
    }

    /// Begins a poll. Returns the change of notifications, and true if the next poll may be long after it.
    pub(super) fn begin(&mut self) -> (IrqChange, bool) {
        self.state = SlotState::Polled;
        self.again = false;
        let was_unmasked = std::mem::replace(&mut self.unmasked, std::mem::take(&mut self.unmask));
        let irq = match (was_unmasked, self.unmasked) {
            (_, true) => IrqChange::Unmask,
            (true, false) => IrqChange::Mask,
            (false, false) => IrqChange::Keep,
        };
        (irq, self.unmasked || self.nap_ns > NAP_NS)
    }

    /// Returns the state after a poll.
    pub(super) fn after(&mut self, now_ns: u64, mode: Mode, found: &PollOutcome) -> SlotState {
        if found.received > 0 {
            self.active_ns = now_ns;
        }
        if std::mem::take(&mut self.napped) && !found.busy {
            self.learn_to_nap(found);
        }
        self.spins = false;
        if found.over {
            return SlotState::Over;
        }
        if found.more || self.again || self.unmasked && (found.worked() || found.unarmed) {
            return SlotState::Queued;
        }
        self.spins = match mode {
            Mode::Busy => true,
            Mode::Adaptive => !found.busy && self.is_worth_spinning(now_ns, found),
            Mode::Sleeping => false,
        };
        match mode {
            _ if self.spins => SlotState::Queued,
            _ if found.busy => SlotState::Napping(now_ns.saturating_add(NAP_NS)),
            _ if !found.receives && !found.is_pending() => self.rest(now_ns, u64::MAX),
            // Completions are gathered and taken together.
            Mode::Adaptive if !found.receives && found.worked() => self.nap(now_ns, found),
            _ if !self.notifies => self.nap(now_ns, found),
            _ if self.unmasked => self.rest(now_ns, rest_ns(found)),
            _ => {
                self.unmask = true;
                SlotState::Queued
            }
        }
    }

    fn is_worth_spinning(&self, now_ns: u64, found: &PollOutcome) -> bool {
        let recent = self.active_ns > 0 && now_ns.saturating_sub(self.active_ns) < self.spin_ns;
        found.receives && recent && !self.unmasked
    }

    fn rest(&mut self, now_ns: u64, for_ns: u64) -> SlotState {
        self.rested_ns = now_ns;
        SlotState::Resting(now_ns.saturating_add(for_ns))
    }

    fn nap(&mut self, now_ns: u64, found: &PollOutcome) -> SlotState {
        let nap_ns = found.due_ns.unwrap_or(self.nap_ns).min(NAP_NS_MAX);
        SlotState::Napping(now_ns.saturating_add(nap_ns))
    }

    /// Learns the next nap from the frames that this one brought: doubled after none, the default after some, halved
    /// if all were done while a sender waited.
    fn learn_to_nap(&mut self, found: &PollOutcome) {
        let came = found.completed + found.received;
        let all = found.in_device == 0 && (found.blocked || found.received > 0);
        self.nap_ns = match (came, all) {
            (0, _) => (2 * self.nap_ns).min(NAP_NS_MAX),
            (_, true) => (self.nap_ns.min(NAP_NS) / 2).max(NAP_NS_MIN),
            (_, false) if 4 * came < came + found.in_device => (2 * self.nap_ns).min(NAP_NS),
            (_, false) => self.nap_ns.min(NAP_NS),
        };
    }

    /// Learns the spin time from the length of the rest: longer if spinning on would have met the arrival.
    fn learn_to_spin(&mut self, now_ns: u64, max_ns: u64) {
        let came_soon = now_ns.saturating_sub(self.rested_ns) <= max_ns;
        self.spin_ns = match (came_soon, self.spin_ns / 2) {
            (true, _) => (2 * self.spin_ns).max(SPIN_NS_MIN).min(max_ns),
            (false, half_ns) if half_ns < SPIN_NS_MIN => 0,
            (false, half_ns) => half_ns,
        };
    }
}

/// Returns the longest rest of a device that notifies, ns.
fn rest_ns(found: &PollOutcome) -> u64 {
    let longest_ns = match found {
        PollOutcome { due_ns: Some(u64::MAX), .. } => u64::MAX,
        PollOutcome { waiting: true, .. } => NAP_NS_MAX,
        PollOutcome { in_device: 0, .. } => u64::MAX,
        _ => REST_NS_MAX,
    };
    found.due_ns.map_or(longest_ns, |due_ns| due_ns.min(longest_ns))
}
