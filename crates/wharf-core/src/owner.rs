//! The owner's decisions, as a state machine: what to do next with a queue that is ours for now.
//!
//! Assumptions: whoever steps it owns the queue; it touches no queue, clock or thread itself, so a thread, a
//! modelled CPU and a test drive the same code. Goal: send within a quota, reap once, leave no packet behind
//! in an idle queue, and never keep a sender working for others without end.
//!
//! ```text
//! Claimed ─► Transmit ─► Reap ─┬─► Transmit      the limit opened, or there is more and quota left
//!                              ├─► HandOver      quota spent, more to do, and somebody to do it
//!                              └─► Leave ─► done, or Refused ─► Attend ─► Transmit …
//! ```
//! Without a successor a spent quota starts anew: leaving packets behind would strand them.

use crate::run::Pause;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The queue is ours.
    Claimed,
    /// A transmit came back.
    Transmitted {
        /// Frames that the device took.
        packets: u32,
        /// Why it ended.
        pause: Pause,
    },
    /// Completions have been taken.
    Reaped {
        /// How many.
        packets: u32,
        /// Whether the byte limit is open.
        open: bool,
    },
    /// Leaving failed: something was announced meanwhile.
    Refused,
    /// Notices have been seen to: lanes marked, messages carried out, waiters woken.
    Attended,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send up to [`Owner::quota_left`] frames.
    Transmit,
    /// Take completions.
    Reap,
    /// Take the notices off the owner word and see to them.
    Attend,
    /// Leave; the next event is [`Event::Refused`] if that fails.
    Leave,
    /// Leave to the successor, whatever is announced, and wake it.
    HandOver,
}

/// Bounds of one ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Frames to send before handing over; at least 1.
    pub quota_packets: u32,
    /// Time to hold the queue before handing over; `None` for no bound (then `now` is never looked at).
    pub time_ns: Option<u64>,
}

/// One ownership of a queue.
#[derive(Debug, Clone)]
pub struct Owner {
    policy: Policy,
    /// Whether somebody will come when handed to: a poller.
    successor: bool,
    began_ns: u64,
    spent_packets: u32,
    total_packets: u64,
    pause: Pause,
}

impl Owner {
    /// Of a queue just claimed at `now_ns`.
    #[inline]
    pub fn new(policy: Policy, successor: bool, now_ns: u64) -> Self {
        Self { policy, successor, began_ns: now_ns, spent_packets: 0, total_packets: 0, pause: Pause::Empty }
    }

    /// The successor is gone: the owner goes on by itself.
    pub fn carry_on(&mut self) {
        self.successor = false;
    }

    /// Notes `packets` sent in a transmit that has not come back yet.
    pub fn sent_some(&mut self, packets: u32) {
        self.spent_packets += packets;
        self.total_packets += u64::from(packets);
    }

    /// Frames sent in this ownership.
    pub fn packets(&self) -> u64 {
        self.total_packets
    }

    /// Frames that it may still send before handing over.
    #[inline]
    pub fn quota_left(&self) -> u32 {
        self.policy.quota_packets.saturating_sub(self.spent_packets)
    }

    /// The next thing to do after `event`.
    #[inline(always)]
    pub fn step(&mut self, now_ns: u64, event: Event) -> Action {
        match event {
            Event::Claimed | Event::Attended => self.transmit_or_hand_over(now_ns),
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
            Event::Refused => Action::Attend,
        }
    }

    fn is_spent(&self, now_ns: u64) -> bool {
        let too_long = |limit_ns| now_ns.saturating_sub(self.began_ns) >= limit_ns;
        self.spent_packets >= self.policy.quota_packets || self.policy.time_ns.is_some_and(too_long)
    }

    #[inline(always)]
    fn transmit_or_hand_over(&mut self, now_ns: u64) -> Action {
        if self.is_spent(now_ns) {
            if self.successor {
                return Action::HandOver;
            }
            (self.spent_packets, self.began_ns) = (0, now_ns);
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
    fn an_empty_queue_is_left_after_one_transmit_and_one_reap() {
        let mut owner = Owner::new(POLICY, true, 0);
        assert_eq!(owner.step(0, Event::Claimed), Action::Transmit);
        assert_eq!(owner.step(0, sent(32, Pause::Empty)), Action::Reap);
        assert_eq!(owner.step(0, Event::Reaped { packets: 32, open: true }), Action::Leave);
    }

    #[test]
    fn a_spent_quota_goes_to_the_successor_and_starts_anew_without_one() {
        for (successor, next, quota) in [(true, Action::HandOver, 0), (false, Action::Transmit, 64)] {
            let mut owner = Owner::new(POLICY, successor, 0);
            owner.step(0, Event::Claimed);
            owner.step(0, sent(64, Pause::Quota));
            assert_eq!(owner.step(0, Event::Reaped { packets: 64, open: true }), next);
            assert_eq!(owner.quota_left(), quota);
        }
    }

    #[test]
    fn a_stop_ends_the_run_unless_reaping_opened_the_limit() {
        let mut owner = Owner::new(POLICY, true, 0);
        owner.step(0, Event::Claimed);
        owner.step(0, sent(1, Pause::Stopped));
        assert_eq!(owner.step(0, Event::Reaped { packets: 1, open: true }), Action::Transmit);
        owner.step(0, sent(3, Pause::Stopped));
        assert_eq!(owner.step(0, Event::Reaped { packets: 0, open: false }), Action::Leave);
        assert_eq!(owner.step(0, Event::Refused), Action::Attend);
        assert_eq!(owner.step(0, Event::Attended), Action::Transmit);
        assert_eq!((owner.packets(), owner.quota_left()), (4, 60));
    }

    #[test]
    fn time_is_a_bound_where_asked_for() {
        let policy = Policy { quota_packets: 64, time_ns: Some(1000) };
        let mut owner = Owner::new(policy, true, 500);
        owner.step(500, Event::Claimed);
        owner.step(600, sent(1, Pause::Quota));
        assert_eq!(owner.step(1400, Event::Reaped { packets: 1, open: true }), Action::Transmit);
        owner.step(1450, sent(1, Pause::Quota));
        assert_eq!(owner.step(1500, Event::Reaped { packets: 1, open: true }), Action::HandOver);
    }
}
