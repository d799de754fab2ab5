//! World model: the machine of 2011 with 1 to 4 processors, and up to 64 of the same, a dummy device under
//! one queue.
//!
//! Three numbers are fitted, all with `root-lock/jiffy`, the kernel of that time: making a packet, to one processor's 1.24
//! Mpps; the extra cost of draining another processor's packet, to two processors' 2.03; and how much slower two threads of
//! a core are, to four processors' 1.32. All else follows.

use super::metrics::{
    DEQUEUE_TIME, DROP_SHARE, Dedicated, FOR_OTHERS, JAIN_DRAINED, JAIN_SENDERS, Jiffy, LONGEST_RUN, MPPS,
    OwnerPolicy, POLICIES, SWEEP, Sweep, Unbounded, percent_ppm,
};
use crate::experiment::row::jain_ppm;
use crate::experiment::{Bench, LabError, Parameters, Row, RowKind, Settings};
use crate::models::linux_qdisc::shared::{self, Counts, Discipline, Outcome};
use crate::models::wharf_path::{self, SenderSetup};
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_sim::flows::arrivals::{Arrivals, Schedule};
use wharf_sim::nic::simple;

/// Numbers of processors: those of 2011, and more.
const CPUS: [u32; 8] = [1, 2, 3, 4, 8, 16, 32, 64];
/// Those that were measured in 2011.
const PUBLISHED_CPUS: usize = 4;
/// Numbers of processors for the sweep of quotas.
const SWEEP_CPUS: [u32; 2] = [4, 16];

/// Packets of a poll of a device (`weight_p`).
const DEVICE_WEIGHT: u32 = 64;

const ROOT_LOCK: &str = "root-lock";
const LANES: &str = "lanes";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let kernels = [
        (ROOT_LOCK, Discipline::RootLock),
        ("root-lock+busylock", Discipline::BusyLock),
        ("lockless-list", Discipline::LocklessList),
    ];
    for (name, discipline) in kernels {
        for policy in POLICIES {
            for (at, cpus) in CPUS.into_iter().enumerate() {
                let label = label(name, policy, cpus);
                let modelled = kernel(bench, &label, discipline, policy, cpus)?;
                let beside = name == ROOT_LOCK && policy == Jiffy && at < PUBLISHED_CPUS;
                let rows = rows(bench, &label, policy, &modelled, beside.then_some(at))?;
                let rows: Vec<Row> = rows.into_iter().map(|row| one_more(row, &bench.rows)).collect();
                bench.rows.extend(rows);
            }
        }
    }
    SWEEP_CPUS.into_iter().try_for_each(|cpus| quotas(bench, cpus))?;
    let sweep = SWEEP.into_iter().flat_map(|policy| SWEEP_CPUS.map(|cpus| (policy, cpus)));
    let all = POLICIES.into_iter().flat_map(|policy| CPUS.map(|cpus| (policy, cpus)));
    for (policy, cpus) in all.chain(sweep) {
        let label = label(LANES, policy, cpus);
        let modelled = ours(bench, &label, policy, cpus)?;
        let rows = rows(bench, &label, policy, &modelled, None)?;
        bench.rows.extend(rows);
    }
    Ok(())
}

