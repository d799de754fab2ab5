//! `pages` on this machine: the policies take turns, and each figure is a median.

use super::super::host::fault;
use super::super::row::{median, scaled};
use super::super::{Bench, LabError, Row, RowKind};
use super::workload::{self, Load, Measurement};
use super::{BLOCKED, LOCKS, MPPS, OF_ALLOCATOR, RECYCLED, RETURNS, SLOW, SPIN, SPIN_IN_POLL, ratio};
use crate::comparators::page_policy::{Policy, Wanted};
use crate::models::page_pool::PolicyKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_core::pool::{PagePool, PoolError};
use wharf_devices::host::ExactClock;
use wharf_mem::Batch;

/// Threads by default.
const THREADS: [u32; 1] = [2];
/// Time for each policy by default.
const DURATION_NS: u64 = 1_000_000_000;
/// Pages that one thread alone takes and gives back at a time.
const ALONE: usize = 32;

/// The note of runs with one thread.
const ONE_THREAD: &str = "threads=1 is these rows alone: pages travel from a channel's thread to another's that frees them, \
    so that all others want 2 threads at least";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    alone(bench)?;
    let threads = if bench.threads.is_empty() { &THREADS[..] } else { bench.threads };
    threads.iter().filter(|&&threads| threads > 1).try_for_each(|&threads| together(bench, threads as usize))
}

/// Runs each policy in turn, `rounds` times. Returns the rounds of each.
fn in_turns<T>(
    bench: &mut Bench<'_>, what: &str, mut one: impl FnMut(PolicyKind, Duration) -> Result<T, LabError>,
) -> Result<Vec<Vec<T>>, LabError> {
    let rounds = bench.parameters.get("rounds")?;
    let slice = Duration::from_nanos(bench.duration_ns.unwrap_or(DURATION_NS) / rounds);
    let mut ran: Vec<Vec<T>> = PolicyKind::ALL.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (kind, ran) in PolicyKind::ALL.into_iter().zip(&mut ran) {
            if !bench.goes_on(&format!("{what}, {}, round {} of {rounds}", kind.name(), round + 1)) {
                return Err(LabError::Interrupted);
            }
            ran.push(one(kind, slice)?);
        }
    }
    Ok(ran)
}

/// Runs one thread that takes and gives back: no policy has anything to wait for.
fn alone(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let parameters = bench.parameters;
    let ran = in_turns(bench, "uncontended", |kind, time| {
        let pool = pool(parameters)?;
        let policy = kind.over(&pool, parameters.get("fifo_pages")? as usize);
        take_and_give(&*policy, time).map_err(|error| fault("uncontended", &error))
    })?;
    let medians: Vec<u64> = ran.into_iter().map(median).collect();
    let origin = median_of(&medians, PolicyKind::Origin);
    for (kind, picoseconds) in PolicyKind::ALL.into_iter().zip(medians) {
        let label = format!("uncontended/{}", kind.name());
        let row =
            Row::new(&label, ("take_and_give", "ns per page"), picoseconds as i64 * 1000, RowKind::Measured);
        let is_first = kind == PolicyKind::ALL[0];
        bench.rows.push(if is_first && bench.threads.contains(&1) { row.saying(ONE_THREAD) } else { row });
        bench.rows.push(Row::new(
            &label,
            ("time_of_origin", "times"),
            ratio(picoseconds, origin),
            RowKind::Measured,
        ));
    }
    Ok(())
}

