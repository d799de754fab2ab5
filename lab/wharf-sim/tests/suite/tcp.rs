//! The TCP source end to end: it fills the wire, loses nothing, and keeps to small queues; smoltcp's goodput
//! on the same wire is a second opinion.

use crate::path::{Way, transfer};
use proptest::prelude::*;
use wharf_sim::flows::tcp::Rules;

const WAY: Way = Way {
    host_bits_per_s: 1_000_000_000,
    bits_per_s: 100_000_000,
    queue_bytes: 250_000,
    delay_ns: 5_000_000,
    lost_one_in: 0,
    seed: 1,
};

fn percent_of_wire(rules: Rules, way: Way, bytes: u64) -> u64 {
    transfer(rules, way, bytes).bits_per_s() * 100 / way.bits_per_s
}

#[test]
fn fills_a_wire_with_room_for_its_window() {
    let done = transfer(Rules::default(), WAY, 50 << 20);
    assert_eq!((done.bytes, done.timeouts), (50 << 20, 0), "{done:?}");
    let most = 100 * 1448 / (1448 + 66 + 24);
    assert!((most - 3..=most).contains(&percent_of_wire(Rules::default(), WAY, 50 << 20)), "{done:?}");
}

#[test]
fn small_queues_bound_bytes_held_by_the_host() {
    let way = Way { host_bits_per_s: WAY.bits_per_s, ..WAY };
    let held = |most| {
        let rules = Rules { small_queue_bytes_max: most, ..Rules::default() };
        transfer(rules, way, 50 << 20)
    };
    let (without, with) = (held(None), held(Some(131_072)));
    assert!(with.held_bytes_max <= 131_072 + 65_536 + 512, "{with:?}");
    assert!(without.held_bytes_max > 1_000_000, "{without:?}");
    assert!(with.bits_per_s() * 100 >= without.bits_per_s() * 99, "{with:?} {without:?}");
}

#[test]
fn super_packets_grow_with_the_rate_up_to_64_k() {
    let mean = |bits_per_s: u64, delay_ns| {
        let way = Way { host_bits_per_s: bits_per_s, bits_per_s, delay_ns, ..WAY };
        let done = transfer(Rules::default(), way, bits_per_s);
        done.bytes / done.pieces
    };
    let (slow, fast) = (mean(10_000_000, 5_000_000), mean(10_000_000_000, 50_000));
    assert!((2800..6000).contains(&slow), "a few packets: {slow}");
    assert!(fast > 40_000 && fast <= 65_160, "{fast}");
}

#[test]
fn random_losses_are_mostly_recovered_without_timeouts() {
    let done = transfer(Rules::default(), Way { lost_one_in: 500, ..WAY }, 20 << 20);
    assert_eq!(done.bytes, 20 << 20);
    assert!(done.lost > 10 && done.again >= done.lost && done.again < 2 * done.lost + 20, "{done:?}");
    assert!(done.timeouts <= 1, "{done:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Over any wire, all arrives.
    #[test]
    fn all_arrives_over_any_wire(
        (host, slow) in (1u64..10_000, 1u64..2_000), queue_bytes in 0u64..300_000, delay_us in 0u64..50_000,
        lost_one_in in prop::sample::select(vec![0u64, 5, 20, 300]), seed in any::<u64>(), kilobytes in 1u64..400,
        small in prop::sample::select(vec![None, Some(1u64), Some(131_072)]), nagle in any::<bool>(),
        super_bytes_max in prop::sample::select(vec![1u32, 1448, 20_000, 65_160]),
    ) {
        let way = Way {
            host_bits_per_s: host * 1_000_000, bits_per_s: slow * 1_000_000, queue_bytes,
            delay_ns: delay_us * 1000, lost_one_in, seed,
        };
        let rules = Rules { small_queue_bytes_max: small, nagle, super_bytes_max, ..Rules::default() };
        let bytes = kilobytes * 1000 + 77;
        let done = transfer(rules, way, bytes);
        prop_assert_eq!(done.bytes, bytes, "{:?}", done);
        prop_assert_eq!(done.lost == 0 && done.again > done.timeouts, false);
        prop_assert_eq!(transfer(rules, way, bytes), done);
    }
}

/// smoltcp's goodput over the same wire: within 12 % if a window or the wire decides.
#[test]
fn smoltcp_agrees_on_goodput() {
    for (peer_window_bytes, bits_per_s, delay_ns) in [
        (65_535, 100_000_000, 10_000_000), // the window
        (65_535, 1_000_000_000, 1_000_000),
        (400_000, 50_000_000, 5_000_000), // the wire
        (400_000, 100_000_000, 2_000_000),
    ] {
        let way = Way { host_bits_per_s: bits_per_s, bits_per_s, queue_bytes: 1 << 20, delay_ns, ..WAY };
        let rules = Rules { peer_window_bytes, mss_bytes: 1460, super_bytes_max: 1460, ..Rules::default() };
        let ours = transfer(rules, way, 20 << 20).bits_per_s();
        let theirs = crate::second_opinion::goodput(way, peer_window_bytes as usize, 20 << 20);
        let apart = ours.abs_diff(theirs) * 100 / theirs;
        assert!(apart <= 12, "{ours} and {theirs} bit/s: {way:?}, {peer_window_bytes}");
    }
}
