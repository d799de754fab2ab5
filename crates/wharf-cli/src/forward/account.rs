//! The account of a run: the counts of each direction, and a check that they add up.

use crate::args::ForwardArgs;
use crate::queues::of_queues;
use crate::report::{Drops, QdiscReport, Report, TraceReport};
use crate::session::Outcome;
use serde::Serialize;
use std::collections::HashSet;
use wharf_tools::forward::Summary;

/// Both directions. The keys are a promise.
#[derive(Debug, Serialize)]
pub(super) struct ForwardReport {
    pub(super) directions: Vec<DirectionReport>,
    /// The capture of sent frames; null without one.
    pub(super) mirror: Option<TraceReport>,
}

/// One direction, as `send` reports it; `device` is the end that frames left by.
#[derive(Debug, Serialize)]
pub(super) struct DirectionReport {
    /// The end that frames arrived at.
    pub(super) from: String,
    /// Frames received.
    pub(super) received_packets: u64,
    /// Super-packets of these that were segmented before the queue, and their segments.
    pub(super) cut_packets: u64,
    pub(super) pieces: u64,
    /// `seconds` without pauses of a second and more with nothing inside. Rates are over this time.
    pub(super) active_seconds: f64,
    #[serde(flatten)]
    pub(super) common: Report,
}

/// Makes the report; `lost` is the error of the device that ended the run, if one did.
pub(super) fn outcome(
    summaries: Vec<Summary>, lost: Option<String>, mirror: Option<TraceReport>, interrupted: bool,
    args: &ForwardArgs,
) -> Outcome<ForwardReport> {
    let mut faults: Vec<String> = lost.into_iter().collect();
    for summary in &summaries {
        faults.extend(summary.errors.iter().map(ToString::to_string));
        faults.extend(summary.missing());
        // Errors of an incomplete file, above all.
        let last_errors = summary.queues.iter().filter_map(|queue| queue.counters().last_error());
        faults.extend(last_errors.filter(|error| error.starts_with("trace:")));
        let memory = format!("memory did not come back: {}", summary.audit);
        faults.extend((summary.audit.out() > 0).then_some(memory));
    }
    // Several queues of an interface may have the same error.
    let mut told = HashSet::new();
    faults.retain(|fault| told.insert(fault.clone()));
    let directions = summaries.into_iter().map(|summary| direction(summary, args)).collect();
    Outcome { report: ForwardReport { directions, mirror }, faults, interrupted }
}

fn direction(summary: Summary, args: &ForwardArgs) -> DirectionReport {
    let (span_ns, active_ns) = (summary.span_ns, summary.active_ns);
    let Summary { from, to, queues, has_bql, received, cut, pieces, returned, drops, audit, .. } = summary;
    let qdisc = QdiscReport::of(args.qdisc.kind().name, &queues);
    let common = Report {
        drops: Drops::of(drops),
        returned,
        qdisc: Some(QdiscReport { root: args.rate.map(|_| "tbf"), ..qdisc }),
        seconds: span_ns as f64 / 1e9,
        ..of_queues(&to, &queues, has_bql, active_ns, &audit)
    };
    let active_seconds = active_ns as f64 / 1e9;
    DirectionReport { from, received_packets: received, cut_packets: cut, pieces, active_seconds, common }
}
