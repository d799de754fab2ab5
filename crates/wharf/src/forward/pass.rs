//! The handler of a direction's arrivals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wharf_core::gso::GsoLimiter;
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_core::rx::{Handler, Rest};
use wharf_core::sender::SendNow;
use wharf_devices::host::ExactClock;

/// Counts of one receive side. The thread that polls it writes them; any thread may read them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Frames that wait to be sent.
    pub(super) waiting: AtomicU64,
    /// Those of them that were not sent at the end.
    pub(super) returned: AtomicU64,
    /// Frames freed, by [`Unsent`].
    unsent: [AtomicU64; Unsent::ALL.len()],
    /// Copies of frames that leave by several ports.
    pub(super) copies: AtomicU64,
    /// Super-packets that were segmented before the queue, and the segments that went on.
    pub(super) cut: AtomicU64,
    pub(super) pieces: AtomicU64,
}

/// The reason why a frame that arrived was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    Closed,
    BadAddress,
    FloodLimit,
    LinkLocal,
    NoHeadroom,
    NoMemory,
    NoPort,
    OtherVlan,
    SamePort,
    Spoofed,
}

impl Unsent {
    /// In order, with the words that they are counted by.
    pub(super) const ALL: [(Self, &'static str); 10] = [
        (Self::Closed, "closed"),
        (Self::BadAddress, "bad-address"),
        (Self::FloodLimit, "flood-limit"),
        (Self::LinkLocal, "link-local"),
        (Self::NoHeadroom, "no-headroom"),
        (Self::NoMemory, "no-memory"),
        (Self::NoPort, "no-port"),
        (Self::OtherVlan, "other-vlan"),
        (Self::SamePort, "same-port"),
        (Self::Spoofed, "spoofed"),
    ];
}

/// Adds to a count that one thread writes.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed) + more, Relaxed);
}

impl Counts {
    /// Notes that `packets` were freed.
    pub(super) fn note(&self, reason: Unsent, packets: u64) {
        add(&self.unsent[reason as usize], packets);
    }

    /// Returns the frames freed, by reason.
    pub(super) fn unsent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |(reason, word): (Unsent, _)| (word, self.unsent[reason as usize].load(Relaxed));
        Unsent::ALL.into_iter().map(count)
    }

    /// Adds those of another, both of which nothing writes any more.
    pub(super) fn absorb(&self, other: &Self) {
        let pairs = [
            (&self.waiting, &other.waiting),
            (&self.copies, &other.copies),
            (&self.cut, &other.cut),
            (&self.pieces, &other.pieces),
        ];
        let all = pairs.into_iter().chain(self.unsent.iter().zip(&other.unsent));
        all.for_each(|(to, from)| add(to, from.load(Relaxed)));
    }

    /// Counts the frames that wait as returned: nothing is sent any more.
    pub(super) fn settle(&self) {
        self.returned.store(self.waiting.load(Relaxed), Relaxed);
    }
}

/// Times at which frames moved in a direction. All pollers of its receive sides write them, and the supervising thread.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Times of the first and the last frames that went on, on the exact clock; 0 for never.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Time at which frames last moved or were inside, and the sum of all pauses before.
    stirred_ns: AtomicU64,
    paused_ns: AtomicU64,
    /// Departures known so far.
    departed: AtomicU64,
}

/// Shortest time that is a pause: nothing moved, and nothing was inside.
const PAUSE_NS: u64 = 1_000_000_000;
/// Shortest time without pauses that a rate is over: below it, a frame came only now and then.
const ACTIVE_NS_MIN: u64 = 100_000_000;

impl Activity {
    /// Returns the time from the first frames that went on to the last.
    pub(super) fn span_ns(&self) -> u64 {
        self.last_ns.load(Relaxed).saturating_sub(self.first_ns.load(Relaxed))
    }

