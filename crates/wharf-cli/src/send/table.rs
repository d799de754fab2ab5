//! The summary for people.

use super::account::Outcome;
use super::plan::Plan;
use crate::output::{bytes, grouped, table, text, time};
use crate::report::{ClassReport, FaultReport, QdiscReport, Report, TimingReport};
use wharf::engine::Batching;

/// Returns the whole summary: a headline, a column per run, and a verdict.
pub(super) fn summary(plan: &Plan, outcomes: &[Outcome]) -> String {
    let header: Vec<String> = outcomes.iter().map(|outcome| column_name(outcome.batching)).collect();
    let header: Vec<&str> = std::iter::once("batching").chain(header.iter().map(String::as_str)).collect();
    let mut rows = table(&header);
    for (name, show) in ROWS {
        let cells: Vec<String> = outcomes.iter().map(|outcome| show(&outcome.report)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.add_row(std::iter::once((*name).to_string()).chain(cells));
        }
    }
    format!("{}\n\n{}\n\n{}", headline(plan, outcomes), text(&rows), verdict(outcomes))
}

fn headline(plan: &Plan, outcomes: &[Outcome]) -> String {
    let device = outcomes.first().map_or(String::new(), |outcome| outcome.report.device_text());
    let senders =
        if plan.args.senders == 1 { "1 sender".into() } else { format!("{} senders", plan.args.senders) };
    format!("{} to {device}, {senders}", plan.what)
}

fn column_name(batching: Batching) -> String {
    match batching {
        Batching::On => "on".into(),
        Batching::Off => "off".into(),
        Batching::Bytes(count) => bytes(count.into()),
    }
}

type Row = (&'static str, fn(&Report) -> String);

const ROWS: &[Row] = &[
    ("seconds", |report| format!("{:.3}", report.seconds)),
    ("packets", |report| grouped(report.packets)),
    ("sent", |report| grouped(report.sent)),
    ("Mpps", |report| rate(report.mpps)),
    ("Gbit/s", |report| rate(report.gbps)),
    ("packets per doorbell", |report| format!("{:.1}", report.packets_per_doorbell)),
    ("byte queue limit", |report| match report.bql.enabled {
        true => bytes(report.bql.limit_bytes),
        false => "none".into(),
    }),
    ("discipline", |report| report.qdisc.as_ref().map_or(String::new(), QdiscReport::text)),
    ("requeues", |report| grouped(report.requeues)),
    ("packets by queue", |report| match &report.queues[..] {
        [] | [_] => String::new(),
        queues => {
            let packets: Vec<String> = queues.iter().map(|queue| grouped(queue.packets)).collect();
            packets.join("\n")
        }
    }),
    ("senders' waits", |report| grouped(report.senders.iter().map(|sender| sender.waits).sum())),
    ("latency p50", |report| report.latency_ns.as_ref().map_or(String::new(), |latency| time(latency.p50))),
    ("latency p99", |report| report.latency_ns.as_ref().map_or(String::new(), |latency| time(latency.p99))),
    ("latency p999", |report| report.latency_ns.as_ref().map_or(String::new(), |latency| time(latency.p999))),
    ("latency by DSCP, p50", |report| ClassReport::text(&report.latency_by_dscp, |latency| latency.p50)),
    ("latency by DSCP, p99", |report| ClassReport::text(&report.latency_by_dscp, |latency| latency.p99)),
    ("timing error p50", |report| timing(report, |timing| timing.p50)),
    ("timing error p99", |report| timing(report, |timing| timing.p99)),
    ("timing error max", |report| timing(report, |timing| timing.max)),
    ("dropped", |report| grouped(report.drops.total)),
    ("returned unsent", |report| some(report.returned)),
    ("received", |report| {
        report.received.as_ref().map_or(String::new(), |received| grouped(received.packets))
    }),
    ("still under way", |report| {
        report.received.as_ref().map_or(String::new(), |received| some(received.not_arrived))
    }),
    ("wrong", |report| report.received.as_ref().map_or(String::new(), |received| grouped(received.errors))),
    ("faults injected", |report| report.faults.as_ref().map_or(String::new(), FaultReport::text)),
    ("frames traced", |report| report.trace.as_ref().map_or(String::new(), |trace| grouped(trace.frames))),
    ("not in the trace", |report| report.trace.as_ref().map_or(String::new(), |trace| some(trace.missed))),
    ("frames out", |report| grouped(report.pool.out)),
];

fn timing(report: &Report, which: fn(&TimingReport) -> u64) -> String {
    report.timing_error_ns.as_ref().map_or(String::new(), |timing| time(which(timing)))
}

/// Formats a rate; a slow one has more places.
fn rate(per_second: f64) -> String {
    if per_second < 0.1 { format!("{per_second:.6}") } else { format!("{per_second:.3}") }
}

fn some(count: u64) -> String {
    if count == 0 { String::new() } else { grouped(count) }
}

fn verdict(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        lines.push("Ended by a signal.".to_string());
    }
    let is_good = outcomes.iter().all(|outcome| outcome.faults.is_empty());
    if is_good && outcomes.iter().all(|outcome| outcome.report.received.is_some()) {
        let failed = outcomes.iter().any(|outcome| outcome.report.drops.total > 0);
        let under_way = |outcome: &Outcome| {
            outcome.report.received.as_ref().is_some_and(|received| received.not_arrived > 0)
        };
        let which = match (outcomes.iter().any(under_way), failed) {
            (true, _) => "Every frame not lost or still under way",
            (false, true) => "Every frame that did not fail",
            (false, false) => "Every frame",
        };
        lines.push(format!("{which} arrived byte for byte, each sender's in order."));
    }
    if let [on, off, ..] = outcomes
        && off.report.mpps > 0.0
    {
        lines.push(format!("Batching made it {:.2} times as fast.", on.report.mpps / off.report.mpps));
    }
    lines.join("\n")
}
