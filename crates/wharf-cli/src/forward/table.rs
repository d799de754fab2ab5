//! The summary for people.

use super::account::{BandReport, DirectionReport, ForwardReport};
use crate::output::{Row, columns, grouped, some, text, time};
use crate::report::{LatencyReport, counts_text};
use crate::session::Outcome;

/// Returns the summary: a column per direction, and a verdict.
pub(super) fn summary(outcome: &Outcome<ForwardReport>) -> String {
    let directions = &outcome.report.directions;
    let header: Vec<String> = directions.iter().map(|direction| direction.from.clone()).collect();
    let header: Vec<&str> = std::iter::once("from").chain(header.iter().map(String::as_str)).collect();
    let rows = columns(&header, ROWS, &directions.iter().collect::<Vec<_>>());
    let mirrored =
        outcome.report.mirror.as_ref().map_or(String::new(), |mirror| {
            format!("\n\n{} frames in {}", grouped(mirror.frames), mirror.file)
        });
    let routed = outcome.report.route.as_ref().map_or(String::new(), |route| format!("\n\n{}", route.line()));
    let ended = if outcome.interrupted { "\n\nEnded by a signal." } else { "" };
    let judged = directions.iter().filter_map(|direction| direction.common.verdict.as_ref());
    let judged: String = judged.map(|verdict| format!("\n\n{}", verdict.lines())).collect();
    format!("{}{mirrored}{routed}{ended}{judged}", text(&rows))
}

const ROWS: &[Row<DirectionReport>] = &[
    ("to", |direction| direction.common.device_text()),
    ("seconds", |direction| format!("{:.3}", direction.common.seconds)),
    ("received", |direction| grouped(direction.received_packets)),
    ("cut before the queue", |direction| match direction.cut_packets {
        0 => String::new(),
        cut => format!("{} into {}", grouped(cut), grouped(direction.pieces)),
    }),
    ("packets", |direction| grouped(direction.common.counts.packets)),
    ("accepted", |direction| grouped(direction.common.counts.accepted)),
    ("sent", |direction| grouped(direction.common.counts.sent)),
    ("failed", |direction| grouped(direction.common.counts.failed)),
    ("bytes", |direction| grouped(direction.common.counts.bytes)),
    ("packet rate", |direction| direction.common.packet_rate_text()),
    ("bit rate", |direction| direction.common.bit_rate_text()),
    ("packets per doorbell", |direction| format!("{:.1}", direction.common.packets_per_doorbell)),
    ("byte queue limit", |direction| direction.common.limit_text()),
    ("discipline", |direction| direction.common.qdisc_text()),
    ("when full", |direction| direction.when_full.word()),
    ("queue delay p50", |direction| queue_delay(direction, |all| all.p50)),
    ("queue delay p99", |direction| queue_delay(direction, |all| all.p99)),
    ("ring delay p50", |direction| ring_delay(direction, |all| all.p50)),
    ("ring delay p99", |direction| ring_delay(direction, |all| all.p99)),
    ("transmit time", |direction| direction.transmit_ns.map_or_else(String::new, time)),
    ("offered again", |direction| grouped(direction.common.counts.requeues)),
    ("dropped", |direction| grouped(direction.common.drops.total)),
    ("by reason", |direction| counts_text(&direction.common.drops.by_reason)),
    ("returned unsent", |direction| some(direction.common.counts.returned)),
    ("frames in use", |direction| grouped(direction.common.pool.out)),
];

/// Returns a time in the discipline.
fn queue_delay(direction: &DirectionReport, which: fn(&LatencyReport) -> u64) -> String {
    delay(direction.queue_delay_ns.as_ref(), &direction.queue_delay_by_band, which)
}

/// Returns a time in the device.
fn ring_delay(direction: &DirectionReport, which: fn(&LatencyReport) -> u64) -> String {
    delay(direction.ring_delay_ns.as_ref(), &direction.ring_delay_by_band, which)
}

/// Returns a time of all packets, or a line for each band.
fn delay(all: Option<&LatencyReport>, bands: &[BandReport], which: fn(&LatencyReport) -> u64) -> String {
    if bands.is_empty() {
        return all.map_or(String::new(), |all| time(which(all)));
    }
    let line = |band: &BandReport| format!("band {}: {}", band.band, time(which(&band.delay_ns)));
    bands.iter().map(line).collect::<Vec<_>>().join("\n")
}
