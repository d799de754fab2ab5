//! The machine of 2007: one queue for all processors, no byte limit, a driver that may fail.

use proptest::prelude::*;
use wharf::testing::{Chance, FaultSpec};
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_lab::models::linux_qdisc::{Costs, Outcome, Queues, Setup, Tcp, Traffic, far, run};
use wharf_sim::RunError;
use wharf_sim::engine::cpu::Tick;
use wharf_sim::engine::lock::{LockCosts, LockKind};
use wharf_sim::harness::Timing;
use wharf_sim::nic::simple;

const FAR: far::Costs = far::Costs {
    interrupt_ns: 2500,
    receive_ns: 1525,
    wake_ns: 600,
    switch_ns: 1500,
    read_ns: 600,
    packet_ns: 800,
};

fn setup() -> Setup {
    Setup {
        cpus: 4,
        queues: Queues::One,
        byte_limit: false,
        wake_only: false,
        errors: None,
        streams: 4,
        frame_bytes: 2048,
        traffic: Traffic { make_ns: 900, window_packets: 100, tcp: None },
        far: None,
        batching: Batching::On,
        ring_frames: 64,
        policy: Policy { quota_packets: 64, time_ns: None },
        wake_free_frames: 1,
        qdisc_packets: 1000,
        hold_ns: 1_000_000_000,
        costs: Costs {
            lock: LockCosts { pair_ns: 30, transfer_ns: 100, per_spinner_ns: 30 },
            lock_kind: LockKind::Ticket,
            enqueue_ns: 40,
            dequeue_ns: 30,
            driver_ns: 250,
            doorbell_drain_ns: 460,
            reclaim_ns: 150,
            completion_ns: 500,
            interrupt_ns: 2500,
            interrupt_gap_ns: 0,
            wake_ns: 600,
            switch_ns: 1500,
            idle_exit_ns: 1000,
            tick: Tick { every_ns: 1_000_000, cost_ns: 2000 },
        },
        time: Timing { seed: 1, jitter_permille: 200, settle_ns: 500_000, measure_ns: 1_500_000 },
    }
}

fn go(setup: Setup) -> Result<Outcome, RunError> {
    let nic = simple::Costs {
        doorbell_ps: 1_549_000,
        fetch_ns: 800,
        write_back_ns: 400,
        wire_ps_per_byte: 1000,
        written_back_together: true,
    };
    run(setup, nic, &mut || true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Packets may fail; all others leave once and in order, and accepted is sent plus failed: the run checks
    /// it.
    #[test]
    fn failing_driver_loses_only_failed_packets(
        (cpus, streams) in (2..5usize, 1..9usize),
        (tcp, far_host, window_packets) in (any::<bool>(), any::<bool>(), 1..100u32),
        (batched, wake_only) in (any::<bool>(), any::<bool>()),
        errors_ppm in prop::sample::select(vec![0u32, 10_000, 300_000]),
        seed in any::<u64>(),
    ) {
        let traffic = if tcp {
            Traffic { make_ns: 350, window_packets, tcp: Some(Tcp { send_ns: 450, ack_ns: 500, round_trip_ns: 9000, ack_shift: 0 }) }
        } else {
            Traffic { make_ns: 200, window_packets, tcp: None }
        };
        let errors = FaultSpec { seed, error: Chance::Millionths(errors_ppm), ..FaultSpec::default() };
        let batching = if batched { Batching::On } else { Batching::Off };
        let errors = (errors_ppm > 0).then_some(errors);
        let far = far_host.then_some(FAR);
        let base = setup();
        let setup = Setup { cpus, streams, traffic, far, batching, wake_only, errors, time: Timing { seed, ..base.time }, ..base };
        let outcome = go(setup.clone()).unwrap();
        prop_assert!(errors_ppm > 0 || outcome.failed == 0, "{outcome:?}");
        prop_assert_eq!(go(setup).unwrap(), outcome, "same seed, same result");
    }
}

#[test]
fn failed_packets_are_counted() {
    let errors = Some(FaultSpec { error: Chance::Every(10), ..FaultSpec::default() });
    let outcome = go(Setup { errors, ..setup() }).unwrap();
    let share = outcome.failed as f64 / (outcome.packets + outcome.failed) as f64;
    assert!((0.08..0.12).contains(&share), "{outcome:?}");
}

#[test]
fn on_wake_bulks_are_where_the_queue_was_stopped() {
    let per_call = |batching, wake_only| {
        go(Setup { batching, wake_only, ..setup() }).unwrap().packets_per_doorbell_permille()
    };
    let [off, wake, on] =
        [(Batching::Off, false), (Batching::On, true), (Batching::On, false)].map(|(b, w)| per_call(b, w));
    assert!(off == 1000 && wake > 1000 && on >= wake, "{off} {wake} {on}");
}
