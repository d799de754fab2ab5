//! The metrics and the owner policies of `fairness`.

use crate::experiment::row::scaled;
use wharf_core::owner::Policy;

pub(super) const MPPS: (&str, &str) = ("mpps", "Mpps");
pub(super) const DROP_SHARE: (&str, &str) = ("drop_share", "percent");
pub(super) const JAIN_SENDERS: (&str, &str) = ("jain_senders", "Jain's index");
pub(super) const JAIN_DRAINED: (&str, &str) = ("jain_drained", "Jain's index");
/// The share of the measured time in which a thread had a processor. On a device without a rate, nothing else
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

/// Returns Jain's index of fairness in millionths: 1 if all have the same, 1/n if one has all, and 1 for
/// nothing at all.
pub(super) fn jain_ppm(shares: impl Iterator<Item = u64>) -> i64 {
    let shares: Vec<u64> = shares.collect();
    // Beyond 48 bits of the shares the last do not matter; without them, millionths of the squares fit.
    let most_bits = shares.iter().max().map_or(0, |most| u64::BITS - most.leading_zeros());
    let (mut sum, mut squares) = (0u128, 0u128);
    for share in shares.iter().map(|share| u128::from(share >> most_bits.saturating_sub(48))) {
        (sum, squares) = (sum + share, squares + share * share);
    }
    let count = shares.len() as u128;
    if squares == 0 { 1_000_000 } else { (sum * sum * 1_000_000 / (count * squares)) as i64 }
}

/// Returns `part` of `whole` in millionths of a percent.
pub(super) fn percent_ppm(part: u64, whole: u64) -> i64 {
    scaled(part, 100_000_000, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_1_for_equals_and_1_by_n_for_a_monopoly() {
        assert_eq!(jain_ppm([7, 7, 7].into_iter()), 1_000_000);
        assert_eq!(jain_ppm([0, 0, 5, 0].into_iter()), 250_000);
        assert_eq!(jain_ppm([2, 1].into_iter()), 900_000);
        assert_eq!(jain_ppm([0, 0].into_iter()), 1_000_000);
        assert_eq!(jain_ppm([u64::MAX >> 1, u64::MAX >> 1].into_iter()), 1_000_000);
    }

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
