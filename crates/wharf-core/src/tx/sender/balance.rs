//! `Balance`: the packets that a sender has drained as owner beyond those that it has sent.
//!
//! Assumption: several senders are eager, the device holds none of them back, and there is no poller. The
//! sender with the slowest processor is then the owner most of the time: its runs last longest, because the
//! other senders keep adding packets; it then drains a whole quota for each packet of its own. Goal: in the
//! long run no sender drains more for others than others drain for it. A sender that is ahead by a quota
//! drains as much as it brings and offers the rest to the next sender; if none comes, it goes on with a whole
//! quota. The balance is clamped to two quotas, so that old runs stop counting.

use crate::counters::SenderCounters;

/// One sender's balance.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// The part of drained less sent packets that no longer counts.
    forgotten_packets: i64,
}

impl Balance {
    /// Returns the packets that a run may send: `quota`, or the `own` packets that the sender brings if it is ahead.
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
    fn sender_ahead_by_a_quota_drains_its_own_frames() {
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
    fn balance_beyond_two_quotas_is_forgotten() {
        let mut balance = Balance::default();
        assert_eq!(balance.quota(&counted(1_000_000, 0), || 1, 128), 1);
        assert_eq!(balance.quota(&counted(1_000_000, 127), || 1, 128), 1);
        assert_eq!(balance.quota(&counted(1_000_000, 128), || 1, 128), 128, "two quotas, at most");
        let mut balance = Balance::default();
        assert_eq!(balance.quota(&counted(0, 1_000_000), || 1, 128), 128);
        assert_eq!(balance.quota(&counted(385, 1_000_000), || 1, 128), 1);
    }

    #[test]
    fn unbounded_quota_never_limits_a_run() {
        let mut balance = Balance::default();
        let quota = Policy::UNBOUNDED.quota_packets;
        assert_eq!(balance.quota(&counted(u64::from(u32::MAX), 0), || 1, quota), quota);
    }
}
