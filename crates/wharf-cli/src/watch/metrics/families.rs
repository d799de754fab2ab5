//! The walk over the counters of a run, as OpenMetrics.
//!
//! The specification wants all values of a name together, and the unit as the end of the name: `wharf_queue_sent`, which counts
//! packets, is `wharf_queue_sent_packets_total`.

use super::writer::{Writer, label};
use crate::watch::board::Board;
use crate::watch::running::Running;
use crate::watch::snapshot::{BandDelay, bands};
use std::collections::BTreeMap;
use wharf_core::metrics::{Measured, Metric, MetricKind, Walk};

/// All values of one name.
#[derive(Debug)]
struct Family {
    help: String,
    kind: MetricKind,
    /// With their labels, as they are written.
    values: Vec<(String, u64)>,
}

/// Families, by name without unit and suffix, and by unit.
#[derive(Debug, Default)]
pub(super) struct Families(BTreeMap<(String, String), Family>);

/// A name that no walk has.
#[derive(Clone, Copy)]
struct Own {
    name: &'static str,
    help: &'static str,
}

/// The statistics of disciplines, which have names of their own.
const STATISTIC: Own =
    Own { name: "wharf_qdisc_statistic", help: "Statistics of the queueing discipline, by name." };
/// Those that are known: statistic, name without unit, unit, kind, help. Others have [`STATISTIC`] alone.
type Known = (&'static str, &'static str, &'static str, MetricKind, &'static str);
const KNOWN: [Known; 9] = {
    use MetricKind::{Counter, Gauge};
    [
        ("marked", "marked", "packets", Counter, "Packets that the discipline has marked (ECN)."),
        ("codel_drops", "codel_drops", "packets", Counter, "Packets that CoDel has dropped."),
        ("overlimit_drops", "overlimit_drops", "packets", Counter, "Packets dropped beyond a limit."),
        ("new_flows", "new", "flows", Counter, "Flows that began."),
        ("flows", "", "flows", Gauge, "Flows with packets in the discipline."),
        ("backlog_packets", "backlog", "packets", Gauge, "Packets in the discipline."),
        ("backlog_bytes", "backlog", "bytes", Gauge, "Bytes in the discipline."),
        ("delay_ns_max", "longest_delay", "ns", Gauge, "Longest time of a packet in the discipline."),
        ("late_ns_max", "latest", "ns", Gauge, "Longest time of a packet in it beyond its departure."),
    ]
};
const DELAY: Own = Own {
    name: "wharf_qdisc_delay",
    help: "Time that packets waited in the discipline since the run began, by band and quantile.",
};
const RUN: Own = Own {
    name: "wharf_run_paths",
    help: "Directions of the run whose devices are open, by command and process.",
};

impl Families {
    /// Returns the counters of a run at this time.
    pub(super) fn of(board: &Board) -> Self {
        let mut all = Self::default();
        let paths = board.paths().clone();
        let labels = [("command", board.command()), ("pid", &std::process::id().to_string())];
        all.add_gauge(RUN, "", &labels, paths.len() as u64);
        all.measure_each(None, board.pollers().iter().map(|poller| &**poller as &dyn Measured));
        let mut pools = Vec::new();
        for path in &paths {
            let is_new = |number: &u8| !pools.contains(number);
            let new: Vec<_> = path.pools.iter().filter(|pool| is_new(&pool.region().number())).collect();
            new.iter().for_each(|pool| all.measure(&[], *pool));
            pools.extend(path.pools.iter().map(|pool| pool.region().number()));
            all.add_path(path);
        }
        all
    }