/// Runs the quotas of 2011 under the root lock, with the bound of time as well, and judges the two claims on them: the best
/// is between N + 1 and 2N packets, with N the device weight, and even a large one makes a huge difference in fairness.
fn quotas(bench: &mut Bench<'_>, cpus: u32) -> Result<(), LabError> {
    let mut modelled = Vec::new();
    for policy in SWEEP.into_iter().chain([Unbounded]) {
        let label = label(ROOT_LOCK, policy, cpus);
        let outcome = kernel(bench, &label, Discipline::RootLock, policy, cpus)?;
        let drained = jain_ppm(outcome.by_cpu.iter().map(|done| done.drained));
        let sent: u64 = outcome.by_cpu.iter().map(|done| done.offered.saturating_sub(done.dropped)).sum();
        if let Sweep(quota_packets) = policy {
            bench.rows.extend(rows(bench, &label, policy, &outcome, None)?);
            modelled.push((quota_packets, sent, drained));
            continue;
        }
        let (Some(best), Some(largest)) = (modelled.iter().max_by_key(|run| run.1), modelled.last()) else {
            return Ok(());
        };
        let label = format!("{ROOT_LOCK}/quotas/threads={cpus}");
        let row = |what, millionths| Row::new(&label, what, millionths, RowKind::Predicted);
        let [least, most] = [DEVICE_WEIGHT + 1, 2 * DEVICE_WEIGHT];
        let verdict = if (least..=most).contains(&best.0) { "" } else { "not reproduced: " };
        let best = row(("best_quota", "packets"), i64::from(best.0) * 1_000_000);
        let gain = row(("jain_drained_by_largest_quota", "Jain's index"), largest.2 - drained);
        let huge = if largest.2 >= 2 * drained { "" } else { "not reproduced: " };
        bench.rows.extend([
            best.saying(&format!(
                "{verdict}by the rate; {least} to {most} were published, without the measure"
            )),
            gain.saying(&format!("{huge}published as huge, without a figure; here twice the index is")),
        ]);
    }
    Ok(())
}

/// Adds the effect of one more processor to a row beside a published figure.
fn one_more(row: Row, before: &[Row]) -> Row {
    let before = before.iter().rfind(|before| before.metric == row.metric && before.published.is_some());
    match before {
        Some(before) if row.metric == MPPS.0 => row.effect_over(before),
        Some(before) => row.points_over(before),
        None => row,
    }
}

fn label(discipline: &str, policy: OwnerPolicy, cpus: u32) -> String {
    format!("{discipline}/{}/threads={cpus}", policy.name())
}

/// Returns the rows of a run, beside the published figures number `published` if they are of the same.
fn rows(
    bench: &Bench<'_>, label: &str, policy: OwnerPolicy, modelled: &Outcome, published: Option<usize>,
) -> Result<Vec<Row>, LabError> {
    let sum = |what: fn(&Counts) -> u64| modelled.by_cpu.iter().map(what).sum::<u64>();
    let (offered, dropped) = (sum(|done| done.offered), sum(|done| done.dropped));
    // Packets offered before the measured time may be dropped within it.
    let sent = offered.saturating_sub(dropped);
    let per_s = (u128::from(sent) * 1_000_000_000 / u128::from(modelled.measured_ns)) as i64;
    let row = |what, millionths| Row::new(label, what, millionths, RowKind::Predicted);
    let (mut mpps, mut drops) = (row(MPPS, per_s), row(DROP_SHARE, percent_ppm(dropped, offered)));
    if let Some(at) = published {
        let of = |key: &str| bench.published.figure(&format!("dequeue_fairness.{key}.{at}"));
        mpps.kind = match at {
            0 => bench.parameters.fit(&["make_ns"]),
            1 => bench.parameters.fit(&["remote_ns"]),
            3 => bench.parameters.fit(&["smt_slowdown_permille"]),
            _ => RowKind::Predicted,
        };
        mpps = mpps
            .beside(of("mpps")?)
            .saying("taken as packets that were sent: the slide does not say whether before or after drops");
        let points = drops.value - of("drop_percent")?;
        drops = drops.beside(of("drop_percent")?).saying(&format!("{points:+.1} percentage points"));
    }
    let each = |what: fn(&Counts) -> u64| modelled.by_cpu.iter().map(what);
    let senders = jain_ppm(modelled.by_cpu.iter().map(|done| done.offered.saturating_sub(done.dropped)));
    let mut rows = vec![mpps, drops, row(JAIN_SENDERS, senders)];
    if policy != Dedicated {
        let all_ns = modelled.measured_ns * modelled.by_cpu.len() as u64;
        rows.extend([
            row(JAIN_DRAINED, jain_ppm(each(|done| done.drained))),
            row(FOR_OTHERS, percent_ppm(sum(|done| done.for_others), sum(|done| done.drained))),
            row(DEQUEUE_TIME, percent_ppm(sum(|done| done.dequeue_ns), all_ns)),
            row(LONGEST_RUN, modelled.longest_run as i64 * 1_000_000),
        ]);
    }
    Ok(rows)
}

