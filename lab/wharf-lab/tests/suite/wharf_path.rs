//! Wharf's path in the model: many processors, one queue, the real owner word.

use proptest::prelude::*;
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_lab::models::wharf_path::{Costs, Outcome, SenderSetup, Setup, Threads, run};
use wharf_sim::engine::cache_line::LineCosts;
use wharf_sim::engine::cpu::{Smt, Tick};
use wharf_sim::flows::arrivals::{Arrivals, Schedule};
use wharf_sim::harness::Timing;
use wharf_sim::nic::simple;

fn senders(count: usize, burst: usize) -> Vec<SenderSetup> {
    let schedule = Schedule::new(Arrivals::Saturate, burst, 1, 0);
    vec![SenderSetup { burst, frame_bytes: 60, band: None, schedule }; count]
}

fn setup() -> Setup {
    let costs = Costs {
        make_ns: 100,
        clock_ns: 20,
        stage_ns: 5,
        word: LineCosts { hit_ns: 5, transfer_ns: 60 },
        pull_ns: 10,
        driver_ns: 30,
        doorbell_drain_ns: 78,
        reclaim_ns: 10,
        again_ns: 2000,
        look_ns: 20,
        pause_ns: 0,
        lane_ns: 0,
        tick: Tick { every_ns: 100_000, cost_ns: 1500 },
    };
    Setup {
        cpus: 4,
        policy: Policy::default(),
        dedicated: false,
        senders: senders(4, 1),
        slice_ns: 1_000_000,
        switch_ns: 0,
        batching: Batching::On,
        qdisc: None,
        byte_limits: Bounds::LEARN,
        small_queues: None,
        ring_frames: 512,
        completion_gap_ns: 1,
        threads: None,
        pool_frames: 8192,
        smt: Smt::default(),
        costs,
        time: Timing { seed: 1, jitter_permille: 100, settle_ns: 1_000_000, measure_ns: 2_000_000 },
    }
}

fn go(setup: Setup, wire_ps_per_byte: u64) -> Outcome {
    let costs = simple::Costs {
        doorbell_ps: 78_000,
        fetch_ns: 500,
        write_back_ns: 200,
        wire_ps_per_byte,
        written_back_together: false,
    };
    run(setup, costs, &mut || true).unwrap()
}

const POLICIES: [Policy; 4] = [Policy::UNBOUNDED, Policy::JIFFY, Policy::quota(7), Policy::QUOTA_AND_TIME];

const THREADS: Threads =
    Threads { polled: true, wake_ns: 5000, late_ns: 50_000, clock_ns: 4_000_000, spin_ns: 50_000 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Small rings stop, a small pool runs dry, lanes fill; nothing is lost, reordered or left behind.
    #[test]
    fn every_setup_delivers_all_in_order(
        (cpus, burst) in (1..9usize, prop::sample::select(vec![1usize, 5, 32, 64])),
        batching in prop::sample::select(vec![Batching::On, Batching::Off, Batching::Bytes(3000)]),
        ring_frames in prop::sample::select(vec![2usize, 4, 16, 512]),
        pool_frames in prop::sample::select(vec![600u32, 8192]),
        (wire, seed) in (prop::sample::select(vec![0u64, 800, 8000]), any::<u64>()),
        (policy, dedicated) in (prop::sample::select(POLICIES.to_vec()), any::<bool>()),
        threads in prop::sample::select(vec![None, Some(THREADS), Some(Threads { polled: false, ..THREADS })]),
    ) {
        let base = setup();
        let polled = !dedicated && threads.is_some_and(|threads| threads.polled);
        let threads = threads.map(|threads| Threads { polled, ..threads });
        // Threads share processors.
        let count = if threads.is_some() { cpus.div_ceil(2) } else { cpus };
        let setup = Setup {
            cpus: count, policy, dedicated, senders: senders(cpus, burst), batching, ring_frames, pool_frames, threads,
            time: Timing { seed, settle_ns: 200_000, measure_ns: 400_000, ..base.time }, ..base
        };
        let outcome = go(setup.clone(), wire);
        prop_assert!(outcome.packets_in_all >= (count * burst) as u64, "it flows: {outcome:?}");
        prop_assert_eq!(outcome.by_cpu.iter().map(|cpu| cpu.offered).sum::<u64>(), outcome.packets_in_all);
        let drained = outcome.by_cpu.iter().map(|cpu| cpu.drained).sum::<u64>();
        if polled {
            prop_assert!(drained <= outcome.packets_in_all, "{outcome:?}");
        } else if dedicated {
            // Bursts under way at the end, after the owner had gone.
            prop_assert!(drained <= (cpus * burst) as u64, "{outcome:?}");
        } else {
            prop_assert_eq!(drained, outcome.packets_in_all);
        }
        if !dedicated && !polled && cpus > 1 {
            prop_assert!(outcome.longest_run <= u64::from(policy.quota_packets) + 64, "{:?}", outcome);
        }
        prop_assert_eq!(format!("{:?}", go(setup, wire)), format!("{outcome:?}"), "same seed, same result");
    }
}

#[test]
fn packets_enqueued_under_another_owner_leave_in_bulk() {
    let (on, off) = (go(setup(), 0), go(Setup { batching: Batching::Off, ..setup() }, 0));
    assert!(on.packets_per_doorbell_permille() > 1500, "{on:?}");
    assert_eq!(off.packets_per_doorbell_permille(), 1000);
    assert!(on.packets_per_s() > off.packets_per_s(), "{on:?} {off:?}");
}
