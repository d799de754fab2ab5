//! `Owner`: the decisions of a queue's owner, as a state machine.
//!
//! Assumption: the caller owns the queue. The machine touches no queue, clock or thread, so that a thread, a modelled
//! processor and a test drive the same code. Goal: send within a quota, reap once, leave no packet behind in an idle
//! queue, and bound the time that a sender works for others.
//!
//! ```text
//! Claimed ─► Transmit ─► Reap ─┬─► Transmit      the limit opened, or there is more and quota left
//!                              ├─► HandOver      quota spent, frames left, a successor there
//!                              └─► Leave ─► done, or Refused ─► HandlePending ─► Transmit …
//! ```
//! [`crate::tx::queue::QdiscRun`] carries the actions out and knows the successor. Without one, a spent quota starts
//! again: packets left behind would be stranded.
//!
//! ```
//! use wharf_core::engine::Pause;
//! use wharf_core::owner::{Action, Event, Owner, Policy};
//!
//! let mut owner = Owner::new(Policy::quota(64), true, 0);
//! assert_eq!(owner.step(0, Event::Claimed), Action::Transmit);
//! assert_eq!(owner.step(0, Event::Transmitted { packets: 64, pause: Pause::Quota }), Action::Reap);
//! assert_eq!(owner.step(0, Event::Reaped { packets: 64, open: true }), Action::HandOver);
//! ```

mod policy;

pub use policy::{JIFFY_NS, Policy};

use crate::tx::engine::{BULK_PACKETS_MAX, Pause};

/// An event of an ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The queue was claimed.
    Claimed,
    /// A transmit returned.
    Transmitted {
        /// Frames that the device took.
        packets: u32,
        /// The reason for its end.
        pause: Pause,
    },
    /// Completions were taken.
    Reaped {
        /// Frames completed.
        packets: u32,
        /// True if the byte limit is open.
        open: bool,
    },
    /// The release failed: new work was announced meanwhile.
    Refused,
    /// Pending work was handled: lanes marked, messages carried out, waiters noted.
    PendingHandled,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send up to [`Owner::quota_left`] frames.
    Transmit,
    /// Take completions.
    Reap,
    /// Take the pending bits off the owner word and handle them.
    HandlePending,
    /// Release the queue; the next event is [`Event::Refused`] if that fails.
    Leave,
    /// Release the queue to the successor, whatever is announced: the poller, or the next sender.
    HandOver,
    /// Look whether the next sender has claimed the queue, and go on if none does.
    StandBy,
}

/// One ownership of a queue.
#[derive(Debug, Clone)]
pub struct Owner {
    policy: Policy,
    /// A successor comes when the queue is handed over.
    successor: bool,
    /// `None` before the first look at the clock.
    began_ns: Option<u64>,
    spent_packets: u32,
    total_packets: u64,
    /// Frames of the longest run that has ended.
    longest_packets: u32,
    pause: Pause,
}

impl Owner {
    /// Starts the ownership of a queue claimed at `now_ns`.
    #[inline]
    pub fn new(policy: Policy, successor: bool, now_ns: u64) -> Self {
        Self { began_ns: Some(now_ns), ..Self::unclocked(policy, successor) }
    }

    /// Starts an ownership without a look at the clock. The time runs from the first look on; a queue that is empty
    /// after one bulk needs none.
    #[inline(always)]
    pub fn unclocked(policy: Policy, successor: bool) -> Self {
        let (spent_packets, longest_packets, pause) = (0, 0, Pause::Empty);
        Self { policy, successor, began_ns: None, spent_packets, total_packets: 0, longest_packets, pause }
    }

    /// Ends the run and starts another at once: the same thread is still, or again, the owner.
    pub fn restart(&mut self) {
        self.longest_packets = self.longest_packets.max(self.spent_packets);
        (self.spent_packets, self.began_ns) = (0, None);
    }

    /// Sets the quota of a run: the policy's, or less.
    pub(crate) fn set_quota(&mut self, packets: u32) {
        self.policy.quota_packets = packets;
    }

    /// Notes `packets` sent in a transmit that has not returned yet.
    pub fn sent_some(&mut self, packets: u32) {
        self.spent_packets = self.spent_packets.saturating_add(packets);
        self.total_packets += u64::from(packets);
    }

    /// Returns the number of frames of the longest run so far.
    pub fn longest_packets(&self) -> u32 {
        self.longest_packets.max(self.spent_packets)
    }

    /// Returns the number of frames sent in this ownership.
    pub fn packets(&self) -> u64 {
        self.total_packets
    }

    /// Returns the frames to send in the next transmit: a bulk, or what is left of the quota.
    #[inline(always)]
    pub fn quota_left(&self) -> u32 {
        self.policy.quota_packets.saturating_sub(self.spent_packets).min(BULK_PACKETS_MAX as u32)
    }

    /// Returns the next thing to do after `event`.
    #[inline(always)]
    pub fn step(&mut self, now_ns: u64, event: Event) -> Action {
        self.step_by(|| now_ns, event)
    }

    /// Works like [`Owner::step`], with a clock that is read only if the answer depends on it.
    #[inline(always)]
    pub fn step_by(&mut self, now_ns: impl FnOnce() -> u64, event: Event) -> Action {
        match event {
            Event::Claimed => Action::Transmit,
            Event::PendingHandled => self.transmit_or_hand_over(now_ns),
            Event::Transmitted { packets, pause } => {
                self.sent_some(packets);
                self.pause = pause;
                Action::Reap
            }
            Event::Reaped { packets, open } => match self.pause {
                Pause::Empty => Action::Leave,
                Pause::Stopped if packets > 0 && open => self.transmit_or_hand_over(now_ns),
                Pause::Stopped => Action::Leave,
                Pause::Quota => self.transmit_or_hand_over(now_ns),
            },
            Event::Refused => Action::HandlePending,
        }
    }

