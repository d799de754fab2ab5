//! `veth`: byte queue limits on a ring of slots that another processor empties, after the kernel's series for
//! veth of 2026.
//!
//! Labels are `rules=13000/limit=gather`: the consumer's rules, and when the limit sees completions: never,
//! packet by packet, once per poll, or gathered by time. `floods=2/unit=bytes` has a second flood, of the
//! shortest packets.
//!
//! The 1.3 ms of a ping with completions packet by packet do not come out (0.6 ms), and those with
//! completions gathered by time do. The answer's way, by a second ring with a thread of its own, is not
//! modelled.
//!
//! The 4 % of pings lost without a limit were a fault of CoDel (815980fe6dbb), which `prio` here has not.
//! With the limit none was lost.

use super::{Bench, Experiment, LabError, Row, RowKind, World};
use crate::models::veth_ring::{self, Completion, Outcome, Setup};

const RTT: (&str, &str) = ("ping_mean", "us");
const RTT_P99: (&str, &str) = ("ping_p99", "us");
const LOST: (&str, &str) = ("pings_lost", "percent");
const RATE: (&str, &str) = ("delivered", "kpps");
const LIMIT: (&str, &str) = ("limit_median", "packets");
const SLOWER: (&str, &str) = ("ping_of_one_flood", "times");

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "veth",
    what: "the limit on a ring that another processor empties: completions one by one, by poll and by time (2026)",
    has_device: false,
    worlds: &[(World::Model, &[include_str!("../../scenarios/veth.toml")], run)],
};

/// A case: the consumer's time for a packet, and when the limit sees completions.
struct Case {
    rules: &'static str,
    completion: Completion,
}

impl Case {
    fn label(&self) -> String {
        format!("rules={}/limit={}", self.rules, self.completion.name())
    }

    fn run(&self, bench: &mut Bench<'_>, by_packets: bool, tiny_flood: bool) -> Result<Outcome, LabError> {
        let deliver_ns = bench.parameters.get(if self.rules == "0" { "plain_ns" } else { "rules_ns" })?;
        let settings = bench.parameters.settings().with("seed", bench.seed).with("deliver_ns", deliver_ns);
        let settings = settings.with("by_packets", by_packets.into()).with("tiny_flood", tiny_flood.into());
        let setup = Setup { completion: self.completion, ..settings.read()? };
        let outcome = bench.model(&self.label(), |goes_on| veth_ring::run(setup, goes_on))?;
        bench.packets += outcome.packets_in_all;
        Ok(outcome)
    }
}

fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    for rules in ["13000", "0"] {
        let mut without: Vec<Row> = Vec::new();
        for completion in Completion::ALL {
            let case = Case { rules, completion };
            let outcome = case.run(bench, true, false)?;
            let rows: Result<Vec<Row>, LabError> =
                figures(&outcome, bench.parameters.get("measure_ns")?, completion)
                    .into_iter()
                    .map(|(what, millionths)| beside(bench, &case, what, millionths, &without))
                    .collect();
            let rows = rows?;
            if completion == Completion::Off {
                without.clone_from(&rows);
            }
            bench.rows.extend(rows);
        }
    }
    for (unit, by_packets) in [("bytes", false), ("packets", true)] {
        let case = Case { rules: "13000", completion: Completion::Packet };
        let [one, two] = [case.run(bench, by_packets, false)?, case.run(bench, by_packets, true)?];
        let times = mean(&two.probes_ns) * 1_000_000 / mean(&one.probes_ns).max(1);
        let published = bench.published.figure(&format!("units.slower_by_{unit}"))?;
        let row = Row::new(&format!("floods=2/unit={unit}"), SLOWER, times as i64, RowKind::Predicted);
        bench.rows.push(row.beside(published));
    }
    Ok(())
}

/// Returns the figures of a run, in millionths.
fn figures(
    outcome: &Outcome, measure_ns: u64, completion: Completion,
) -> Vec<((&'static str, &'static str), u64)> {
    let (mut delays, mut limits) = (outcome.probes_ns.clone(), outcome.limits.clone());
    delays.sort_unstable();
    limits.sort_unstable();
    let p99 = delays.get((delays.len().max(1) - 1) * 99 / 100).copied().unwrap_or(0);
    let lost = outcome.probes_sent - delays.len() as u64;
    let per_s = u128::from(outcome.packets) * 1_000_000_000_000 / u128::from(measure_ns.max(1));
    let mut all = vec![
        (RTT, mean(&delays) * 1000),
        (RTT_P99, p99 * 1000),
        (LOST, lost * 100_000_000 / outcome.probes_sent.max(1)),
        (RATE, per_s as u64),
    ];
    if completion != Completion::Off {
        all.push((LIMIT, limits.get(limits.len() / 2).map_or(0, |limit| limit * 1_000_000)));
    }
    all
}

/// Returns a figure beside the published one, if there is one, with the effect over the figure without a
/// limit.
fn beside(
    bench: &Bench<'_>, case: &Case, what: (&'static str, &'static str), millionths: u64, without: &[Row],
) -> Result<Row, LabError> {
    let rules = if case.rules == "0" { "none" } else { "13000" };
    let path = format!("rules_{rules}.{}_{}", case.completion.name(), what.0);
    let kind = match (case.rules, case.completion) {
        ("0", Completion::Off) if what == RATE => bench.parameters.fit(&["send_ns"]),
        ("0", Completion::Packet) if what == RATE => bench.parameters.fit(&["send_ns", "line_transfer_ns"]),
        _ => RowKind::Predicted,
    };
    let row = Row::new(&case.label(), what, millionths as i64, kind);
    let Ok(published) = bench.published.figure(&path) else { return Ok(row) };
    if what == LOST {
        return Ok(row.beside_in_points(published));
    }
    let row = row.beside(published);
    Ok(match without.iter().find(|off| off.metric == row.metric) {
        Some(off) => row.effect_over(off),
        None => row,
    })
}

fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>() / (values.len() as u64).max(1)
}
