//! `Throttle`: the least time between two interrupts of a queue, learnt from the packets that came between them.
//!
//! At a high rate an interrupt waits until some [`PACKETS`] packets have come, so that one serves them all, and
//! [`LONGEST_NS`] at most, which bounds what the wait adds to their delay. At a rate at which it would wait in vain,
//! it does not wait. The kernel's drivers choose among three times by bytes and packets (`igb_update_itr` of Linux).

/// Packets that one interrupt is to serve.
const PACKETS: u64 = 16;
/// Fewest packets that an interrupt may wait for.
const PACKETS_MIN: u64 = 2;
/// Bounds of the time: 70 000 and 4 000 interrupts a second, as the kernel's drivers have them.
const SHORTEST_NS: u64 = 14_000;
const LONGEST_NS: u64 = 250_000;
/// The time that an adapter is set up with: 20 000 interrupts a second.
const FIRST_NS: u64 = 50_000;
/// Part of the mean that the newest interval makes: one of so many.
const NEWEST: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Throttle {
    interval_ns: u64,
    /// Time of the last interrupt; 0 before the first.
    last_ns: u64,
    /// Mean time between two packets.
    gap_ns: u64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { interval_ns: FIRST_NS, last_ns: 0, gap_ns: FIRST_NS / PACKETS }
    }
}

impl Throttle {
    /// Notes an interrupt at `now_ns`, and the packets that arrived or were reported as sent since the one before.
    /// Returns the new least time between two interrupts, ns, if another one than before is worth a register write.
    pub(super) fn learn(&mut self, now_ns: u64, packets: u64) -> Option<u32> {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns));
        let gap_ns = (elapsed_ns / packets.max(1)).min(2 * LONGEST_NS);
        self.gap_ns = (self.gap_ns * (NEWEST - 1) + gap_ns) / NEWEST;
        let wanted_ns = match self.gap_ns * PACKETS_MIN > LONGEST_NS {
            true => SHORTEST_NS,
            false => (self.gap_ns * PACKETS).clamp(SHORTEST_NS, LONGEST_NS),
        };
        if wanted_ns.abs_diff(self.interval_ns) <= self.interval_ns / 4 {
            return None;
        }
        self.interval_ns = wanted_ns;
        Some(wanted_ns as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time after 50 interrupts, each `every_ns` and with so many packets, and the number of changes.
    fn learnt(throttle: &mut Throttle, every_ns: u64, packets: u64) -> (u64, usize) {
        let began_ns = throttle.last_ns;
        let changes =
            (1..=50).filter(|at| throttle.learn(began_ns + at * every_ns, packets).is_some()).count();
        (throttle.interval_ns, changes)
    }

    #[test]
    fn an_interrupt_waits_for_some_packets_and_not_in_vain() {
        let mut throttle = Throttle::default();
        throttle.learn(1_000_000_000, 0);
        // 1000 packets a second: one would come in vain.
        assert_eq!(learnt(&mut throttle, 1_000_000, 1).0, SHORTEST_NS);
        // 100 000 packets a second: 16 of them take 160 us, of which the last quarter may lack.
        let (interval_ns, changes) = learnt(&mut throttle, 50_000, 5);
        assert!((120_000..=200_000).contains(&interval_ns) && changes < 8, "{interval_ns} ns, {changes}");
        assert_eq!(learnt(&mut throttle, 50_000, 5).1, 0, "a rate that stays changes nothing");
        // 10 million: an interrupt has its shortest time.
        assert_eq!(learnt(&mut throttle, 50_000, 500).0, SHORTEST_NS);
        // 15 000: the longest.
        assert!(learnt(&mut throttle, 130_000, 2).0 >= LONGEST_NS * 3 / 4);
    }

    #[test]
    fn any_time_and_any_count_give_a_time_within_the_bounds() {
        let mut throttle = Throttle::default();
        for (now_ns, packets) in [(0, 0), (u64::MAX, 0), (0, u64::MAX), (5, 1), (5, 1), (u64::MAX, 1)] {
            throttle.learn(now_ns, packets);
            assert!((SHORTEST_NS..=LONGEST_NS).contains(&throttle.interval_ns));
        }
    }
}
