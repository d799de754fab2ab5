//! Pages in the model: with any setup, no page is out twice and none is lost, every packet is read once and
//! in order, and the same seed gives the same result. (The run itself checks the first three, and the
//! ledger.)

use proptest::prelude::*;
use wharf_lab::models::page_pool::{Costs, Outcome, PolicyKind, Setup, run};
use wharf_sim::engine::lock::LockCosts;
use wharf_sim::harness::Timing;

fn setup(kind: PolicyKind) -> Setup {
    Setup {
        kind,
        fifo_pages: 64,
        channels: 4,
        applications: 12,
        streams: 48,
        slow_streams: 0,
        slow_ns: 100_000,
        window_packets: 40,
        burst_packets: 8,
        wire_bits_per_s: 0,
        costs: Costs {
            lock: LockCosts { pair_ns: 14, transfer_ns: 60, per_spinner_ns: 0 },
            receive_ns: 100,
            read_ns: 200,
            page_ns: 5,
            look_miss_ns: 32,
            look_hit_ns: 2,
            depot_page_ps: 40_000,
            mail_frame_ps: 10_000,
            wake_ns: 500,
        },
        time: Timing { seed: 1, jitter_permille: 100, settle_ns: 500_000, measure_ns: 500_000 },
    }
}

fn go(setup: &Setup) -> Outcome {
    run(setup, &mut || true).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_setup_reads_all_and_frees_all(
        kind in prop::sample::select(PolicyKind::ALL.to_vec()),
        (channels, applications, streams) in (1..4usize, 1..6usize, 1..40usize),
        (window_packets, burst_packets) in (1..100u32, 1..40u32),
        (slow_streams, slow_ns) in (0..4usize, 0..200_000u64),
        fifo_pages in prop::sample::select(vec![1usize, 16, 300]),
        (depot_page_ps, read_ns, seed) in (0..100_000u64, 1..1000u64, any::<u64>()),
    ) {
        let base = setup(kind);
        let costs = Costs { depot_page_ps, read_ns, ..base.costs };
        let setup = Setup {
            channels, applications, streams, window_packets, burst_packets, slow_streams, slow_ns, fifo_pages, costs,
            time: Timing { seed, settle_ns: 50_000, measure_ns: 100_000, ..base.time }, ..base
        };
        let outcome = go(&setup);
        prop_assert!(outcome.packets_in_all > 0, "it flows: {outcome:?}");
        prop_assert!(outcome.spinning_ns[0] <= outcome.busy_ns[0] && outcome.spinning_ns[1] <= outcome.busy_ns[1]);
        prop_assert_eq!(go(&setup), outcome, "same seed, same result");
    }
}

#[test]
fn depot_lock_bounds_the_rate() {
    let outcome = go(&setup(PolicyKind::Allocator));
    // Each page goes out and in by batches of 63, at 40 ns a page and a hand-over per batch.
    let pace_pps = 1_000_000_000 * 63 / (2 * (63 * 40 + 74));
    assert!(outcome.packets_per_s().abs_diff(pace_pps) < pace_pps / 20, "{outcome:?}");
    assert!(outcome.spinning_ns[0] > outcome.busy_ns[0] / 4, "{outcome:?}");
}

#[test]
fn origin_neither_spins_nor_visits_the_depot() {
    let outcome = go(&setup(PolicyKind::Origin));
    let [busy_ns, spinning_ns] = [outcome.busy_ns, outcome.spinning_ns].map(|pair| pair.iter().sum::<u64>());
    assert!(spinning_ns < busy_ns / 50, "{outcome:?}");
    assert!(outcome.recycled * 100 >= outcome.pages[0] * 98, "{outcome:?}");
    assert!(outcome.packets_per_s() > 2 * go(&setup(PolicyKind::Allocator)).packets_per_s());
}

#[test]
fn wire_bounds_the_rate_and_keeps_order() {
    // 64 bytes take 88 bytes of a wire.
    let wire_bits_per_s = 88 * 8 * 1_000_000;
    let outcome = go(&Setup { wire_bits_per_s, ..setup(PolicyKind::Origin) });
    assert!(outcome.packets_per_s().abs_diff(1_000_000) < 10_000, "{outcome:?}");
    assert!(outcome.packets_per_s() * 10 < go(&setup(PolicyKind::Origin)).packets_per_s());
}

#[test]
fn slow_reader_blocks_the_head_only() {
    let of = |kind| go(&Setup { slow_streams: 4, ..setup(kind) });
    let (head, scan) = (of(PolicyKind::RecycleHead), of(PolicyKind::RecycleScan));
    assert!(head.recycled * 10 < head.pages[0] * 8, "{head:?}");
    assert!(scan.recycled * 10 > scan.pages[0] * 9, "{scan:?}");
}

#[test]
fn halves_visit_the_depot_half_as_often() {
    let [whole, halves] = [PolicyKind::Allocator, PolicyKind::Halves].map(|kind| go(&setup(kind)));
    let per_page = |outcome: &Outcome| outcome.slow_paths as f64 / outcome.pages[0] as f64;
    assert!((per_page(&halves) / per_page(&whole) - 0.5).abs() < 0.02, "{whole:?} {halves:?}");
}
