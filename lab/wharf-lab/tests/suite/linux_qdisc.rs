//! The kernel's path in the model: with any setup, nothing is lost, reordered or left behind.

use proptest::prelude::*;
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_lab::models::linux_qdisc::{Costs, Outcome, Queues, Setup, Tcp, Traffic, run};
use wharf_sim::RunError;
use wharf_sim::engine::cpu::Tick;
use wharf_sim::engine::lock::{LockCosts, LockKind};
use wharf_sim::harness::Timing;
use wharf_sim::nic::simple;

fn costs(lock_kind: LockKind) -> Costs {
    Costs {
        lock: LockCosts { pair_ns: 14, transfer_ns: 60, per_spinner_ns: 20 },
        lock_kind,
        enqueue_ns: 20,
        dequeue_ns: 15,
        driver_ns: 45,
        doorbell_drain_ns: 78,
        reclaim_ns: 50,
        completion_ns: 0,
        interrupt_ns: 1500,
        interrupt_gap_ns: 20_000,
        wake_ns: 300,
        switch_ns: 800,
        idle_exit_ns: 1000,
        tick: Tick { every_ns: 100_000, cost_ns: 1500 },
    }
}

fn nic(wire_ps_per_byte: u64) -> simple::Costs {
    simple::Costs {
        doorbell_ps: 78_000,
        fetch_ns: 500,
        write_back_ns: 200,
        wire_ps_per_byte,
        written_back_together: false,
    }
}

/// Four processors, four senders of short frames.
fn setup() -> Setup {
    Setup {
        cpus: 4,
        queues: Queues::Each,
        byte_limit: true,
        wake_only: false,
        errors: None,
        streams: 4,
        frame_bytes: 60,
        traffic: Traffic { make_ns: 300, window_packets: 200, tcp: None },
        far: None,
        batching: Batching::On,
        ring_frames: 512,
        policy: Policy { quota_packets: 64, time_ns: None },
        wake_free_frames: 1,
        qdisc_packets: 1000,
        hold_ns: 1_000_000_000,
        costs: costs(LockKind::Ticket),
        time: short(1, 4_000_000, 4_000_000),
    }
}

fn short(seed: u64, settle_ns: u64, measure_ns: u64) -> Timing {
    Timing { seed, jitter_permille: 100, settle_ns, measure_ns }
}

fn go(setup: Setup, nic: simple::Costs) -> Result<Outcome, RunError> {
    run(setup, nic, &mut || true)
}

fn busy_ns(outcome: &Outcome) -> u64 {
    outcome.user_ns + outcome.system_ns + outcome.soft_ns
}

fn traffic() -> impl Strategy<Value = (bool, u32, usize)> {
    (any::<bool>(), 1..300u32, 0..3usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Small rings stop, small windows sleep, shifted acknowledgements contend for locks.
    #[test]
    fn every_setup_delivers_all_in_order(
        (cpus, streams) in (1..5usize, 1..9usize),
        (tcp, window_packets, ack_shift) in traffic(),
        batching in prop::sample::select(vec![Batching::On, Batching::Off, Batching::Bytes(3000)]),
        ring_frames in prop::sample::select(vec![2usize, 4, 16, 512]),
        frame_bytes in prop::sample::select(vec![60u32, 400, 1514]),
        fair in any::<bool>(),
        (wire, seed) in (prop::sample::select(vec![0u64, 800, 8000]), any::<u64>()),
    ) {
        let traffic = if tcp {
            Traffic { make_ns: 350, window_packets, tcp: Some(Tcp { send_ns: 450, ack_ns: 500, round_trip_ns: 9000, ack_shift }) }
        } else {
            Traffic { make_ns: 200, window_packets, tcp: None }
        };
        let lock_kind = if fair { LockKind::Ticket } else { LockKind::Unfair };
        let setup = Setup {
            cpus, streams, frame_bytes, traffic, batching, ring_frames,
            qdisc_packets: 3000, costs: costs(lock_kind), time: short(seed, 500_000, 1_000_000), ..setup()
        };
        let outcome = go(setup.clone(), nic(wire)).unwrap();
        prop_assert!(outcome.packets_in_all >= streams as u64, "it flows: {outcome:?}");
        prop_assert!(outcome.doorbells <= outcome.given);
        prop_assert!(busy_ns(&outcome) <= outcome.processors_ns && outcome.locking_ns <= busy_ns(&outcome));
        prop_assert_eq!(go(setup, nic(wire)).unwrap(), outcome, "same seed, same result");
    }
}

#[test]
fn binding_wire_limits() {
    let outcome = go(setup(), nic(3200)).unwrap();
    let wire_pps = 1_000_000_000_000 / (84 * 3200);
    assert!(outcome.packets_per_s().abs_diff(wire_pps) < wire_pps / 50, "{outcome:?}");
    assert!(outcome.packets_per_doorbell_permille() > 2000, "a backlog goes out in bulk: {outcome:?}");
    let off = go(Setup { batching: Batching::Off, ..setup() }, nic(3200)).unwrap();
    assert_eq!((off.given, off.packets_per_doorbell_permille()), (off.doorbells, 1000));
    assert!(off.locking_ns > outcome.locking_ns, "each doorbell is waited for in a lock");
}

/// A wire of a byte in 2 ms: minutes after the end nothing is lost, but still in flight.
#[test]
fn slow_drain_loses_nothing() {
    let outcome = go(setup(), nic(2_000_000_000)).unwrap();
    assert!(outcome.packets_in_all * 84 * 2 > 100_000, "milliseconds of drain: {outcome:?}");
}

#[test]
fn another_seed_is_another_run_and_the_same_rate() {
    let [a, b] = [1, 2]
        .map(|seed| go(Setup { time: short(seed, 4_000_000, 4_000_000), ..setup() }, nic(3200)).unwrap());
    assert_ne!(a, b);
    assert!(a.packets.abs_diff(b.packets) < a.packets / 50, "{a:?} {b:?}");
}

#[test]
fn too_small_qdisc_is_an_error() {
    let fault = go(Setup { qdisc_packets: 50, ..setup() }, nic(8000)).unwrap_err();
    assert!(fault.to_string().contains("qdisc_packets"), "{fault}");
}

/// Steps as long as the measured time: their parts outside it are not counted.
#[test]
fn processors_are_busy_at_most_for_the_time_passed() {
    let tcp = |make_ns, ack_ns| {
        let tcp = Tcp { send_ns: 300_000, ack_ns, round_trip_ns: 9000, ack_shift: 1 };
        Traffic { make_ns, window_packets: 50, tcp: Some(tcp) }
    };
    for traffic in
        [Traffic { make_ns: 900_000, window_packets: 9, tcp: None }, tcp(380, 90_000), tcp(700_000, 500)]
    {
        let costs = Costs { interrupt_ns: 400_000, switch_ns: 700_000, ..costs(LockKind::Ticket) };
        let setup = Setup { traffic, costs, time: short(1, 1_000_000, 1_000_000), ..setup() };
        let outcome = go(setup, nic(800)).unwrap();
        let busy_ns = busy_ns(&outcome);
        assert!(busy_ns <= outcome.processors_ns, "{traffic:?}: {outcome:?}");
        assert!(busy_ns > outcome.processors_ns / 2, "{traffic:?}: {outcome:?}");
    }
}
