//! Percentiles of latencies, and classes of packets.

use wharf_tools::traffic::{Latencies, Latency};

/// Longest latency told apart.
const HOUR_NS: u64 = 3_600_000_000_000;

#[test]
fn percentiles_are_within_one_percent() {
    let mut latency = Latency::default();
    for microseconds in 1..=1000 {
        latency.record(microseconds * 1000);
        latency.record(microseconds * 1000);
    }
    assert_eq!((latency.packets(), latency.max_ns()), (2000, 1_000_000));
    for (share, expected) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000)] {
        let found = latency.quantile_ns(share);
        assert!(found.abs_diff(expected) <= expected / 100, "{share}: {found}");
    }
}

#[test]
fn extremes_are_kept_in_bounds() {
    let mut latency = Latency::default();
    assert_eq!(latency.quantile_ns(0.5), 0);
    latency.record(u64::MAX);
    assert_eq!(latency.max_ns(), u64::MAX);
    assert!(latency.quantile_ns(0.5) >= HOUR_NS);
}

#[test]
fn classes_are_told_apart_and_add_up() {
    let mut latencies = Latencies::default();
    for (tos, latency_ns) in [(0, 1000), (0x10, 50), (0, 3000), (0xb8, 7), (0x11, 60)] {
        latencies.record(tos, latency_ns);
    }
    let found: Vec<_> =
        latencies.by_dscp().map(|(dscp, latency)| (dscp, latency.packets(), latency.max_ns())).collect();
    assert_eq!(found, [(0, 2, 3000), (4, 2, 60), (46, 1, 7)]);
    assert_eq!((latencies.packets(), latencies.all().packets(), latencies.all().max_ns()), (5, 5, 3000));
}

/// A run is looked at in parts: each has the packets since the look before.
#[test]
fn packets_since_an_earlier_state_are_those_noted_meanwhile() {
    let mut latency = Latency::default();
    (0..100).for_each(|_| latency.record(1000));
    let before = latency.clone();
    assert_eq!(latency.since(&before).packets(), 0);
    (0..10).for_each(|_| latency.record(5_000_000));
    let mut since = latency.since(&before);
    assert_eq!((since.packets(), latency.packets()), (10, 110));
    assert!(since.quantile_ns(0.01) > 4_900_000, "{}", since.quantile_ns(0.01));
}
