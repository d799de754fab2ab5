//! `bulk`: what bulk dequeue was worth, 2014: doorbells spared, and time in `_raw_spin_lock`.
//!
//! Two figures of the time without it are fitted: the doorbell's cost to 12.8 Mpps, and what a TCP packet costs
//! beside the path to the processor time of 24 streams. All others follow.

use super::published::figure;
use super::{Bench, Experiment, LabError, Parameters, Row, RowKind, World};
use crate::engine::cpu::Tick;
use crate::engine::lock::{LockCosts, LockKind};
use crate::hardware::simple::{self, Simple};
use crate::kernel::{self, Costs, Outcome, Setup, Traffic};
use wharf_core::run::Batching;

/// The experiment.
#[derive(Debug)]
pub(super) struct Bulk;

const MPPS: (&str, &str) = ("mpps", "Mpps");
const PER_DOORBELL: (&str, &str) = ("packets_per_doorbell", "packets");
const LOCK_SHARE: (&str, &str) = ("spinlock_share", "percent of busy time");
const LOCK_SAVED: (&str, &str) = ("spinlock_share_saved", "percent of busy time");
const SYSTEM: (&str, &str) = ("sys", "percent of all time");
const SOFT: (&str, &str) = ("soft", "percent of all time");
const IDLE: (&str, &str) = ("idle", "percent of all time");

impl Experiment for Bulk {
    fn name(&self) -> &'static str {
        "bulk"
    }

    fn what(&self) -> &'static str {
        "bulk dequeue on 10 Gbit/s in 2014: doorbells, spin locks, processor time, without and with"
    }

    fn parameters(&self, _: World) -> &'static str {
        include_str!("../../parameters/bulk.toml")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        trafgen(bench)?;
        stream(bench, "tcp-1", "tcp_stream_spinlock_cpu_saved_percent")?;
        stream(bench, "udp-24", "udp_stream_spinlock_cpu_saved_percent")?;
        processor_time(bench)
    }
}

/// 12 processes as fast as they can, shortest frames.
fn trafgen(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let published = |key: &str| figure(&format!("bulk_dequeue.{key}"));
    let off = one(bench, "trafgen-12", Batching::Off, true)?;
    let on = one(bench, "trafgen-12", Batching::On, true)?;
    let unwired = one(bench, "trafgen-12", Batching::On, false)?;
    let row =
        |label: &str, outcome: &Outcome, kind| Row::new(label, MPPS, outcome.packets_per_s() as i64, kind);
    let per_doorbell = |label: &str, outcome: &Outcome| {
        let millionths = outcome.packets_per_doorbell_permille() as i64 * 1000;
        Row::new(label, PER_DOORBELL, millionths, RowKind::Predicted)
    };
    let rows = [
        row("trafgen-12/bulk=off", &off, bench.parameters.fit(&["doorbell_ps"]))
            .beside(published("trafgen_12cpu_no_bulk_mpps")?),
        row("trafgen-12/bulk=on", &on, RowKind::Predicted).beside(published("trafgen_12cpu_bulk_mpps")?),
        per_doorbell("trafgen-12/bulk=on", &on),
        row("trafgen-12/bulk=on/wire=none", &unwired, RowKind::Predicted),
        per_doorbell("trafgen-12/bulk=on/wire=none", &unwired),
    ];
    bench.rows.extend(rows);
    Ok(())
}

/// Full frames at wire rate: what part of the busy time goes into locks.
fn stream(bench: &mut Bench<'_>, label: &str, saved: &str) -> Result<(), LabError> {
    let off = one(bench, label, Batching::Off, true)?;
    let on = one(bench, label, Batching::On, true)?;
    // Millionths of a percent: 100 times the millionths.
    let share = |outcome: &Outcome| outcome.busy_ppm(outcome.locking_ns) as i64 * 100;
    let row = |label: &str, what, millionths| Row::new(label, what, millionths, RowKind::Predicted);
    bench.rows.extend([
        row(&format!("{label}/bulk=off"), LOCK_SHARE, share(&off)),
        row(&format!("{label}/bulk=on"), LOCK_SHARE, share(&on)),
        row(label, LOCK_SAVED, share(&off) - share(&on)).beside(figure(&format!("bulk_dequeue.{saved}"))?),
    ]);
    Ok(())
}

/// 24 TCP streams: where the processors' time goes.
fn processor_time(bench: &mut Bench<'_>) -> Result<(), LabError> {
    for (batching, name, table, kind) in [
        (
            Batching::Off,
            "tcp-24/bulk=off",
            "tcp24_no_bulk",
            bench.parameters.fit(&["tcp_copy_ns", "tcp_send_ns"]),
        ),
        (Batching::On, "tcp-24/bulk=on", "tcp24_bulk", RowKind::Predicted),
    ] {
        let outcome = one(bench, "tcp-24", batching, true)?;
        for (what, key, ns) in [
            (SYSTEM, "sys_percent", outcome.system_ns),
            (SOFT, "soft_percent", outcome.soft_ns),
            (IDLE, "idle_percent", outcome.idle_ns()),
        ] {
            let published = figure(&format!("bulk_dequeue.{table}.{key}"))?;
            bench.rows.push(Row::new(name, what, outcome.ppm(ns) as i64 * 100, kind).beside(published));
        }
    }
    Ok(())
}

