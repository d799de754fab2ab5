//! `Balance`: what a sender has drained beyond what it has sent.
//!
//! Assumptions: several senders are eager, none is held back by the device, and there is no poller. Who then has the slower
//! processor is the owner most of the time: its runs last longest, and the others put in meanwhile more than it takes out, a
//! quota's worth for each packet of its own. Goal: nobody drains for others, in the long run, more than is drained for it.
//! Whoever is ahead by a quota takes as much off the queue as it brings, and offers the rest: if somebody else comes, that one
//! goes on, and if not, the offer is taken back, with a whole quota. What is long ago does not count: ahead or behind, nobody
//! is by more than two quotas.

use crate::counters::SenderCounters;

/// One sender's.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// Of drained less sent packets: what is not to count any more.
    forgotten_packets: i64,
}

impl Balance {
    /// Packets that a run may send, where `quota` is the policy's; `own` says how many of its own it brings.
    #[inline]
    pub(super) fn quota(
        &mut self, counters: &SenderCounters, own: impl FnOnce() -> usize, quota: u32,
    ) -> u32 {
        let total = counters.drained_packets.get().wrapping_sub(counters.packets.get()) as i64;
        let ahead = total - self.forgotten_packets;
        let most = 2 * i64::from(quota);
        if ahead.abs() > most {
            self.forgotten_packets = total - ahead.clamp(-most, most);
        }
        if ahead > i64::from(quota) { (own() as u32).clamp(1, quota) } else { quota }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx::owner::Policy;

    fn counted(drained: u64, sent: u64) -> SenderCounters {
        let counters = SenderCounters::default();
        counters.drained_packets.add(drained);
        counters.packets.add(sent);
        counters
    }

    #[test]
    fn who_is_ahead_by_a_quota_takes_what_it_brings() {
        let mut balance = Balance::default();
        assert_eq!(balance.quota(&counted(128, 0), || 1, 128), 128);
        assert_eq!(balance.quota(&counted(129, 0), || 1, 128), 1);
        assert_eq!(balance.quota(&counted(129, 0), || 32, 128), 32);
        assert_eq!(
            balance.quota(&counted(129, 0), || 0, 128),
            1,
            "a run that sends nothing would have no end"
        );
        assert_eq!(balance.quota(&counted(129, 0), || 500, 128), 128);
        assert_eq!(balance.quota(&counted(200, 100), || 1, 128), 128);
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let mut balance = Balance::default();
        assert_eq!(balance.quota(&counted(1_000_000, 0), || 1, 128), 1);
        assert_eq!(balance.quota(&counted(1_000_000, 127), || 1, 128), 1);
        assert_eq!(balance.quota(&counted(1_000_000, 128), || 1, 128), 128, "two quotas, at most");
        let mut balance = Balance::default();
        assert_eq!(balance.quota(&counted(0, 1_000_000), || 1, 128), 128);
        assert_eq!(balance.quota(&counted(385, 1_000_000), || 1, 128), 1);
    }

    #[test]
    fn without_a_quota_nobody_is_ahead() {
        let mut balance = Balance::default();
        let quota = Policy::UNBOUNDED.quota_packets;
        assert_eq!(balance.quota(&counted(u64::from(u32::MAX), 0), || 1, quota), quota);
    }
}
