//! `bql`: the effect of the byte limit on a wire that changes its speed: the limit over time, and the delay
//! of a priority packet in the NIC, with the limit and without.
//!
//! There is no published figure. It runs the path's own `TxEngine` and `Bql`. Labels are `bql=on/2:1gbit`:
//! the second phase, at that speed.

use super::{Bench, Experiment, LabError, Parameters, Row, RowKind, Series, World};
use crate::models::bql_wire::{self, Outcome, Phase, Setup};

/// Most points of a line in a picture.
const POINTS_MAX: usize = 400;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bql",
    what: "the byte limit on a wire that changes its speed: limit over time, delay in the NIC with and without",
    has_device: false,
    worlds: &[(World::Model, &[include_str!("../../scenarios/bql.toml"), super::E5_2695V2], run)],
};

fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    for limited in [true, false] {
        let name = if limited { "bql=on" } else { "bql=off" };
        let setup = setup(bench.parameters, limited, bench.seed)?;
        let phases = setup.phases.clone();
        let outcome = bench.model(name, |goes_on| bql_wire::run(setup, goes_on))?;
        bench.packets += outcome.packets_in_all;
        for (at, (phase, &(wire_ps, _))) in outcome.phases.iter().zip(&phases).enumerate() {
            let label = format!("{name}/{}:{}", at + 1, speed(wire_ps));
            bench.rows.extend(rows(&label, phase, limited));
        }
        bench.series.extend(series(name, &outcome, limited));
    }
    Ok(())
}

/// Returns a speed in words.
fn speed(wire_ps_per_byte: u64) -> String {
    let mbit = 8_000_000 / wire_ps_per_byte.max(1);
    if mbit >= 1000 && mbit.is_multiple_of(1000) {
        format!("{}gbit", mbit / 1000)
    } else {
        format!("{mbit}mbit")
    }
}

fn rows(label: &str, phase: &Phase, limited: bool) -> Vec<Row> {
    let row = |what, millionths: u64| Row::new(label, what, millionths as i64, RowKind::Predicted);
    let mut delays: Vec<u64> = phase.probes.iter().map(|&(_, ns)| ns).collect();
    delays.sort_unstable();
    let at = |permille: usize| delays.get((delays.len().max(1) - 1) * permille / 1000).copied().unwrap_or(0);
    let samples = phase.samples.len().max(1) as u64;
    let inside = phase.samples.iter().map(|&(_, _, bytes)| bytes).sum::<u64>();
    let mut rows = vec![
        row(("in_nic_mean", "bytes"), inside * 1_000_000 / samples),
        row(("delay_p50", "ms"), at(500)),
        row(("delay_p99", "ms"), at(990)),
        row(("delay_most", "ms"), at(1000)),
        row(("wire_used", "percent"), phase.used_ppm * 100),
    ];
    if limited {
        let end = phase.samples.last().map_or(0, |&(_, limit, _)| u64::from(limit));
        rows.insert(0, row(("limit_at_end", "bytes"), end * 1_000_000));
        rows.extend(time_to_half(phase, end).map(|ns| row(("time_to_half_limit", "ms"), ns)));
    }
    rows
}

/// Returns the time until the limit had gone half of its way to the end.
fn time_to_half(phase: &Phase, end: u64) -> Option<u64> {
    let &(from_ns, first, _) = phase.samples.first()?;
    let middle = (u64::from(first) + end) / 2;
    let is_beyond = |limit: u64| if end < u64::from(first) { limit <= middle } else { limit >= middle };
    let (at_ns, ..) = phase.samples.iter().find(|&&(_, limit, _)| is_beyond(limit.into()))?;
    Some(at_ns - from_ns)
}

fn series(name: &str, outcome: &Outcome, limited: bool) -> Vec<Series> {
    let line = |chart: &str, y, points: Vec<(f64, f64)>| {
        let step = points.len().div_ceil(POINTS_MAX).max(1);
        let points = points.into_iter().step_by(step).collect();
        Series { chart: chart.into(), line: name.into(), x: "s", y, points }
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let probes = outcome.phases.iter().flat_map(|phase| &phase.probes);
    let delays = probes.map(|&(at_ns, ns)| (seconds(at_ns), ns as f64 / 1e6)).collect();
    let mut all = vec![line("delay of the priority band", "ms", delays)];
    if limited {
        let samples = outcome.phases.iter().flat_map(|phase| &phase.samples);
        let limits = samples.map(|&(at_ns, limit, _)| (seconds(at_ns), f64::from(limit) / 1e3)).collect();
        all.push(line("byte limit over time", "kB", limits));
    }
    all
}

fn setup(parameters: &Parameters, limited: bool, seed: u64) -> Result<Setup, LabError> {
    let get = |key: &str| parameters.get(key);
    let long_ns = get("phase_ns")?;
    let speeds = ["fast_ps_per_byte", "middle_ps_per_byte", "slow_ps_per_byte"].map(get);
    let [fast, middle, slow] = speeds;
    let (fast, middle, slow) = (fast?, middle?, slow?);
    let settings = parameters.settings().with("limited", limited.into()).with("seed", seed);
    let setup = settings.with("wire_ps_per_byte", fast).read()?;
    Ok(Setup { phases: [fast, middle, slow, middle, fast].map(|ps| (ps, long_ns)).to_vec(), ..setup })
}