    /// True if the quota or the time of the run is spent.
    #[inline]
    pub fn is_spent(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        if self.spent_packets >= self.policy.quota_packets {
            return true;
        }
        self.policy.time_ns.is_some_and(|limit_ns| {
            let now_ns = now_ns();
            now_ns.saturating_sub(*self.began_ns.get_or_insert(now_ns)) >= limit_ns
        })
    }

    #[inline(always)]
    fn transmit_or_hand_over(&mut self, now_ns: impl FnOnce() -> u64) -> Action {
        if self.is_spent(now_ns) {
            if self.successor {
                return Action::HandOver;
            }
            self.restart();
        }
        Action::Transmit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { quota_packets: 64, time_ns: None };

    fn sent(packets: u32, pause: Pause) -> Event {
        Event::Transmitted { packets, pause }
    }

    #[test]
    fn empty_queue_is_released_after_one_transmit_and_one_reap() {
        let mut owner = Owner::new(POLICY, true, 0);
        assert_eq!(owner.step(0, Event::Claimed), Action::Transmit);
        assert_eq!(owner.step(0, sent(32, Pause::Empty)), Action::Reap);
        assert_eq!(owner.step(0, Event::Reaped { packets: 32, open: true }), Action::Leave);
    }

    #[test]
    fn spent_quota_hands_over_or_restarts_without_successor() {
        for (successor, next, quota) in [(true, Action::HandOver, 0), (false, Action::Transmit, 64)] {
            let mut owner = Owner::new(POLICY, successor, 0);
            owner.step(0, Event::Claimed);
            owner.step(0, sent(64, Pause::Quota));
            assert_eq!(owner.step(0, Event::Reaped { packets: 64, open: true }), next);
            assert_eq!(owner.quota_left(), quota);
        }
    }

    #[test]
    fn stop_ends_the_run_unless_reaping_opened_the_limit() {
        let mut owner = Owner::new(POLICY, true, 0);
        owner.step(0, Event::Claimed);
        owner.step(0, sent(1, Pause::Stopped));
        assert_eq!(owner.step(0, Event::Reaped { packets: 1, open: true }), Action::Transmit);
        owner.step(0, sent(3, Pause::Stopped));
        assert_eq!(owner.step(0, Event::Reaped { packets: 0, open: false }), Action::Leave);
        assert_eq!(owner.step(0, Event::Refused), Action::HandlePending);
        assert_eq!(owner.step(0, Event::PendingHandled), Action::Transmit);
        assert_eq!((owner.packets(), owner.quota_left()), (4, 60));
    }

    #[test]
    fn time_limit_hands_over() {
        let policy = Policy { quota_packets: 64, time_ns: Some(1000) };
        let mut owner = Owner::new(policy, true, 500);
        owner.step(500, Event::Claimed);
        owner.step(600, sent(1, Pause::Quota));
        assert_eq!(owner.step(1400, Event::Reaped { packets: 1, open: true }), Action::Transmit);
        owner.step(1450, sent(1, Pause::Quota));
        assert_eq!(owner.step(1500, Event::Reaped { packets: 1, open: true }), Action::HandOver);
    }

    #[test]
    fn clock_is_read_only_if_the_run_goes_on_and_time_is_bounded() {
        let unread = || -> u64 { unreachable!("nothing depends on the time here") };
        let mut owner = Owner::unclocked(Policy::QUOTA_AND_TIME, true);
        assert_eq!(owner.step_by(unread, Event::Claimed), Action::Transmit);
        assert_eq!(owner.step_by(unread, sent(32, Pause::Empty)), Action::Reap);
        assert_eq!(owner.step_by(unread, Event::Reaped { packets: 32, open: true }), Action::Leave);
        let more = Event::Reaped { packets: 1, open: true };
        for (policy, last_ns, wanted) in [
            (Policy::JIFFY, JIFFY_NS + 6, Action::Transmit),
            (Policy::JIFFY, JIFFY_NS + 7, Action::HandOver),
            (Policy::UNBOUNDED, u64::MAX, Action::Transmit),
            (Policy::quota(65), u64::MAX, Action::Transmit),
        ] {
            let mut owner = Owner::unclocked(policy, true);
            owner.step_by(unread, Event::Claimed);
            owner.step_by(unread, sent(64, Pause::Quota));
            assert_eq!(owner.step(7, more), Action::Transmit, "the time runs from here");
            owner.step_by(unread, sent(0, Pause::Quota));
            assert_eq!(owner.step(last_ns, more), wanted, "{policy:?}");
        }
    }

    #[test]
    fn step_ends_at_a_bulk_and_run_at_its_quota() {
        let mut owner = Owner::unclocked(Policy::quota(100), true);
        owner.step(0, Event::Claimed);
        assert_eq!(owner.quota_left(), 64);
        owner.step(0, sent(64, Pause::Quota));
        assert_eq!(owner.step(0, Event::Reaped { packets: 64, open: true }), Action::Transmit);
        assert_eq!(owner.quota_left(), 36);
        owner.step(0, sent(36, Pause::Quota));
        assert_eq!(owner.step(0, Event::Reaped { packets: 36, open: true }), Action::HandOver);
        owner.restart();
        owner.sent_some(10);
        assert_eq!((owner.longest_packets(), owner.quota_left(), owner.packets()), (100, 64, 110));
    }
}
