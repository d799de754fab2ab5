//! The summary for people.

use super::account::ReceiveReport;
use crate::output::{bit_rate, grouped, packet_rate, some, table, text, time};
use crate::report::{ClassReport, LatencyReport};
use crate::session::Outcome;
use crate::verdict::Verdict;
use wharf_tools::traffic::SequenceCounts;

/// Most senders that are shown one by one.
const SENDERS_MAX: usize = 20;

/// Returns the whole summary: arrivals, the senders if there are several, and a verdict.
pub(super) fn summary(outcome: &Outcome<ReceiveReport>) -> String {
    let report = &outcome.report;
    let mut rows = table(&["packets", &grouped(report.common.counts.packets)]);
    for (name, value) in figures(report).into_iter().filter(|(_, value)| !value.is_empty()) {
        rows.add_row([name, value]);
    }
    let headline = format!("from {}", report.common.device_text());
    let judged = report.common.verdict.as_ref().map_or(String::new(), Verdict::lines);
    let parts = [headline, text(&rows), senders(report), verdict(outcome), judged];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn figures(report: &ReceiveReport) -> Vec<(String, String)> {
    let common = &report.common;
    // The rate over the burst: a packet of a host itself may come seconds before it.
    let traffic = &report.traffic;
    let per_batch = common.counts.packets as f64 / common.counts.batches.max(1) as f64;
    let generated = common.counts.packets - report.unstamped;
    let of_generated = |count: u64| if generated > 0 { grouped(count) } else { String::new() };
    let latency = |which: fn(&LatencyReport) -> u64| {
        common.latency_ns.as_ref().map_or(String::new(), |latency| time(which(latency)))
    };
    // Packets of one time have no rate.
    let over_time = |rate: String| if traffic.seconds > 0.0 { rate } else { String::new() };
    let rows = [
        ("bytes", grouped(common.counts.bytes)),
        ("seconds", format!("{:.3}", traffic.seconds)),
        ("packet rate", over_time(packet_rate(traffic.mpps * 1e6))),
        ("bit rate", over_time(bit_rate(traffic.gbps * 1e9))),
        ("packets per batch", format!("{per_batch:.1}")),
        ("generated", of_generated(generated)),
        ("lost", of_generated(report.lost)),
        ("reordered", of_generated(report.reordered)),
        ("duplicated", of_generated(report.duplicated)),
        ("not generated", grouped(report.unstamped)),
        ("host protocols", some(report.host_packets)),
        ("latency p50", latency(|latency| latency.p50)),
        ("latency p99", latency(|latency| latency.p99)),
        ("latency p999", latency(|latency| latency.p999)),
        ("by DSCP, p50", ClassReport::text(&common.latency_by_dscp, |latency| latency.p50)),
        ("by DSCP, p99", ClassReport::text(&common.latency_by_dscp, |latency| latency.p99)),
        ("dropped", grouped(common.drops.total)),
    ];
    let mut rows: Vec<(String, String)> =
        rows.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let reasons = common.drops.by_reason.iter().filter(|(_, count)| **count > 0);
    rows.extend(reasons.map(|(reason, &count)| (format!("  {reason}"), grouped(count))));
    if let Some(faults) = &common.faults {
        rows.push(("faults injected".into(), faults.text()));
    }
    if let Some(trace) = &common.trace {
        rows.push(("frames traced".into(), grouped(trace.frames)));
        rows.push(("not in the trace".into(), grouped(trace.missed)));
    }
    rows.push(("frames in use".into(), grouped(common.pool.out)));
    rows
}

/// Returns a row per sender.
fn senders(report: &ReceiveReport) -> String {
    if !(2..=SENDERS_MAX).contains(&report.streams.len()) {
        return String::new();
    }
    let mut rows = table(&["sender", "run", "from", "to", "packets", "lost", "reordered", "duplicated"]);
    for stream in &report.streams {
        let SequenceCounts { packets, lost, reordered, duplicated, .. } = stream.counts;
        let counts = [packets, lost, reordered, duplicated].map(grouped);
        let ends = [
            stream.sender.to_string(),
            stream.run.to_string(),
            stream.source.to_string(),
            stream.destination.to_string(),
        ];
        rows.add_row(ends.into_iter().chain(counts));
    }
    text(&rows)
}

fn verdict(outcome: &Outcome<ReceiveReport>) -> String {
    let report = &outcome.report;
    let mut lines = Vec::new();
    if outcome.interrupted {
        lines.push("Ended by a signal.");
    }
    let generated = report.common.counts.packets - report.unstamped;
    let is_whole = outcome.faults.is_empty() && report.reordered == 0 && report.duplicated == 0;
    if generated > 0 && is_whole {
        lines.push("Every generated packet up to the last arrived, once, each sender's in order.");
    }
    if generated > 0 && report.common.latency_ns.is_none() {
        lines.push("No latency: the packets were not made on this machine since it started.");
    }
    lines.join("\n")
}
