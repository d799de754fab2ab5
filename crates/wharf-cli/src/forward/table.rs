//! The summary for people.

use super::account::{DirectionReport, Outcome};
use crate::output::{bytes, grouped, table, text};
use crate::report::QdiscReport;

/// Returns the summary: a column per direction, and a verdict.
pub(super) fn summary(outcome: &Outcome) -> String {
    let directions = &outcome.report.directions;
    let header: Vec<String> = directions.iter().map(|direction| direction.from.clone()).collect();
    let header: Vec<&str> = std::iter::once("from").chain(header.iter().map(String::as_str)).collect();
    let mut rows = table(&header);
    for (name, show) in ROWS {
        let cells: Vec<String> = directions.iter().map(show).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.add_row(std::iter::once((*name).to_string()).chain(cells));
        }
    }
    let mirrored =
        outcome.report.mirror.as_ref().map_or(String::new(), |mirror| {
            format!("\n\n{} frames in {}", grouped(mirror.frames), mirror.file)
        });
    let ended = if outcome.interrupted { "\n\nEnded by a signal." } else { "" };
    format!("{}{mirrored}{ended}", text(&rows))
}

type Row = (&'static str, fn(&DirectionReport) -> String);

const ROWS: &[Row] = &[
    ("to", |direction| direction.common.device_text()),
    ("seconds", |direction| format!("{:.3}", direction.common.seconds)),
    ("received", |direction| grouped(direction.received_packets)),
    ("cut before the queue", |direction| match direction.cut_packets {
        0 => String::new(),
        cut => format!("{} into {}", grouped(cut), grouped(direction.pieces)),
    }),
    ("packets", |direction| grouped(direction.common.packets)),
    ("sent", |direction| grouped(direction.common.sent)),
    ("bytes", |direction| grouped(direction.common.bytes)),
    ("Mpps", |direction| format!("{:.6}", direction.common.mpps)),
    ("Gbit/s", |direction| format!("{:.6}", direction.common.gbps)),
    ("packets per doorbell", |direction| format!("{:.1}", direction.common.packets_per_doorbell)),
    ("byte queue limit", |direction| match direction.common.bql.enabled {
        true => bytes(direction.common.bql.limit_bytes),
        false => "none".into(),
    }),
    ("discipline", |direction| direction.common.qdisc.as_ref().map_or(String::new(), QdiscReport::text)),
    ("requeues", |direction| grouped(direction.common.requeues)),
    ("dropped", |direction| grouped(direction.common.drops.total)),
    ("by reason", |direction| {
        let reasons = direction.common.drops.by_reason.iter();
        reasons.map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect::<Vec<_>>().join("\n")
    }),
    ("returned unsent", |direction| match direction.common.returned {
        0 => String::new(),
        returned => grouped(returned),
    }),
    ("frames out", |direction| grouped(direction.common.pool.out)),
];
