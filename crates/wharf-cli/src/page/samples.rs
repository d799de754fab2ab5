//! Samples of a run: a bounded number of them, of any length of run.

use crate::queues::sum;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wharf::queue::TxQueue;

/// Time between two samples at first.
const EVERY: Duration = Duration::from_millis(100);
/// Most samples. Once there are so many, every other one goes, and the time between two doubles.
const SAMPLES_MAX: usize = 10_000;

/// The counters of one direction, from the beginning of the run on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reading {
    /// The name of its lines.
    pub(crate) name: String,
    /// Packets sent, or received.
    pub(crate) packets: u64,
    /// Their bytes; none if they are not known.
    pub(crate) bytes: Option<u64>,
    /// Packets that wait in the discipline, and those in the device.
    pub(crate) waiting: Option<[u64; 2]>,
    /// The byte queue limit, if there is one.
    pub(crate) limit_bytes: Option<u64>,
    /// Drops by reason.
    pub(crate) drops: BTreeMap<String, u64>,
    /// The 99th percentile of the time that packets waited in the discipline since the sample before, by band.
    pub(crate) delay_p99_ns: Vec<(&'static str, u64)>,
}

impl Reading {
    /// Returns what the queues of a device have counted, drops left out.
    pub(crate) fn of_queues(name: &str, queues: &[TxQueue], has_bql: bool) -> Self {
        let sum = |count: fn(&wharf::counters::QueueCounters) -> u64| sum(queues, count);
        // Later stages first: what moves on in between counts as inside.
        let (sent, failed) = (sum(|all| all.sent.get()), sum(|all| all.failed.get()));
        let (drops, returned) = (sum(|all| all.qdisc_drops.get()), sum(|all| all.returned.get()));
        let (packets, accepted) = (sum(|all| all.packets.get()), sum(|all| all.accepted.get()));
        let backlog = accepted.saturating_sub(packets + drops + returned);
        Self {
            name: name.into(),
            packets: sent,
            bytes: Some(sum(|all| all.bytes.get().saturating_sub(all.failed_bytes.get()))),
            waiting: Some([backlog, (packets + drops).saturating_sub(sent + failed)]),
            limit_bytes: has_bql.then(|| sum(|all| all.bql_limit_bytes.get())),
            ..Self::default()
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
}

#[derive(Debug)]
struct Run {
    began: Instant,
    every: Duration,
    next: Duration,
    samples: Vec<Sample>,
}

impl Samples {
    pub(super) fn begin(&mut self) {
        self.runs.push(Run { began: Instant::now(), every: EVERY, next: EVERY, samples: Vec::new() });
    }

    /// Takes a sample of the present run if one is due.
    pub(super) fn look(&mut self, read: impl FnOnce() -> Vec<Reading>) {
        let Some(run) = self.runs.last_mut() else { return };
        let at = run.began.elapsed();
        if at >= run.next {
            run.add(at, read());
        }
    }

    /// Takes a sample of the present run.
    pub(super) fn take(&mut self, read: impl FnOnce() -> Vec<Reading>) {
        if let Some(run) = self.runs.last_mut() {
            run.add(run.began.elapsed(), read());
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
        samples.begin();
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
        let mut samples = Samples::default();
        samples.look(|| panic!("no run has begun"));
        samples.begin();
        samples.look(|| panic!("not due for 100 ms"));
        samples.take(Vec::new);
        assert_eq!(samples.runs().map(<[Sample]>::len).collect::<Vec<_>>(), [1]);
        assert!(samples.are_few());
    }
}
