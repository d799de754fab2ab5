//! The metrics and the owner policies of `fairness`.

use crate::experiment::row::scaled;
use wharf_core::owner::Policy;

pub(super) const MPPS: (&str, &str) = ("mpps", "Mpps");
pub(super) const DROP_SHARE: (&str, &str) = ("drop_share", "percent");
pub(super) const JAIN_SENDERS: (&str, &str) = ("jain_senders", "Jain's index");
pub(super) const JAIN_DRAINED: (&str, &str) = ("jain_drained", "Jain's index");
pub(super) const FOR_OTHERS: (&str, &str) = ("drained_for_others", "percent of drained");
pub(super) const DEQUEUE_TIME: (&str, &str) = ("dequeue_time", "percent of time");
pub(super) const LONGEST_RUN: (&str, &str) = ("longest_run", "packets");

/// Bounds of an ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerPolicy {
    Unbounded,
    Jiffy,
    Quota,
    QuotaAndTime,
    /// A thread of its own drains, and senders only enqueue.
    Dedicated,
    /// This many packets, and the jiffy: for the sweep.
    Sweep(u32),
}

pub(super) use OwnerPolicy::{Dedicated, Jiffy, Quota, QuotaAndTime, Sweep, Unbounded};

pub(super) const POLICIES: [OwnerPolicy; 5] = [Unbounded, Jiffy, Quota, QuotaAndTime, Dedicated];

/// Quotas around the device weight, as tried in 2011.
pub(super) const SWEEP: [OwnerPolicy; 5] = [Sweep(32), Sweep(64), Sweep(65), Sweep(128), Sweep(256)];

impl OwnerPolicy {
    pub(super) fn name(self) -> String {
        match self {
            Unbounded => "unbounded".into(),
            Jiffy => "jiffy".into(),
            Quota => "quota".into(),
            QuotaAndTime => "quota+time".into(),
            Dedicated => "dedicated".into(),
            Sweep(packets) => format!("quota={packets}+time"),
        }
    }

    pub(super) fn policy(self) -> Policy {
        match self {
            Unbounded => Policy::UNBOUNDED,
            Jiffy => Policy::JIFFY,
            Quota => Policy::QUOTA,
            QuotaAndTime | Dedicated => Policy::QUOTA_AND_TIME,
            Sweep(quota_packets) => Policy { quota_packets, ..Policy::QUOTA_AND_TIME },
        }
    }
}

/// Returns `part` of `whole` in millionths of a percent.
pub(super) fn percent_ppm(part: u64, whole: u64) -> i64 {
    scaled(part, 100_000_000, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_bounds_are_those_of_the_name() {
        let names: Vec<_> = POLICIES.iter().chain(&SWEEP).map(|policy| policy.name()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
        assert_eq!(Sweep(65).policy().quota_packets, 65);
        assert_eq!(QuotaAndTime.policy(), Policy::default(), "the default is among them");
    }
}