/// One run of `senders`.
fn one(bench: &mut Bench<'_>, senders: &str, batching: Batching, wire: bool) -> Result<Outcome, LabError> {
    let run = format!("{senders}, bulk dequeue {}{}", name_of(batching), if wire { "" } else { ", no wire" });
    let parameters = bench.parameters;
    let mut nic = nic_costs(parameters)?;
    if !wire {
        nic.wire_ps_per_byte = 0;
    }
    let setup = setup(parameters, senders, batching, bench.seed)?;
    let outcome =
        kernel::run(setup, |memories, frame_bytes| Simple::new(nic, memories, frame_bytes), &mut || {
            bench.goes_on(&run)
        });
    let outcome = outcome.map_err(|source| LabError::Run { run, source })?;
    bench.packets += outcome.packets_in_all;
    Ok(outcome)
}

fn name_of(batching: Batching) -> &'static str {
    if batching == Batching::Off { "off" } else { "on" }
}

fn nic_costs(parameters: &Parameters) -> Result<simple::Costs, LabError> {
    Ok(simple::Costs {
        doorbell_ps: parameters.get("doorbell_ps")?,
        fetch_ns: parameters.get("fetch_ns")?,
        write_back_ns: parameters.get("write_back_ns")?,
        wire_ps_per_byte: parameters.get("wire_ps_per_byte")?,
    })
}

fn setup(parameters: &Parameters, senders: &str, batching: Batching, seed: u64) -> Result<Setup, LabError> {
    let get = |key: &str| parameters.get(key);
    let cpus = get("cpus")? as usize;
    let streams = match senders {
        "trafgen-12" => cpus,
        "tcp-1" => 1,
        _ => 24,
    };
    let frame_bytes =
        get(if senders == "trafgen-12" { "trafgen_frame_bytes" } else { "stream_frame_bytes" })?;
    Ok(Setup {
        cpus,
        streams,
        frame_bytes: frame_bytes as u32,
        traffic: traffic(parameters, senders, streams.div_ceil(cpus))?,
        batching,
        ring_frames: get("ring_frames")? as usize,
        qdisc_packets: get("qdisc_packets")? as usize,
        costs: costs(parameters)?,
        jitter_permille: get("jitter_permille")?,
        seed,
        settle_ns: get("settle_ns")?,
        measure_ns: get("measure_ns")?,
    })
}

/// What the senders do, so many of them to a queue.
fn traffic(parameters: &Parameters, senders: &str, per_queue: usize) -> Result<Traffic, LabError> {
    let get = |key: &str| parameters.get(key);
    let share = (get("qdisc_packets")? / per_queue as u64).max(1) as u32;
    Ok(match senders {
        "trafgen-12" => Traffic::Socket { make_ns: get("trafgen_make_ns")?, window_packets: share },
        "udp-24" => {
            let window_packets = share.min(get("udp_window_packets")? as u32);
            Traffic::Socket { make_ns: get("udp_make_ns")?, window_packets }
        }
        _ => Traffic::Tcp {
            copy_ns: get("tcp_copy_ns")?,
            send_ns: get("tcp_send_ns")?,
            ack_ns: get("tcp_ack_ns")?,
            round_trip_ns: get("round_trip_ns")?,
            window_packets: share,
            ack_shift: 1,
        },
    })
}

fn costs(parameters: &Parameters) -> Result<Costs, LabError> {
    let get = |key: &str| parameters.get(key);
    let lock = LockCosts {
        pair_ns: get("lock_pair_ns")?,
        transfer_ns: get("lock_transfer_ns")?,
        per_spinner_ns: get("lock_per_spinner_ns")?,
    };
    Ok(Costs {
        lock,
        lock_kind: LockKind::Ticket,
        enqueue_ns: get("enqueue_ns")?,
        dequeue_ns: get("dequeue_ns")?,
        driver_ns: get("driver_ns")?,
        doorbell_drain_ns: get("doorbell_ps")? / 1000,
        reclaim_ns: get("reclaim_ns")?,
        interrupt_ns: get("interrupt_ns")?,
        interrupt_gap_ns: get("interrupt_gap_ns")?,
        wake_ns: get("wake_ns")?,
        switch_ns: get("switch_ns")?,
        idle_exit_ns: get("idle_exit_ns")?,
        tick: Tick { every_ns: get("tick_every_ns")?, cost_ns: get("tick_cost_ns")? },
    })
}
