//! `pages` in virtual time: the loss of the kernel of 2019 to the allocator's lock, as measured, and the same
//! with other policies.
//!
//! One parameter is fitted: the time of a page under the depot's lock, to the processors' time spent
//! spinning. Its share of the polls' time, and everything about the other policies, follows.

use super::super::{Bench, LabError, Parameters, Row, RowKind};
use super::{BLOCKED, LOCKS, MPPS, OF_ALLOCATOR, RECYCLED, RETURNS, SLOW, SPIN, SPIN_IN_POLL, ratio};
use crate::models::page_pool::{self, Outcome, PolicyKind, Setup};

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let (mut allocator_pps, mut allocator_slow) = (0, 0);
    for kind in PolicyKind::ALL {
        let setup = setup(bench.parameters, kind, bench.seed)?;
        let outcome = one(bench, kind.name(), &setup)?;
        let slow = ratio(outcome.slow_paths, outcome.pages[0]);
        if kind == PolicyKind::Allocator {
            (allocator_pps, allocator_slow) = (outcome.packets_per_s(), slow);
        }
        bench.rows.extend(rates(kind, &outcome, allocator_pps)?);
        bench.rows.extend(spinning(kind, &outcome, bench)?);
        bench.rows.extend(by_cpu(kind, &outcome, &setup));
        bench.rows.extend(details(&outcome).map(|(what, value)| predicted(kind, what, value)));
        if kind == PolicyKind::Halves {
            let change = ratio(slow as u64, allocator_slow as u64) * 100 - 100_000_000;
            let row = predicted(kind, ("allocations_by_halves", "percent"), change);
            let published = bench.published.figure("page_allocator.half_page_use_percent")?;
            bench.rows.push(row.beside_in_points(published).is_effect());
        }
    }
    requests(bench)
}

pub(super) fn one(bench: &mut Bench<'_>, name: &str, setup: &Setup) -> Result<Outcome, LabError> {
    let outcome = bench.model(name, |goes_on| page_pool::run(setup, goes_on))?;
    bench.packets += outcome.packets_in_all;
    Ok(outcome)
}

/// Runs requests, one packet of a stream at a time: the gain of a buffer kept by its socket over pages that go back to their
/// channel, as it was published of recycled ones.
fn requests(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let [mut recycled_pps, mut kept_pps] = [0; 2];
    for (kind, pps) in [(PolicyKind::Origin, &mut recycled_pps), (PolicyKind::SenderCache, &mut kept_pps)] {
        let setup =
            Setup { window_packets: 1, burst_packets: 1, ..setup(bench.parameters, kind, bench.seed)? };
        let label = format!("{}/requests", kind.name());
        *pps = one(bench, &label, &setup)?.packets_per_s();
        bench.rows.push(Row::new(&label, MPPS, *pps as i64, RowKind::Predicted));
    }
    let gain = ratio(kept_pps, recycled_pps) * 100 - 100_000_000;
    let label = format!("{}/requests", PolicyKind::SenderCache.name());
    let row = Row::new(&label, ("gain_over_recycling", "percent of Mpps"), gain, RowKind::Predicted);
    let published = bench.published.figure("page_allocator.socket_buffer_cache_gain_percent")?;
    bench.rows.push(row.beside_in_points(published).is_effect());
    Ok(())
}

fn predicted(kind: PolicyKind, what: (&'static str, &'static str), millionths: i64) -> Row {
    Row::new(kind.name(), what, millionths, RowKind::Predicted)
}

fn rates(kind: PolicyKind, outcome: &Outcome, allocator_pps: u64) -> Result<Vec<Row>, LabError> {
    let of_allocator = ratio(outcome.packets_per_s(), allocator_pps);
    let mut rows = vec![
        predicted(kind, MPPS, outcome.packets_per_s() as i64),
        predicted(kind, OF_ALLOCATOR, of_allocator),
    ];
    if kind == PolicyKind::SenderCache {
        rows.push(
            predicted(kind, ("gain_over_allocator", "percent of Mpps"), (of_allocator - 1_000_000) * 100)
                .saying("not the published one, which is of requests with pages recycled in place"),
        );
    }
    Ok(rows)
}

/// Adds the spinning as a share of all busy time, and of that of the channels. Both were published for the
/// allocator, and one is fitted.
fn spinning(kind: PolicyKind, outcome: &Outcome, bench: &Bench<'_>) -> Result<[Row; 2], LabError> {
    let [busy_ns, spinning_ns] = [outcome.busy_ns, outcome.spinning_ns];
    let all = ratio(spinning_ns.iter().sum(), busy_ns.iter().sum()) * 100;
    let [all, in_poll] =
        [predicted(kind, SPIN, all), predicted(kind, SPIN_IN_POLL, ratio(spinning_ns[0], busy_ns[0]) * 100)];
    if kind != PolicyKind::Allocator {
        return Ok([all, in_poll]);
    }
    let all = Row { kind: bench.parameters.fit(&["depot_page_ps"]), ..all };
    Ok([
        all.beside(bench.published.figure("page_allocator.cpu_spinning_percent")?),
        in_poll.beside(bench.published.figure("page_allocator.within_rx_poll_spinning_percent")?),
    ])
}

/// Returns the rows of pages that a processor takes or frees a second: the mean, and each.
fn by_cpu(kind: PolicyKind, outcome: &Outcome, setup: &Setup) -> [Row; 2] {
    let each = |count: u64, cpus: usize| ratio(count * 1000, outcome.measured_ns * cpus as u64);
    let (channels, applications) = outcome.pages_by_cpu.split_at(setup.channels);
    let [takes, frees] = outcome.pages;
    [
        (("allocations", "million per second and CPU that receives"), takes, channels),
        (("frees", "million per second and CPU that reads"), frees, applications),
    ]
    .map(|(what, pages, cpus)| {
        let by_cpu = cpus.iter().map(|&pages| each(pages, 1) as f64 / 1e6).collect();
        predicted(kind, what, each(pages, cpus.len())).by_thread(by_cpu)
    })
}

fn details(outcome: &Outcome) -> [((&'static str, &'static str), i64); 5] {
    let [takes, frees] = outcome.pages;
    [
        (RECYCLED, ratio(outcome.recycled, takes) * 100),
        (SLOW, ratio(outcome.slow_paths, takes) * 1000),
        (LOCKS, ratio(outcome.locks, takes) * 1000),
        (RETURNS, ratio(outcome.remote_returns, frees) * 100),
        (BLOCKED, ratio(outcome.head_blocked, takes) * 100),
    ]
}

fn setup(parameters: &Parameters, kind: PolicyKind, seed: u64) -> Result<Setup, LabError> {
    let applications = parameters.get("cpus")?.saturating_sub(parameters.get("channels")?).max(1);
    let settings = parameters.settings().with("applications", applications).with("seed", seed);
    let settings = settings.with("wire_bits_per_s", 0);
    Ok(Setup { kind, ..settings.read()? })
}