    /// Returns the same without pauses.
    pub(super) fn active_ns(&self) -> u64 {
        let span_ns = self.span_ns();
        let active_ns = span_ns.saturating_sub(self.paused_ns.load(Relaxed));
        if active_ns < ACTIVE_NS_MIN { span_ns } else { active_ns }
    }

    /// Notes that `packets` frames have left in all, and whether some are inside.
    pub(super) fn departed(&self, packets: u64, is_inside: bool) {
        if self.departed.swap(packets, Relaxed) < packets {
            self.moved_at(ExactClock.now_ns());
        } else if is_inside && self.first_ns.load(Relaxed) > 0 {
            self.stir(ExactClock.now_ns());
        }
    }

    /// Notes that frames have gone on.
    pub(super) fn moved(&self) {
        self.moved_at(ExactClock.now_ns());
    }

    fn moved_at(&self, now_ns: u64) {
        if self.first_ns.load(Relaxed) == 0 {
            // The first of several threads sets it.
            let _ = self.first_ns.compare_exchange(0, now_ns, Relaxed, Relaxed);
        }
        self.last_ns.fetch_max(now_ns, Relaxed);
        self.stir(now_ns);
    }

    fn stir(&self, now_ns: u64) {
        let before_ns = self.stirred_ns.fetch_max(now_ns, Relaxed);
        let pause_ns = now_ns.saturating_sub(before_ns);
        if before_ns > 0 && pause_ns >= PAUSE_NS {
            self.paused_ns.fetch_add(pause_ns, Relaxed);
        }
    }
}

/// Makes the handler that sends arrivals by `by`, segmented if `limiter` says so. Frames that the sender leaves wait and are shown
/// again; nothing else is received before.
pub(super) fn handler(
    mut by: Box<dyn SendNow + Send>, mut limiter: Option<GsoLimiter>, activity: Arc<Activity>,
) -> (Handler, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let noted = counts.clone();
    let handler = move |burst: &mut Burst| {
        let (offered, pieces) = (burst.len(), noted.pieces.load(Relaxed));
        let sent = match &mut limiter {
            Some(limiter) => limiter.send(burst, &mut *by),
            None => by.send_now(burst),
        };
        if let Some((cut, pieces)) = limiter.as_ref().map(GsoLimiter::counts) {
            noted.cut.store(cut, Relaxed);
            noted.pieces.store(pieces, Relaxed);
        }
        if burst.len() < offered || noted.pieces.load(Relaxed) > pieces {
            activity.moved();
        }
        let left = burst.len() as u64;
        // A queue that is closed or dead sends nothing any more: no frame waits for it.
        let refused = if sent.is_err() { left } else { 0 };
        noted.note(Unsent::Closed, refused);
        noted.waiting.store(left - refused, Relaxed);
        if left == refused { Rest::Free } else { Rest::Again }
    };
    (Box::new(handler), counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_stray_frame_long_before_the_others_is_no_time_of_a_rate() {
        let activity = Activity::default();
        activity.moved_at(S);
        (0..=100).for_each(|tenth| activity.moved_at(60 * S + tenth * S / 10));
        activity.moved_at(80 * S);
        assert_eq!((activity.span_ns(), activity.active_ns()), (79 * S, 10 * S));
    }

    #[test]
    fn waiting_frames_make_no_pause_and_rare_frames_count_all_the_time() {
        let activity = Activity::default();
        activity.moved_at(S);
        // A rate lets a frame leave every two seconds: some are always inside.
        for tenth in 1..=40 {
            activity.stir(S + tenth * S / 10);
            if tenth % 20 == 0 {
                activity.moved_at(S + tenth * S / 10);
            }
        }
        assert_eq!((activity.span_ns(), activity.active_ns()), (4 * S, 4 * S));
        let activity = Activity::default();
        (1..=10).for_each(|second| activity.moved_at(2 * second * S));
        assert_eq!((activity.span_ns(), activity.active_ns()), (18 * S, 18 * S));
    }
}
