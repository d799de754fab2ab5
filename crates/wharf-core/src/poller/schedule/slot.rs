//! `Slot`: one device of a poller: where it stands, and what its naps and spins have taught.

use super::{IrqChange, Mode, PollOutcome};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Queued,
    Polled,
    /// Until a time; until called, too.
    Napping(u64),
    Resting(u64),
    Over,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) place: Place,
    /// Whether something tells when to look.
    notifies: bool,
    /// Whether it has been asked to.
    pub(super) unmasked: bool,
    /// Ask it before the next poll.
    unmask: bool,
    /// Called while it was being polled.
    pub(super) again: bool,
    /// It is polled on though nothing was found.
    pub(super) spins: bool,
    /// The last poll ended a nap.
    pub(super) napped: bool,
    nap_ns: u64,
    spin_ns: u64,
    /// When frames arrived last, and when it came to rest.
    active_ns: u64,
    rested_ns: u64,
}

impl Slot {
    /// Something tells when to look at it (`notifies`), or not.
    pub(super) fn new(notifies: bool, spin_ns: u64) -> Self {
        Self {
            place: Place::Queued,
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

    /// It was called while it rested.
    pub(super) fn called(&mut self, now_ns: u64, spin_ns_max: u64) {
        self.learn_to_spin(now_ns, spin_ns_max);
        self.nap_ns = NAP_NS;
    }

    /// It is polled now.
    pub(super) fn begin(&mut self) -> (IrqChange, bool) {
        self.place = Place::Polled;
        self.again = false;
        let was_unmasked = std::mem::replace(&mut self.unmasked, std::mem::take(&mut self.unmask));
        let irq = match (was_unmasked, self.unmasked) {
            (_, true) => IrqChange::Unmask,
            (true, false) => IrqChange::Mask,
            (false, false) => IrqChange::Keep,
        };
        (irq, self.unmasked || self.nap_ns > NAP_NS)
    }

    /// Where it goes after a poll.
    pub(super) fn after(&mut self, now_ns: u64, mode: Mode, found: &PollOutcome) -> Place {
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

    fn is_worth_spinning(&self, now_ns: u64, found: &PollOutcome) -> bool {
        let recent = self.active_ns > 0 && now_ns.saturating_sub(self.active_ns) < self.spin_ns;
        found.receives && recent && !self.unmasked
    }

    fn rest(&mut self, now_ns: u64, for_ns: u64) -> Place {
        self.rested_ns = now_ns;
        Place::Resting(now_ns.saturating_add(for_ns))
    }

    fn nap(&mut self, now_ns: u64, found: &PollOutcome) -> Place {
        let nap_ns = found.due_ns.unwrap_or(self.nap_ns).min(NAP_NS_MAX);
        Place::Napping(now_ns.saturating_add(nap_ns))
    }

    /// What a nap has brought says how long the next one should be: longer and longer while it brings nothing; the usual
    /// time again when it brings something; shorter when everything was done already while somebody waited for it.
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
fn rest_ns(found: &PollOutcome) -> u64 {
    let longest_ns = match found {
        PollOutcome { waiting: true, .. } => NAP_NS_MAX,
        PollOutcome { in_device: 0, .. } => u64::MAX,
        _ => REST_NS_MAX,
    };
    found.due_ns.map_or(longest_ns, |due_ns| due_ns.min(longest_ns))
}
