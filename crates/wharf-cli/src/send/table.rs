//! The summary for people.

use super::plan::Plan;
use crate::output::{Row, bytes, columns, grouped, some, text, time};
use crate::report::{ClassReport, FaultReport, Report, counts_text, pauses_text};
use crate::session::Outcome;
use crate::verdict::Verdict;
use wharf_core::engine::Batching;

/// Returns the whole summary: a headline, a column per run, and a verdict.
pub(super) fn summary(plan: &Plan, outcomes: &[Outcome<Report>]) -> String {
    let names: Vec<String> = plan.batchings.iter().take(outcomes.len()).map(column_name).collect();
    // A heading is for a comparison.
    let header: Vec<&str> = match &names[..] {
        [_] => Vec::new(),
        names => std::iter::once("batching").chain(names.iter().map(String::as_str)).collect(),
    };
    let reports: Vec<&Report> = outcomes.iter().map(|outcome| &outcome.report).collect();
    let rows = columns(&header, ROWS, &reports);
    let judged =
        reports.first().and_then(|report| report.verdict.as_ref()).map_or(String::new(), Verdict::lines);
    let judged = match &names[..] {
        [of, _, ..] if !judged.is_empty() => format!("With batching {of}:\n{judged}"),
        _ => judged,
    };
    let parts = [headline(plan, outcomes), text(&rows), verdict(outcomes), judged];
    parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n\n")
}

fn headline(plan: &Plan, outcomes: &[Outcome<Report>]) -> String {
    let device = outcomes.first().map_or(String::new(), |outcome| outcome.report.device_text());
    let senders =
        if plan.args.senders == 1 { "1 sender".into() } else { format!("{} senders", plan.args.senders) };
    format!("{} to {device}, {senders}", plan.what)
}

/// Returns the name of a run with this batching.
pub(super) fn column_name(batching: &Batching) -> String {
    match *batching {
        Batching::On => "on".into(),
        Batching::Off => "off".into(),
        Batching::Bytes(count) => bytes(count.into()),
    }
}

const ROWS: &[Row<Report>] = &[
    ("seconds", |report| format!("{:.3}", report.seconds)),
    ("packets", |report| grouped(report.counts.packets)),
    ("accepted", |report| grouped(report.counts.accepted)),
    ("sent", |report| grouped(report.counts.sent)),
    ("failed", |report| grouped(report.counts.failed)),
    ("packet rate", Report::packet_rate_text),
    ("bit rate", Report::bit_rate_text),
    ("packets per doorbell", |report| format!("{:.1}", report.packets_per_doorbell)),
    ("byte queue limit", Report::limit_text),
    ("discipline", Report::qdisc_text),
    ("offered again", |report| grouped(report.counts.requeues)),
    ("packets by queue", |report| match &report.queues[..] {
        [] | [_] => String::new(),
        queues => {
            let packets: Vec<String> = queues.iter().map(|queue| grouped(queue.counts.packets)).collect();
            packets.join("\n")
        }
    }),
    ("waits for room", |report| grouped(report.senders.iter().map(|sender| sender.waits).sum())),
    ("latency p50", |report| shown(&report.latency_ns, |latency| time(latency.p50))),
    ("latency p99", |report| shown(&report.latency_ns, |latency| time(latency.p99))),
    ("latency p999", |report| shown(&report.latency_ns, |latency| time(latency.p999))),
    ("latency by DSCP, p50", |report| ClassReport::text(&report.latency_by_dscp, |latency| latency.p50)),
    ("latency by DSCP, p99", |report| ClassReport::text(&report.latency_by_dscp, |latency| latency.p99)),
    ("timing error p50", |report| shown(&report.timing_error_ns, |timing| time(timing.p50))),
    ("timing error p99", |report| shown(&report.timing_error_ns, |timing| time(timing.p99))),
    ("timing error max", |report| shown(&report.timing_error_ns, |timing| time(timing.max))),
    ("pauses", |report| shown(&report.pauses, pauses_text)),
    ("dropped", |report| grouped(report.drops.total)),
    ("by reason", |report| counts_text(&report.drops.by_reason)),
    ("records not sent", |report| shown(&report.skipped, counts_text)),
    ("returned unsent", |report| some(report.counts.returned)),
    ("received", |report| shown(&report.received, |received| grouped(received.packets))),
    ("still under way", |report| shown(&report.received, |received| some(received.not_arrived))),
    ("wrong", |report| shown(&report.received, |received| grouped(received.errors))),
    ("not compared", |report| shown(&report.received, |received| some(received.unchecked))),
    ("faults injected", |report| shown(&report.faults, FaultReport::text)),
    ("frames traced", |report| shown(&report.trace, |trace| grouped(trace.frames))),
    ("not in the trace", |report| shown(&report.trace, |trace| some(trace.missed))),
    ("frames in use", |report| grouped(report.pool.out)),
];

fn shown<T>(part: &Option<T>, show: fn(&T) -> String) -> String {
    part.as_ref().map_or(String::new(), show)
}

fn verdict(outcomes: &[Outcome<Report>]) -> String {
    let mut lines = Vec::new();
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        lines.push("Ended by a signal.".to_string());
    }
    let is_good = outcomes.iter().all(|outcome| outcome.faults.is_empty());
    if is_good && outcomes.iter().all(|outcome| outcome.report.received.is_some()) {
        let failed = outcomes.iter().any(|outcome| outcome.report.drops.total > 0);
        let under_way = |outcome: &Outcome<Report>| {
            outcome.report.received.as_ref().is_some_and(|received| received.not_arrived > 0)
        };
        let which = match (outcomes.iter().any(under_way), failed) {
            (true, _) => "Every frame not lost or still under way",
            (false, true) => "Every frame that did not fail",
            (false, false) => "Every frame",
        };
        let received = outcomes.iter().filter_map(|outcome| outcome.report.received.as_ref());
        let how = match received.map(|received| received.unchecked).sum() {
            0 => "byte for byte".into(),
            unchecked => format!("(the bytes of {} were not compared)", grouped(unchecked)),
        };
        lines.push(format!("{which} arrived {how}, each sender's in order."));
    }
    lines.join("\n")
}
