//! Samples of a run: a bounded number of them, of any length of run.

use crate::watch::{Board, PathCounters, Snapshot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wharf_tools::traffic::Latency;

/// Time between two samples at first.
const EVERY: Duration = Duration::from_millis(100);
/// Most samples. Once there are so many, every other one goes, and the time between two doubles.
const SAMPLES_MAX: usize = 10_000;

/// The parts of the packets whose delays are drawn.
const SHARES: [f64; 23] = [
    0.0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85,
    0.9, 0.95, 0.99, 1.0,
];

/// The counters of one direction, from the beginning of the run on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reading {
    /// The name of its lines.
    pub(super) name: String,
    /// Packets sent, or received.
    pub(super) packets: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Packets that wait in the discipline, and those in the device.
    pub(super) waiting: Option<[u64; 2]>,
    /// The byte queue limit, if there is one.
    pub(super) limit_bytes: Option<u64>,
    /// Drops by reason.
    pub(super) drops: BTreeMap<String, u64>,
    /// The 99th percentile of the time that packets waited in the discipline since the sample before, by band.
    pub(super) delay_p99_ns: Vec<(u8, u64)>,
}

impl Reading {
    /// Returns what `path` has counted, under `name` or that of its end.
    fn of(path: &PathCounters, name: Option<&str>) -> Self {
        let end = || format!("to {}", path.to.as_deref().unwrap_or_default());
        let (sends, limit) = (!path.queues.is_empty(), path.counts.limit_bytes);
        Self {
            name: name.map_or_else(end, str::to_string),
            packets: if sends { path.counts.sent } else { path.received_packets },
            bytes: if sends { path.counts.sent_bytes } else { path.received_bytes },
            waiting: sends.then_some([path.backlog_packets, path.device_packets]),
            limit_bytes: (limit > 0).then_some(limit),
            drops: path.drops.clone(),
            delay_p99_ns: path.recent_delay_ns_by_band.iter().map(|delay| (delay.band, delay.p99)).collect(),
        }
    }
}

/// A sample of all directions.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Seconds since the run began.
    pub(super) at: f64,
    pub(super) readings: Vec<Reading>,
}

/// The samples of a run, or of several one after the other.
#[derive(Debug, Default)]
pub(super) struct Samples {
    runs: Vec<Run>,
    /// Delays of whole runs.
    pub(super) spreads: Vec<Spread>,
}

/// The delays of the packets of a run.
#[derive(Debug)]
pub(super) struct Spread {
    /// The name of its line.
    pub(super) name: String,
    /// Parts of the packets, and the delay that they had at most.
    pub(super) quantiles_ns: Vec<(f64, u64)>,
}

#[derive(Debug)]
struct Run {
    name: Option<String>,
    /// The last one.
    before: Option<Snapshot>,
    began: Instant,
    every: Duration,
    next: Duration,
    samples: Vec<Sample>,
}

impl Samples {
    pub(super) fn begin(&mut self, name: Option<&str>) {
        let (name, before, began) = (name.map(str::to_string), None, Instant::now());
        self.runs.push(Run { name, before, began, every: EVERY, next: EVERY, samples: Vec::new() });
    }

    /// Takes a sample of the present run if one is due.
    pub(super) fn look(&mut self, board: &Board) {
        if let Some(run) = self.runs.last_mut().filter(|run| run.began.elapsed() >= run.next) {
            run.read(board);
        }
    }

    /// Takes a sample of the present run.
    pub(super) fn take(&mut self, board: &Board) {
        if let Some(run) = self.runs.last_mut() {
            run.read(board);
        }
    }

    /// Adds the delays of a run, unless it has none.
    pub(super) fn add_spread(&mut self, name: &str, delay: &Latency) {
        if delay.packets() > 0 {
            let mut delay = delay.clone();
            let quantiles_ns = SHARES.iter().map(|&share| (share, delay.quantile_ns(share))).collect();
            self.spreads.push(Spread { name: name.into(), quantiles_ns });
        }
    }

    /// Returns the samples of each run.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[Sample]> {
        self.runs.iter().map(|run| &run.samples[..])
    }

    #[cfg(test)]
    pub(super) fn add_for_test(&mut self, at: f64, readings: Vec<Reading>) {
        self.runs.last_mut().unwrap().add(Duration::from_secs_f64(at), readings);
    }

    /// True if no line can be drawn.
    pub(super) fn are_few(&self) -> bool {
        self.runs().all(|samples| samples.len() < 3)
    }
}

impl Run {
    fn read(&mut self, board: &Board) {
        let (at, now) = (self.began.elapsed(), board.snapshot().with_rates(self.before.as_ref()));
        let readings = now.paths.iter().map(|path| Reading::of(path, self.name.as_deref())).collect();
        self.before = Some(now);
        self.add(at, readings);
    }

    fn add(&mut self, at: Duration, readings: Vec<Reading>) {
        self.samples.push(Sample { at: at.as_secs_f64(), readings });
        if self.samples.len() >= SAMPLES_MAX {
            let mut number = 0;
            // The last of each pair stays: counts go on from it.
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.every *= 2;
        }
        self.next = at + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_a_bounded_number_of_samples_over_all_its_time() {
        let mut samples = Samples::default();
        samples.begin(None);
        let run = samples.runs.last_mut().unwrap();
        for tenth in 1..=25_000_u32 {
            let at = EVERY * tenth;
            if at >= run.next {
                run.add(at, vec![Reading { packets: tenth.into(), ..Reading::default() }]);
            }
        }
        assert_eq!(run.every, EVERY * 4, "halved twice");
        assert!((SAMPLES_MAX / 2..SAMPLES_MAX).contains(&run.samples.len()), "{}", run.samples.len());
        let (first, last) = (&run.samples[0], &run.samples[run.samples.len() - 1]);
        assert!(first.at < 1.0 && last.at > 2499.0, "{} to {}", first.at, last.at);
        assert!(run.samples.windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn a_sample_is_taken_only_when_due() {
        let (mut samples, board) = (Samples::default(), Board::new("send"));
        samples.look(&board);
        samples.begin(None);
        samples.look(&board);
        assert_eq!(samples.runs().map(<[Sample]>::len).collect::<Vec<_>>(), [0], "not due for 100 ms");
        samples.take(&board);
        assert_eq!(samples.runs().map(<[Sample]>::len).collect::<Vec<_>>(), [1]);
        assert!(samples.are_few());
    }
}
