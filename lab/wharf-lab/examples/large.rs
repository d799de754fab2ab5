//! The simulation speed of a large machine: 64 processors, each with a queue and a sender of full frames, at
//! 400 Gbit/s, one second of virtual time: `cargo run --release -p wharf-lab --example large`.
//!
//! It has the processors of `bulk`, and a NIC that takes as many doorbells as they ring.

use std::time::{Duration, Instant};
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_lab::models::linux_qdisc::{Costs, Queues, Setup, Traffic, run};
use wharf_sim::engine::cpu::Tick;
use wharf_sim::engine::lock::{LockCosts, LockKind};
use wharf_sim::harness::Timing;
use wharf_sim::nic::simple;

const CPUS: usize = 64;
const SECOND: Duration = Duration::from_secs(1);

fn costs() -> Costs {
    Costs {
        lock: LockCosts { pair_ns: 14, transfer_ns: 60, per_spinner_ns: 20 },
        lock_kind: LockKind::Ticket,
        enqueue_ns: 20,
        dequeue_ns: 15,
        driver_ns: 45,
        doorbell_drain_ns: 78,
        reclaim_ns: 50,
        completion_ns: 0,
        interrupt_ns: 1500,
        interrupt_gap_ns: 50_000,
        wake_ns: 300,
        switch_ns: 800,
        idle_exit_ns: 1000,
        tick: Tick { every_ns: 1_000_000, cost_ns: 1500 },
    }
}

fn setup() -> Setup {
    Setup {
        cpus: CPUS,
        queues: Queues::Each,
        byte_limit: true,
        wake_only: false,
        errors: None,
        streams: CPUS,
        frame_bytes: 1514,
        traffic: Traffic { make_ns: 900, window_packets: 500, tcp: None },
        far: None,
        batching: Batching::On,
        ring_frames: 1024,
        policy: Policy { quota_packets: 64, time_ns: None },
        wake_free_frames: 1,
        qdisc_packets: 1000,
        hold_ns: 1_000_000_000,
        costs: costs(),
        time: Timing {
            seed: 1,
            jitter_permille: 100,
            settle_ns: 10_000_000,
            measure_ns: SECOND.as_nanos() as u64,
        },
    }
}

fn main() -> Result<(), wharf_sim::RunError> {
    let nic = simple::Costs {
        doorbell_ps: 5000,
        fetch_ns: 500,
        write_back_ns: 200,
        // 400 Gbit/s.
        wire_ps_per_byte: 20,
        written_back_together: false,
    };
    let began = Instant::now();
    let outcome = run(setup(), nic, &mut || true)?;
    let (bits, took) = (outcome.bytes as f64 * 8.0, began.elapsed());
    println!(
        "{CPUS} processors, {:.1} Gbit/s of frames, {} packets and {} events in {:.1} s",
        bits / 1e9,
        outcome.packets_in_all,
        outcome.events,
        took.as_secs_f64()
    );
    Ok(())
}