fn kernel(
    bench: &mut Bench<'_>, label: &str, discipline: Discipline, policy: OwnerPolicy, cpus: u32,
) -> Result<Outcome, LabError> {
    let get = |key: &str| bench.parameters.get(key);
    let setup = shared::Setup {
        discipline,
        policy: policy.policy(),
        dedicated: policy == Dedicated,
        cpus: cpus as usize,
        qdisc_packets: get("qdisc_packets")? as usize,
        frame_bytes: get("frame_bytes")? as u32,
        smt: bench.parameters.read_into()?,
        costs: with_line(bench.parameters)?.read()?,
        time: bench.parameters.timing(bench.seed)?,
    };
    let outcome = bench.model(label, |goes_on| shared::run(setup, goes_on))?;
    bench.packets += outcome.packets_in_all;
    Ok(outcome)
}

/// Runs lanes on the same machine, counted over the whole run.
fn ours(bench: &mut Bench<'_>, label: &str, policy: OwnerPolicy, cpus: u32) -> Result<Outcome, LabError> {
    let setup = lanes_setup(bench, policy, cpus)?;
    let (_, measured_ns) = setup.time.window();
    // A device that takes no time.
    let dummy = simple::Costs::default();
    let outcome = bench.model(label, |goes_on| wharf_path::run(setup, dummy, goes_on))?;
    bench.packets += outcome.packets_in_all;
    let wharf_path::Outcome { by_cpu, longest_run, packets_in_all, .. } = outcome;
    Ok(Outcome { by_cpu, longest_run, measured_ns, packets_in_all })
}

fn lanes_setup(bench: &Bench<'_>, policy: OwnerPolicy, cpus: u32) -> Result<wharf_path::Setup, LabError> {
    let get = |key: &str| bench.parameters.get(key);
    let frame_bytes = get("frame_bytes")? as u32;
    let schedule = Schedule::new(Arrivals::Saturate, 1, bench.seed, 0);
    let sender = SenderSetup { burst: 1, frame_bytes, band: None, schedule };
    Ok(wharf_path::Setup {
        cpus: cpus as usize,
        senders: vec![sender; cpus as usize],
        slice_ns: u64::MAX >> 1,
        switch_ns: 0,
        policy: policy.policy(),
        dedicated: policy == Dedicated,
        batching: Batching::On,
        qdisc: None,
        byte_limits: Bounds::LEARN,
        small_queues: None,
        ring_frames: get("ring_frames")? as usize,
        completion_gap_ns: 1,
        threads: None,
        pool_frames: get("pool_frames")? as u32,
        smt: bench.parameters.read_into()?,
        costs: lane_costs(bench.parameters, cpus)?,
        time: bench.parameters.timing(bench.seed)?,
    })
}

/// Returns settings in which a cache line costs what a lock does.
fn with_line(parameters: &Parameters) -> Result<Settings<'_>, LabError> {
    let [hit_ns, transfer_ns] = ["lock_pair_ns", "lock_transfer_ns"].map(|key| parameters.get(key));
    Ok(parameters.settings().with("hit_ns", hit_ns?).with("transfer_ns", transfer_ns?))
}

fn lane_costs(parameters: &Parameters, cpus: u32) -> Result<wharf_path::Costs, LabError> {
    let get = |key: &str| parameters.get(key);
    let remote_ns = if cpus > 1 { get("lane_remote_ns")? } else { 0 };
    let settings = with_line(parameters)?.of("lane").with("doorbell_drain_ns", 0);
    let settings = settings.with("stage_ns", get("enqueue_ns")?).with("driver_ns", get("device_ns")?);
    let settings = settings.with("pull_ns", get("dequeue_ns")? + remote_ns);
    // Threads that never sleep, and read no clock.
    let settings = settings.with("clock_ns", 0).with("pause_ns", 0).with("lane_ns", 0);
    settings.with("reclaim_ns", get("lane_home_ns")?).read()
}
