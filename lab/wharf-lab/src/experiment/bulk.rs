//! `bulk`: the effect of bulk dequeue, 2014: doorbells saved, and time in `_raw_spin_lock`.
//!
//! Two figures without it are fitted: the doorbell's cost to 12.8 Mpps, and the cost of a TCP packet beside
//! the path to the processor time of 24 streams. All others follow. The capacity without a wire follows from
//! the assumed time of making a packet, and is shown for two other times, too.

use super::{Bench, Experiment, LabError, Parameters, Row, RowKind, World};
use crate::models::linux_qdisc::{self, Costs, Outcome, Queues, Setup, Traffic};
use wharf_core::engine::{BULK_PACKETS_MAX, Batching};
use wharf_core::owner::Policy;
use wharf_sim::engine::lock::LockKind;
use wharf_sim::nic::simple;

const LOCK_SHARE: (&str, &str) = ("spinlock_share", "percent of busy time");

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bulk",
    what: "bulk dequeue on 10 Gbit/s in 2014: doorbells, spin locks, processor time, without and with",
    has_device: false,
    worlds: &[(World::Model, &[include_str!("../../scenarios/bulk.toml"), super::E5_2695V2], run)],
};

fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    // Each stream of a queue needs room for at least one packet.
    let (cpus, streams) = (bench.parameters.get("cpus")?, bench.parameters.get("streams")?);
    bench.parameters.at_least("qdisc_packets", streams.div_ceil(cpus))?;
    trafgen(bench)?;
    capacity(bench)?;
    stream(bench, Senders::Tcp, "tcp_stream_spinlock_cpu_saved_percent")?;
    stream(bench, Senders::Udps, "udp_stream_spinlock_cpu_saved_percent")?;
    processor_time(bench)
}

/// The senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Senders {
    /// A process per processor, as fast as it can.
    Trafgen,
    /// One stream.
    Tcp,
    /// Many sockets.
    Udps,
    /// Many streams.
    Tcps,
}

impl Senders {
    fn count(self, parameters: &Parameters) -> Result<usize, LabError> {
        Ok(match self {
            Self::Trafgen => parameters.get("cpus")? as usize,
            Self::Tcp => 1,
            Self::Udps | Self::Tcps => parameters.get("streams")? as usize,
        })
    }

    /// Returns their name in labels.
    fn label(self, parameters: &Parameters) -> Result<String, LabError> {
        let name = match self {
            Self::Trafgen => "trafgen",
            Self::Tcp | Self::Tcps => "tcp",
            Self::Udps => "udp",
        };
        Ok(format!("{name}-{}", self.count(parameters)?))
    }
}

/// The settings that differ from run to run.
#[derive(Debug, Clone, Copy)]
struct Case {
    senders: Senders,
    batching: Batching,
    wire: bool,
    /// The parameter with the time of making a packet, of [`Senders::Trafgen`].
    make: &'static str,
}

const TRAFGEN: Case =
    Case { senders: Senders::Trafgen, batching: Batching::On, wire: true, make: "trafgen_make_ns" };

/// Runs processes as fast as they can, with the shortest frames.
fn trafgen(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let figures = bench.published;
    let published = |key: &str| figures.figure(&format!("bulk_dequeue.{key}"));
    let off = one(bench, Case { batching: Batching::Off, ..TRAFGEN })?;
    let on = one(bench, TRAFGEN)?;
    let label = TRAFGEN.senders.label(bench.parameters)?;
    let fitted = bench.parameters.fit(&["doorbell_ps"]);
    let before =
        rate(&format!("{label}/bulk=off"), &off, fitted).beside(published("trafgen_12cpu_no_bulk_mpps")?);
    let after = rate(&format!("{label}/bulk=on"), &on, RowKind::Predicted)
        .beside(published("trafgen_12cpu_bulk_mpps")?)
        .effect_over(&before)
        .saying("the wire: any greater capacity gives it");
    bench.rows.extend([before, after, per_doorbell(&format!("{label}/bulk=on"), &on)]);
    Ok(())
}

/// Runs the same without a wire, for three times of making a packet.
fn capacity(bench: &mut Bench<'_>) -> Result<(), LabError> {
    for make in [TRAFGEN.make, "trafgen_make_short_ns", "trafgen_make_long_ns"] {
        let outcome = one(bench, Case { wire: false, make, ..TRAFGEN })?;
        let parameters = bench.parameters;
        let (label, make_ns) = (TRAFGEN.senders.label(parameters)?, parameters.get(make)?);
        let label = if make == TRAFGEN.make {
            format!("{label}/bulk=on/wire=none")
        } else {
            format!("{label}/bulk=on/wire=none/trafgen_make_ns={make_ns}")
        };
        let says = format!("hangs on how long making a packet takes, which is assumed: {make_ns} ns");
        bench.rows.push(rate(&label, &outcome, RowKind::Predicted).saying(&says));
        bench.rows.push(per_doorbell(&label, &outcome));
    }
    Ok(())
}

fn rate(label: &str, outcome: &Outcome, kind: RowKind) -> Row {
    Row::new(label, ("mpps", "Mpps"), outcome.packets_per_s() as i64, kind)
}

fn per_doorbell(label: &str, outcome: &Outcome) -> Row {
    let millionths = outcome.packets_per_doorbell_permille() as i64 * 1000;
    Row::new(label, ("packets_per_doorbell", "packets"), millionths, RowKind::Predicted)
}

