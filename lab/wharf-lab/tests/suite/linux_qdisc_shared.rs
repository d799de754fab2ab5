//! One qdisc shared by modelled processors: with any setup, nothing is lost, reordered or left behind.

use proptest::prelude::*;
use wharf_core::owner::Policy;
use wharf_lab::models::linux_qdisc::shared::{Costs, Discipline, Outcome, Setup, run};
use wharf_sim::engine::cache_line::LineCosts;
use wharf_sim::engine::cpu::{Smt, Tick};
use wharf_sim::engine::lock::{LockCosts, LockKind};
use wharf_sim::harness::Timing;

fn setup() -> Setup {
    let costs = Costs {
        make_ns: 640,
        lock: LockCosts { pair_ns: 16, transfer_ns: 60, per_spinner_ns: 20 },
        lock_kind: LockKind::Ticket,
        list: LineCosts { hit_ns: 16, transfer_ns: 60 },
        enqueue_ns: 30,
        dequeue_ns: 25,
        device_ns: 60,
        remote_ns: 470,
        drop_ns: 800,
        tick: Tick { every_ns: 100_000, cost_ns: 1500 },
    };
    Setup {
        discipline: Discipline::RootLock,
        policy: Policy::JIFFY,
        dedicated: false,
        cpus: 4,
        qdisc_packets: 1000,
        frame_bytes: 60,
        smt: Smt::default(),
        costs,
        time: Timing { seed: 1, jitter_permille: 100, settle_ns: 2_000_000, measure_ns: 3_000_000 },
    }
}

fn go(setup: Setup) -> Outcome {
    run(setup, &mut || true).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn every_setup_drains_and_is_the_same_twice(
        discipline in prop::sample::select(vec![Discipline::RootLock, Discipline::BusyLock, Discipline::LocklessList]),
        policy in prop::sample::select(vec![Policy::UNBOUNDED, Policy::JIFFY, Policy::quota(5), Policy::QUOTA_AND_TIME]),
        (cpus, qdisc_packets) in (1..12usize, prop::sample::select(vec![1usize, 10, 1000])),
        (dedicated, seed, unfair) in (any::<bool>(), any::<u64>(), any::<bool>()),
    ) {
        let mut setup = Setup { discipline, policy, cpus, qdisc_packets, dedicated, ..setup() };
        setup.time = Timing { seed, settle_ns: 100_000, measure_ns: 300_000, ..setup.time };
        setup.costs.lock_kind = if unfair { LockKind::Unfair } else { LockKind::Ticket };
        let outcome = go(setup.clone());
        prop_assert!(outcome.by_cpu.iter().all(|done| done.dropped <= done.offered));
        prop_assert!(outcome.longest_run <= u64::from(policy.quota_packets));
        if cpus == 1 && qdisc_packets > 1 && !dedicated {
            prop_assert_eq!(outcome.by_cpu[0].dropped, 0);
        }
        prop_assert_eq!(go(setup), outcome, "same seed, same result");
    }
}

/// The finding of 2011: without a quota one processor drains for all, and a quota divides the work.
#[test]
fn a_quota_divides_the_work() {
    let most = |policy| {
        let mut setup = Setup { policy, ..setup() };
        setup.time = Timing { settle_ns: 10_000_000, measure_ns: 20_000_000, ..setup.time };
        let outcome = go(setup);
        let drained: Vec<u64> = outcome.by_cpu.iter().map(|done| done.drained).collect();
        drained.iter().max().unwrap() * 100 / drained.iter().sum::<u64>()
    };
    assert!(most(Policy::UNBOUNDED) >= 99);
    let most_with_quota = most(Policy::QUOTA);
    assert!(most_with_quota <= 60, "{most_with_quota} % of four processors' packets");
}

/// The purpose of the second lock: the runner of the qdisc is not starved by the senders.
#[test]
fn the_second_lock_lets_the_runner_through() {
    let sent = |discipline| {
        let outcome = go(Setup { discipline, cpus: 16, ..setup() });
        outcome.by_cpu.iter().map(|done| done.drained).sum::<u64>()
    };
    assert!(sent(Discipline::BusyLock) > 2 * sent(Discipline::RootLock));
}