    fn add_path(&mut self, path: &Running) {
        self.measure_each(Some(&path.path), path.queues.iter().map(|queue| queue.measured()));
        let receivers: Vec<_> =
            path.receivers.iter().filter_map(|receiver| receiver.measured().upgrade()).collect();
        self.measure_each(Some(&path.path), receivers.iter().map(|receiver| &**receiver));
        for (number, queue) in path.queues.iter().enumerate() {
            for (name, value) in queue.qdisc_stats() {
                let labels = [("path", &*path.path), ("number", &number.to_string()), ("statistic", name)];
                self.add_gauge(STATISTIC, "", &labels, value);
                if let Some((_, name, unit, kind, help)) = KNOWN.iter().find(|(known, ..)| *known == name) {
                    let name = format!("wharf_qdisc_{name}");
                    let family = self.family(name.trim_end_matches('_'), help, unit, *kind);
                    family.values.push((text(labels[..2].iter()), value));
                }
            }
        }
        for delay in BandDelay::of(bands(path.delay_by_band())) {
            for (quantile, value) in [("0.5", delay.p50), ("0.99", delay.p99)] {
                let labels =
                    [("path", &*path.path), ("band", &delay.band.to_string()), ("quantile", quantile)];
                self.add_gauge(DELAY, "ns", &labels, value);
            }
        }
    }

    /// Adds what `parts` measure, with their path and their number: several may have one name.
    fn measure_each<'a>(&mut self, path: Option<&str>, parts: impl Iterator<Item = &'a dyn Measured>) {
        for (number, part) in parts.enumerate() {
            let number = number.to_string();
            let labels: Vec<_> =
                path.map(|path| ("path", path)).into_iter().chain([("number", &*number)]).collect();
            self.measure(&labels, part);
        }
    }

    fn measure(&mut self, labels: &[(&'static str, &str)], part: &dyn Measured) {
        let mut see = |metric: &Metric<'_>| self.add(labels, metric);
        part.measure(&mut Walk::new(&mut see));
    }

    fn add(&mut self, more: &[(&'static str, &str)], metric: &Metric<'_>) {
        let Metric { name, help, unit, kind, labels, value } = *metric;
        self.family(name, help, unit, kind).values.push((text(more.iter().chain(labels)), value));
    }

    fn add_gauge(&mut self, of: Own, unit: &str, labels: &[(&str, &str)], value: u64) {
        self.family(of.name, of.help, unit, MetricKind::Gauge).values.push((text(labels.iter()), value));
    }

    fn family(&mut self, name: &str, help: &str, unit: &str, kind: MetricKind) -> &mut Family {
        // Families are in the order of their names without units.
        let stem =
            name.strip_suffix(unit).and_then(|stem| stem.strip_suffix('_')).filter(|_| !unit.is_empty());
        let new = || Family { help: help.into(), kind, values: Vec::new() };
        self.0.entry((stem.unwrap_or(name).into(), unit.into())).or_insert_with(new)
    }

    /// Adds them.
    pub(super) fn write(&self, all: &mut Writer) {
        for ((stem, unit), family) in &self.0 {
            let name = if unit.is_empty() { stem.clone() } else { format!("{stem}_{unit}") };
            family.write(all, &name, unit, |value| value.to_string());
            // Names are kept: those in base units stand beside them. Delays are a histogram.
            if unit == "ns" && stem != DELAY.name {
                let seconds = |value| (value as f64 / 1e9).to_string();
                family.write(all, &format!("{stem}_seconds"), "seconds", seconds);
            }
        }
    }
}

impl Family {
    fn write(&self, all: &mut Writer, name: &str, unit: &str, text: impl Fn(u64) -> String) {
        let (kind, suffix, most) = match self.kind {
            MetricKind::Counter => ("counter", "_total", u64::MAX),
            // A gauge of this format is signed. No run reaches a value above `i64::MAX`.
            MetricKind::Gauge => ("gauge", "", i64::MAX as u64),
        };
        all.family(name, kind, unit, &self.help);
        for (labels, value) in &self.values {
            all.value(&format!("{name}{suffix}"), labels, text(*value.min(&most)));
        }
    }
}

/// Returns the text of labels.
fn text<'a>(labels: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    labels.map(|(name, value)| label(name, value)).collect::<Vec<_>>().join(",")
}
