//! Snapshots as text, for people.

use super::device::DeviceRow;
use super::snapshot::{BandDelay, PathCounters, QueueRow, Snapshot};
use crate::output::{bit_rate, columns, grouped, packet_rate, text};
use crate::report::counts_text;

/// Returns one line: rates and drops of each direction.
pub(super) fn line(snapshot: &Snapshot) -> String {
    let paths: Vec<String> = snapshot.paths.iter().map(part).collect();
    let paths = if paths.is_empty() { "the devices are not open yet".into() } else { paths.join(" | ") };
    format!("{:.1} s: {paths}", snapshot.time_s)
}

fn part(path: &PathCounters) -> String {
    let mut parts = Vec::new();
    if path.from.is_some() {
        parts.push(format!("received {}", packet_rate(path.rates.received_pps)));
    }
    if path.to.is_some() {
        let (packets, bits) = (packet_rate(path.rates.sent_pps), bit_rate(path.rates.sent_bps));
        parts.push(format!("sent {packets} {bits}, backlog {}", path.backlog_packets));
    }
    parts.extend(Some(path.counts.limit_text("limit ")).filter(|text| !text.is_empty()));
    if path.dropped() > 0 {
        parts.push(format!(
            "dropped {} (in all: {})",
            packet_rate(path.rates.dropped_pps),
            counts_text(&path.drops).replace('\n', ", ")
        ));
    }
    format!("{}: {}", path.path, parts.join(", "))
}

/// Returns a table of all counters, with a column for each direction.
pub(super) fn table(snapshot: &Snapshot) -> String {
    let Snapshot { time_s, pid, command, runtime, paths, .. } = snapshot;
    let title = format!("wharf {command}, process {pid}, after {time_s:.1} s: {}", runtime.text());
    if paths.is_empty() {
        return format!("{title}: the devices are not open yet");
    }
    let header: Vec<&str> = std::iter::once("").chain(paths.iter().map(|path| path.path.as_str())).collect();
    let all: Vec<&PathCounters> = paths.iter().collect();
    let parts = [title, runtime.details(), text(&columns(&header, ROWS, &all))];
    parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
}

const ROWS: &[crate::output::Row<PathCounters>] = &[
    ("from", |path| path.from.clone().unwrap_or_default()),
    ("to", |path| path.to.clone().unwrap_or_default()),
    ("received", |path| of_end(&path.from, grouped(path.received_packets))),
    ("", |path| of_end(&path.from, packet_rate(path.rates.received_pps))),
    ("sent", |path| of_end(&path.to, grouped(path.counts.sent))),
    ("", |path| of_end(&path.to, packet_rate(path.rates.sent_pps))),
    ("", |path| of_end(&path.to, bit_rate(path.rates.sent_bps))),
    ("failed", |path| of_end(&path.to, grouped(path.counts.failed))),
    ("dropped", |path| grouped(path.dropped())),
    ("  by reason", |path| counts_text(&path.drops)),
    ("backlog", |path| of_end(&path.to, format!("{} packets", grouped(path.backlog_packets)))),
    ("in the device", |path| of_end(&path.to, format!("{} packets", grouped(path.device_packets)))),
    ("byte limit", |path| path.counts.limit_text("")),
    ("waited", |path| delays(&path.delay_ns_by_band)),
    ("  last minute", |path| delays(&path.minute_delay_ns_by_band)),
    ("  last sample", |path| delays(&path.recent_delay_ns_by_band)),
    ("offered again", |path| of_end(&path.to, grouped(path.counts.requeues))),
    ("doorbells", |path| of_end(&path.to, grouped(path.counts.doorbells))),
    ("frames in use", |path| grouped(path.frames_out)),
    ("settings", |path| path.settings_texts().collect::<Vec<_>>().join("\n")),
    ("by queue", |path| queue_texts(path).join("\n")),
    ("device", |path| device_texts(path).join("\n")),
];

/// Returns `text` if the direction has the end.
fn of_end(end: &Option<String>, text: String) -> String {
    if end.is_some() { text } else { String::new() }
}

/// Returns the delays by band, a line each; without bands, those of all.
pub(super) fn delays(by_band: &[BandDelay]) -> String {
    if let [only] = by_band {
        return only.times();
    }
    by_band.iter().map(BandDelay::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns what each of several queues has sent.
pub(super) fn queue_texts(path: &PathCounters) -> Vec<String> {
    let text = |(number, queue): (usize, &QueueRow)| {
        let (sent, rate) = (grouped(queue.counts.sent), packet_rate(queue.sent_pps));
        format!("{number}: {sent} sent, {rate}, {} failed", queue.counts.failed)
    };
    let queues = path.queues.iter().enumerate().filter(|_| path.queues.len() > 1);
    queues.map(text).collect()
}

/// Returns the figures of the device's own.
pub(super) fn device_texts(path: &PathCounters) -> Vec<String> {
    path.device.as_ref().map_or(Vec::new(), DeviceRow::texts)
}
