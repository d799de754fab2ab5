//! The result of a run on the host, and its rows.

use super::metrics::{
    DEQUEUE_TIME, DROP_SHARE, Dedicated, FOR_OTHERS, JAIN_DRAINED, JAIN_SENDERS, LONGEST_RUN, MPPS,
    OwnerPolicy, percent_ppm,
};
use super::paths::Seen;
use super::processor::Task;
use crate::comparators::histogram::Histogram;
use crate::comparators::run_log::{RunLog, RunLogs};
use crate::experiment::row::{jain_ppm, scaled};
use crate::experiment::{Row, RowKind};

/// One run.
pub(super) struct Point {
    pub(super) discipline: &'static str,
    pub(super) policy: OwnerPolicy,
    pub(super) threads: u32,
    pub(super) on_wire: bool,
}

impl Point {
    pub(super) fn label(&self) -> String {
        format!("{}/{}/threads={}", self.discipline, self.policy.name(), self.threads)
    }
}

/// The counts of one thread.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    sent: u64,
    dropped: u64,
    drained: u64,
    for_others: u64,
    dequeue_ns: u64,
    processor_ns: Option<u64>,
}

impl Counts {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            dropped: self.dropped.saturating_sub(before.dropped),
            drained: self.drained.saturating_sub(before.drained),
            for_others: self.for_others.saturating_sub(before.for_others),
            dequeue_ns: self.dequeue_ns.saturating_sub(before.dequeue_ns),
            processor_ns: self
                .processor_ns
                .zip(before.processor_ns)
                .map(|(ns, before)| ns.saturating_sub(before)),
        }
    }
}

pub(super) fn counts(seen: &[Seen], tasks: &[Task], logs: &RunLogs) -> Vec<Counts> {
    let one = |((seen, task), log): ((&Seen, &Task), &RunLog)| {
        let [sent, dropped, drained] = seen();
        let (for_others, dequeue_ns) = (log.for_others.get(), log.time_ns.sum());
        Counts { sent, dropped, drained, for_others, dequeue_ns, processor_ns: task.processor_ns() }
    };
    seen.iter().zip(tasks).zip(logs.logs()).map(one).collect()
}

/// Durations of each thread's runs of the queue, from the beginning on.
pub(super) struct Runs {
    by_thread: Vec<Histogram>,
    longest_packets: u64,
}

impl Runs {
    pub(super) fn of(logs: &RunLogs) -> Self {
        let copy = |log: &RunLog| {
            let copy = Histogram::default();
            copy.add(&log.time_ns);
            copy
        };
        let longest_packets = logs.logs().iter().map(|log| log.longest_packets.get()).max().unwrap_or(0);
        Self { by_thread: logs.logs().iter().map(copy).collect(), longest_packets }
    }

    fn rows(&self, row: impl Fn((&'static str, &'static str), u64) -> Row) -> Vec<Row> {
        let all = Histogram::default();
        self.by_thread.iter().for_each(|thread| all.add(thread));
        let each = |what, of: &dyn Fn(&Histogram) -> u64| {
            row(what, of(&all)).by_thread(self.by_thread.iter().map(|thread| of(thread) as f64).collect())
        };
        vec![
            each(("dequeue_runs", "runs"), &Histogram::count),
            each(("dequeue_run_p50", "ns"), &|runs| runs.at_permille(500)),
            each(("dequeue_run_p99", "ns"), &|runs| runs.at_permille(990)),
            each(("dequeue_run_p999", "ns"), &|runs| runs.at_permille(999)),
            each(("dequeue_run_max", "ns"), &Histogram::max),
            row(LONGEST_RUN, self.longest_packets),
        ]
    }
}

/// The result of a run.
pub(super) struct Measurement {
    pub(super) threads: Vec<Counts>,
    pub(super) ns: u64,
    pub(super) runs: Runs,
}

impl Measurement {
    pub(super) fn rows(&self, point: &Point, device: &str) -> Vec<Row> {
        let label = point.label();
        let sum = |what: fn(&Counts) -> u64| self.threads.iter().map(what).sum::<u64>();
        let (sent, dropped) = (sum(|thread| thread.sent), sum(|thread| thread.dropped));
        let per_s = scaled(sent, 1_000_000_000, self.ns);
        let row = |what, millionths| Row::new(&label, what, millionths, RowKind::Measured).by_device(device);
        let whole = |what, count: u64| row(what, (count as i64).saturating_mul(1_000_000));
        let packets = |what, of: fn(&Counts) -> u64| {
            whole(what, sum(of)).by_thread(self.threads.iter().map(|thread| of(thread) as f64).collect())
        };
        let percents = |what, ppm, of: &dyn Fn(&Counts) -> i64| {
            row(what, ppm).by_thread(self.threads.iter().map(|thread| of(thread) as f64 / 1e6).collect())
        };
        let time_ppm = percent_ppm(sum(|thread| thread.dequeue_ns), self.ns * self.threads.len() as u64);
        let jain = |what, of: fn(&Counts) -> u64| row(what, jain_ppm(self.threads.iter().map(of)));
        let mut rows = vec![
            row(MPPS, per_s),
            packets(("sent", "packets"), |thread| thread.sent),
            packets(("dropped", "packets"), |thread| thread.dropped),
            row(DROP_SHARE, percent_ppm(dropped, sent + dropped)),
            jain(JAIN_SENDERS, |thread| thread.sent),
            packets(("drained", "packets"), |thread| thread.drained),
            packets(("drained_for_others_packets", "packets"), |thread| thread.for_others),
            percents(DEQUEUE_TIME, time_ppm, &|thread| percent_ppm(thread.dequeue_ns, self.ns)),
        ];
        if self.threads.iter().all(|thread| thread.processor_ns.is_some()) {
            let processor_ns = |thread: &Counts| thread.processor_ns.unwrap_or(0);
            let time_ppm = percent_ppm(sum(processor_ns), self.ns * self.threads.len() as u64);
            rows.extend([
                percents(("processor_time", "percent of time"), time_ppm, &|thread| {
                    percent_ppm(processor_ns(thread), self.ns)
                }),
                jain(("jain_processor", "Jain's index"), processor_ns),
            ]);
        }
        if point.policy == Dedicated {
            // Senders drain nothing: there is no share to compare.
            return rows;
        }
        let for_others_ppm = percent_ppm(sum(|thread| thread.for_others), sum(|thread| thread.drained));
        rows.extend([
            jain(JAIN_DRAINED, |thread| thread.drained),
            percents(FOR_OTHERS, for_others_ppm, &|thread| percent_ppm(thread.for_others, thread.drained)),
        ]);
        rows.extend(self.runs.rows(whole));
        rows
    }
}
