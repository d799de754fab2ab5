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
//! `QdiscRun` (`tx/queue/qdisc_run.rs`) carries the actions out and knows the successor. Without one, a spent quota starts
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

/// Messages of other threads in one run, after which its quota is spent: a thread that changes settings over and over holds up no
/// sender.
const MESSAGES_MAX: u32 = 64;

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
    /// Messages carried out in this run.
    messages: u32,
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
        let (spent_packets, messages, longest_packets, pause) = (0, 0, 0, Pause::Empty);
        let (began_ns, total_packets) = (None, 0);
        Self { policy, successor, began_ns, spent_packets, total_packets, messages, longest_packets, pause }
    }

    /// Ends the run and starts another at once: the same thread is still, or again, the owner.
    pub fn restart(&mut self) {
        self.longest_packets = self.longest_packets.max(self.spent_packets);
        (self.spent_packets, self.messages, self.began_ns) = (0, 0, None);
    }

    /// Sets the quota of a run: the policy's, or less. With 0 the queue's frames go into the discipline only.
    pub(crate) fn set_quota(&mut self, packets: u32) {
        self.policy.quota_packets = packets;
    }

    /// Lowers the quota of a run to `packets`, if it is larger.
    pub(crate) fn lower_quota(&mut self, packets: u32) {
        self.policy.quota_packets = self.policy.quota_packets.min(packets);
    }

    /// Notes `packets` sent in a transmit that has not returned yet.
    pub fn sent_some(&mut self, packets: u32) {
        self.spent_packets = self.spent_packets.saturating_add(packets);
        self.total_packets += u64::from(packets);
    }

    /// Notes `messages` that the owner has carried out for other threads.
    pub(crate) fn carried_out(&mut self, messages: u32) {
        self.messages = self.messages.saturating_add(messages);
    }

    /// True if the run has carried out as many messages as it may ([`MESSAGES_MAX`]).
    pub(crate) fn has_carried_out_all(&self) -> bool {
        self.messages >= MESSAGES_MAX
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
        if self.spent_packets >= self.policy.quota_packets || self.has_carried_out_all() {
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
