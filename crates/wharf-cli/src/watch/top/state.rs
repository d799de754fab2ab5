//! The contents of the view: the last snapshot, and what was before it.

use crate::watch::snapshot::{PathCounters, Snapshot};
use std::collections::VecDeque;

/// Values that are kept of each series: as many as the widest terminal shows.
const VALUES_MAX: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) snapshot: Snapshot,
    /// Of each direction.
    pub(super) series: Vec<DirectionSeries>,
    pub(super) is_paused: bool,
    pub(super) has_ended: bool,
    /// The process has not answered for a while: it may be stopped.
    pub(super) is_silent: bool,
    /// The keys and figures are explained in place of the picture.
    pub(super) has_help: bool,
    /// Which of how many runs this is, from 1.
    pub(super) place: (usize, usize),
    /// Snapshots so far. The rates of the first are over the whole run.
    seen: u64,
}

/// What a direction has a curve of.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectionSeries {
    /// Bits per second of packets sent, or packets per second of a receiver.
    pub(super) rate: Series,
    /// Nanoseconds within which 99 of 100 packets left the discipline: the longest of all bands.
    pub(super) waited: Series,
}

/// Values over time, the newest first, and the highest that there was.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    pub(super) values: VecDeque<u64>,
    pub(super) peak: u64,
}

impl Series {
    fn add(&mut self, value: u64) {
        self.peak = self.peak.max(value);
        self.values.push_front(value);
        self.values.truncate(VALUES_MAX);
    }
}

impl State {
    /// Returns that of the run with this number among all.
    pub(super) fn at(place: (usize, usize)) -> Self {
        Self { place, ..Self::default() }
    }

    pub(super) fn add(&mut self, snapshot: Snapshot) {
        self.seen += 1;
        // Ports of a switch come and go: a curve goes with the name.
        let before = std::mem::take(&mut self.series);
        let of = |path: &PathCounters| self.snapshot.paths.iter().position(|one| one.path == path.path);
        let series = |path| of(path).and_then(|at| before.get(at).cloned()).unwrap_or_default();
        self.series = snapshot.paths.iter().map(series).collect();
        for (series, path) in self.series.iter_mut().zip(&snapshot.paths).filter(|_| self.seen > 1) {
            series.rate.add(rate(path) as u64);
            series.waited.add(path.recent_delay_ns_by_band.iter().map(|band| band.p99).max().unwrap_or(0));
        }
        self.snapshot = snapshot;
    }
}

/// Returns the rate that is drawn.
fn rate(path: &PathCounters) -> f64 {
    if path.to.is_some() { path.rates.sent_bps } else { path.rates.received_pps }
}
