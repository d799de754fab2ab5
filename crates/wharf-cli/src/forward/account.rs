//! The account of a run: what each direction did, and whether it adds up.

use crate::queues::of_queues;
use crate::report::{Drops, QdiscReport, Report, TraceReport};
use serde::Serialize;
use wharf_tools::forward::Summary;

/// What a run came to.
pub(super) struct Outcome {
    pub(super) report: ForwardReport,
    /// What is wrong, a line each.
    pub(super) faults: Vec<String>,
    /// A signal ended it.
    pub(super) interrupted: bool,
}

/// Both directions. The keys are a promise.
#[derive(Debug, Serialize)]
pub(super) struct ForwardReport {
    pub(super) directions: Vec<DirectionReport>,
    /// The capture of what left; null without one.
    pub(super) mirror: Option<TraceReport>,
}

/// One direction: as `send` reports it, `device` being where frames left by.
#[derive(Debug, Serialize)]
pub(super) struct DirectionReport {
    /// Where frames arrived.
    pub(super) from: String,
    /// How many were received.
    pub(super) received_packets: u64,
    /// Super-packets of these that were cut before the queue, and their pieces.
    pub(super) cut_packets: u64,
    pub(super) pieces: u64,
    /// `seconds` without pauses of a second and more with nothing inside: what rates are over.
    pub(super) active_seconds: f64,
    #[serde(flatten)]
    pub(super) common: Report,
}

/// Draws it up; `lost` is what ended it, if a device did.
pub(super) fn outcome(
    summaries: Vec<Summary>, lost: Option<String>, mirror: Option<TraceReport>, interrupted: bool,
    qdisc: &'static str,
) -> Outcome {
    let mut faults: Vec<String> = lost.into_iter().collect();
    for summary in &summaries {
        faults.extend(summary.errors.iter().map(ToString::to_string));
        faults.extend(summary.missing());
        // Of a file that is incomplete, above all.
        let last_errors = summary.queues.iter().filter_map(|queue| queue.counters().last_error());
        faults.extend(last_errors.filter(|error| error.starts_with("trace:")));
        let memory = format!("memory did not come back: {}", summary.audit);
        faults.extend((summary.audit.out() > 0).then_some(memory));
    }
    // Several queues of an interface may meet the same.
    let mut told = Vec::new();
    faults.retain(|fault| {
        !told.contains(fault) && {
            told.push(fault.clone());
            true
        }
    });
    let directions = summaries.into_iter().map(|summary| direction(summary, qdisc)).collect();
    Outcome { report: ForwardReport { directions, mirror }, faults, interrupted }
}

fn direction(summary: Summary, qdisc: &'static str) -> DirectionReport {
    let (span_ns, active_ns) = (summary.span_ns, summary.active_ns);
    let Summary { from, to, queues, has_bql, received, cut, pieces, returned, drops, audit, .. } = summary;
    let total = drops.values().sum();
    let common = Report {
        drops: Drops { total, by_reason: drops },
        returned,
        qdisc: Some(QdiscReport::of(qdisc, &queues)),
        seconds: span_ns as f64 / 1e9,
        ..of_queues(&to, &queues, has_bql, active_ns, &audit)
    };
    let active_seconds = active_ns as f64 / 1e9;
    DirectionReport { from, received_packets: received, cut_packets: cut, pieces, active_seconds, common }
}