/// Runs threads of which half are channels and half applications.
fn together(bench: &mut Bench<'_>, threads: usize) -> Result<(), LabError> {
    let parameters = bench.parameters;
    let get = |key: &str| parameters.get(key);
    let load = Load {
        channels: threads / 2,
        applications: threads - threads / 2,
        poll_packets: get("poll_packets")? as usize,
        lane_packets: get("lane_packets")?.next_power_of_two() as u32,
        touch_bytes: get("touch_bytes")? as usize,
        duration: Duration::ZERO,
    };
    let what = format!("threads={threads}");
    let ran = in_turns(bench, &what, |kind, duration| {
        let pool = pool(parameters)?;
        let policy = kind.over(&pool, get("fifo_pages")? as usize);
        let ran = workload::run(&*policy, pool.region(), Load { duration, ..load }, &what)?;
        drop(policy);
        let out = pool.audit();
        if out.out() > 0 || pool.free() != pool.frames() as usize {
            return Err(fault(&what, &format!("{}: {out}", kind.name())));
        }
        Ok(ran)
    })?;
    let medians: Vec<u64> = ran.iter().map(|rounds| median(rounds.iter().map(rate).collect())).collect();
    let allocator = median_of(&medians, PolicyKind::Allocator);
    for ((kind, packets_per_s), rounds) in PolicyKind::ALL.into_iter().zip(medians).zip(&ran) {
        let label = format!("{}/threads={threads}", kind.name());
        let row = |what, millionths| Row::new(&label, what, millionths, RowKind::Measured);
        bench.packets += rounds.iter().map(|ran| ran.packets).sum::<u64>();
        bench.rows.push(row(MPPS, packets_per_s as i64));
        bench.rows.push(row(OF_ALLOCATOR, ratio(packets_per_s, allocator)));
        bench.rows.extend(details(rounds, load).map(|(what, millionths)| row(what, millionths)));
    }
    Ok(())
}

/// Returns the threads' counts over all rounds.
fn details(rounds: &[Measurement], load: Load) -> [((&'static str, &'static str), i64); 9] {
    let mut all = Measurement::default();
    for ran in rounds {
        all.elapsed_ns += ran.elapsed_ns;
        all.channels.add(&ran.channels);
        all.applications.add(&ran.applications);
    }
    let Measurement { elapsed_ns, channels, applications, .. } = all;
    let (takes, frees) = (channels.allocations, applications.frees);
    let [in_poll, outside] = [channels, applications].map(|counters| counters.locks.waited_ns);
    let threads = (load.channels + load.applications) as u64;
    let per = |count: u64, of: u64, scale: i64| ratio(count, of) * scale;
    let locks = channels.locks.taken + applications.locks.taken;
    [
        (
            ("allocations", "million per second and channel"),
            per(takes * 1000, elapsed_ns * load.channels as u64, 1),
        ),
        (
            ("frees", "million per second and application"),
            per(frees * 1000, elapsed_ns * load.applications as u64, 1),
        ),
        (SPIN, per(in_poll + outside, elapsed_ns * threads, 100)),
        (SPIN_IN_POLL, per(in_poll, elapsed_ns * load.channels as u64, 100)),
        (RECYCLED, per(channels.recycled, takes, 100)),
        (SLOW, per(channels.slow_paths, takes, 1000)),
        (LOCKS, per(locks, takes, 1000)),
        (RETURNS, per(applications.remote_returns, frees, 100)),
        (BLOCKED, per(channels.head_blocked, takes, 100)),
    ]
}

/// Takes and gives back pages for `time`. Returns the picoseconds for each page.
fn take_and_give(policy: &dyn Policy, time: Duration) -> Result<u64, PoolError> {
    let (mut cache, mut batch) = (policy.cache("alone")?, Batch::new(ALONE));
    let wanted = Wanted { sender: 0, len_bytes: 60 };
    let (began, mut pages) = (Instant::now(), 0u64);
    while began.elapsed() < time {
        for _ in 0..1000 {
            pages += cache.take(&mut batch, ALONE, wanted)? as u64;
            cache.give(&mut batch)?;
        }
    }
    Ok((began.elapsed().as_nanos() * 1000 / u128::from(pages.max(1))) as u64)
}

fn pool(parameters: &super::super::Parameters) -> Result<PagePool, LabError> {
    let pool = PagePool::builder()
        .frames(parameters.get("pool_frames")? as u32)
        .frame_bytes(parameters.get("frame_bytes")? as u32)
        .clock(Arc::new(ExactClock))
        .build();
    pool.map_err(|error| fault("pool", &error))
}

fn rate(ran: &Measurement) -> u64 {
    scaled(ran.packets, 1_000_000_000, ran.elapsed_ns) as u64
}

fn median_of(medians: &[u64], wanted: PolicyKind) -> u64 {
    let at = PolicyKind::ALL.iter().position(|&kind| kind == wanted);
    at.and_then(|at| medians.get(at)).copied().unwrap_or(0)
}