/// Runs full frames at wire rate. Adds the share of busy time in locks.
fn stream(bench: &mut Bench<'_>, senders: Senders, saved: &str) -> Result<(), LabError> {
    let off = one(bench, Case { senders, batching: Batching::Off, ..TRAFGEN })?;
    let on = one(bench, Case { senders, ..TRAFGEN })?;
    let label = senders.label(bench.parameters)?;
    // Millionths of a percent: 100 times the millionths.
    let share = |outcome: &Outcome| outcome.busy_ppm(outcome.locking_ns) as i64 * 100;
    let row = |label: &str, what, millionths| Row::new(label, what, millionths, RowKind::Predicted);
    bench.rows.extend([
        row(&format!("{label}/bulk=off"), LOCK_SHARE, share(&off)),
        row(&format!("{label}/bulk=on"), LOCK_SHARE, share(&on)),
        row(&label, ("spinlock_share_saved", "percent of busy time"), share(&off) - share(&on))
            .beside(bench.published.figure(&format!("bulk_dequeue.{saved}"))?)
            .is_effect(),
    ]);
    Ok(())
}

/// Runs many TCP streams. Adds the processors' time.
fn processor_time(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let senders = Senders::Tcps;
    let label = senders.label(bench.parameters)?;
    let fitted = bench.parameters.fit(&["tcp_copy_ns", "tcp_send_ns", "tcp_ack_ns"]);
    for (batching, table, kind) in
        [(Batching::Off, "tcp24_no_bulk", fitted), (Batching::On, "tcp24_bulk", RowKind::Predicted)]
    {
        let outcome = one(bench, Case { senders, batching, ..TRAFGEN })?;
        let label = format!("{label}/bulk={}", name_of(batching));
        for (what, key, ns) in [
            (("sys", "percent of all time"), "sys_percent", outcome.system_ns),
            (("soft", "percent of all time"), "soft_percent", outcome.soft_ns),
            (("idle", "percent of all time"), "idle_percent", outcome.idle_ns()),
        ] {
            let published = bench.published.figure(&format!("bulk_dequeue.{table}.{key}"))?;
            let row = Row::new(&label, what, outcome.ppm(ns) as i64 * 100, kind).beside(published);
            let before = bench.rows.iter().rfind(|before| before.metric == row.metric);
            let row = before.map_or(row.clone(), |before| row.effect_over(before));
            bench.rows.push(row);
        }
    }
    Ok(())
}

/// Runs a case once.
fn one(bench: &mut Bench<'_>, case: Case) -> Result<Outcome, LabError> {
    let parameters = bench.parameters;
    let label = case.senders.label(parameters)?;
    let wire = if case.wire { "" } else { ", no wire" };
    let run = format!("{label}, bulk dequeue {}{wire}", name_of(case.batching));
    let mut nic: simple::Costs = parameters.read_into()?;
    if !case.wire {
        nic.wire_ps_per_byte = 0;
    }
    let setup = setup(parameters, case, bench.seed)?;
    let outcome = bench.model(&run, |goes_on| linux_qdisc::run(setup, nic, goes_on))?;
    bench.packets += outcome.packets_in_all;
    Ok(outcome)
}

fn name_of(batching: Batching) -> &'static str {
    if batching == Batching::Off { "off" } else { "on" }
}

fn setup(parameters: &Parameters, case: Case, seed: u64) -> Result<Setup, LabError> {
    let get = |key: &str| parameters.get(key);
    let (cpus, streams) = (get("cpus")? as usize, case.senders.count(parameters)?);
    let is_trafgen = case.senders == Senders::Trafgen;
    let frame_bytes = get(if is_trafgen { "trafgen_frame_bytes" } else { "stream_frame_bytes" })?;
    Ok(Setup {
        cpus,
        queues: Queues::Each,
        byte_limit: true,
        wake_only: false,
        errors: None,
        streams,
        frame_bytes: frame_bytes as u32,
        traffic: traffic(parameters, case, streams.div_ceil(cpus))?,
        far: None,
        batching: case.batching,
        ring_frames: get("ring_frames")? as usize,
        policy: Policy { quota_packets: BULK_PACKETS_MAX as u32, time_ns: None },
        // The byte limit stops it long before the ring does.
        wake_free_frames: 1,
        qdisc_packets: get("qdisc_packets")? as usize,
        hold_ns: get("bql_hold_ns")?,
        costs: costs(parameters)?,
        time: parameters.timing(seed)?,
    })
}

/// Returns the senders' work, with `per_queue` of them to a queue.
fn traffic(parameters: &Parameters, case: Case, per_queue: usize) -> Result<Traffic, LabError> {
    let get = |key: &str| parameters.get(key);
    let share = (get("qdisc_packets")? / per_queue as u64).max(1) as u32;
    let (make, window_packets) = match case.senders {
        Senders::Trafgen => (case.make, share),
        Senders::Udps => ("udp_make_ns", share.min(get("udp_window_packets")? as u32)),
        Senders::Tcp | Senders::Tcps => ("tcp_copy_ns", share),
    };
    let is_tcp = matches!(case.senders, Senders::Tcp | Senders::Tcps);
    let tcp = is_tcp.then(|| parameters.settings().of("tcp").read()).transpose()?;
    Ok(Traffic { make_ns: get(make)?, window_packets, tcp })
}

fn costs(parameters: &Parameters) -> Result<Costs, LabError> {
    let get = |key: &str| parameters.get(key);
    let settings = parameters.settings().with("completion_ns", 0);
    let settings = settings.with("doorbell_drain_ns", get("doorbell_ps")? / 1000);
    let lock_kind = if get("lock_is_fair")? == 1 { LockKind::Ticket } else { LockKind::Unfair };
    Ok(Costs { lock_kind, ..settings.read()? })
}
