//! What came of a run on the host, and its rows.

use super::host::Point;
use super::paths::Seen;
use super::{
    DEQUEUE_TIME, DROP_SHARE, DROPPED, Dedicated, FOR_OTHERS, JAIN_DRAINED, JAIN_SENDERS, LONGEST_RUN, MPPS,
    RUN_P50, RUN_P99, Row, RowKind, SENT, jain_ppm, percent_ppm,
};
use std::sync::Arc;
use wharf_core::histogram::Histogram;

/// What one thread has done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    sent: u64,
    dropped: u64,
    drained: u64,
    for_others: u64,
    dequeue_ns: u64,
}

impl Counts {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            dropped: self.dropped.saturating_sub(before.dropped),
            drained: self.drained.saturating_sub(before.drained),
            for_others: self.for_others.saturating_sub(before.for_others),
            dequeue_ns: self.dequeue_ns.saturating_sub(before.dequeue_ns),
        }
    }
}

pub(super) fn counts<S: Seen>(seen: &[Arc<S>]) -> Vec<Counts> {
    let one = |seen: &Arc<S>| {
        let [sent, dropped, drained] = seen.counts();
        let (for_others, dequeue_ns) =
            seen.runs().map_or((0, 0), |log| (log.for_others.get(), log.time_ns.sum()));
        Counts { sent, dropped, drained, for_others, dequeue_ns }
    };
    seen.iter().map(one).collect()
}

/// What came of a run.
pub(super) struct Measured {
    pub(super) threads: Vec<Counts>,
    pub(super) ns: u64,
    /// How long runs lasted, from the beginning on.
    pub(super) runs: Histogram,
    pub(super) longest_packets: u64,
}

impl Measured {
    pub(super) fn rows(&self, point: &Point) -> Vec<Row> {
        let label = point.label();
        let sum = |what: fn(&Counts) -> u64| self.threads.iter().map(what).sum::<u64>();
        let (sent, dropped) = (sum(|thread| thread.sent), sum(|thread| thread.dropped));
        let per_s = (u128::from(sent) * 1_000_000_000 / u128::from(self.ns.max(1))) as i64;
        let row = |what, millionths| Row::new(&label, what, millionths, RowKind::Measured);
        let whole = |what, count: u64| row(what, (count as i64).saturating_mul(1_000_000));
        let each = |what: fn(&Counts) -> u64| self.threads.iter().map(|thread| what(thread) as f64).collect();
        let mut rows = vec![
            row(MPPS, per_s),
            whole(SENT, sent).by_thread(each(|thread| thread.sent)),
            whole(DROPPED, dropped).by_thread(each(|thread| thread.dropped)),
            row(DROP_SHARE, percent_ppm(dropped, sent + dropped)),
            row(JAIN_SENDERS, jain_ppm(self.threads.iter().map(|thread| thread.sent))),
        ];
        if point.policy == Dedicated {
            // Senders drain nothing: there is no share to compare.
            return rows;
        }
        let drained = sum(|thread| thread.drained);
        let share = |thread: &Counts| thread.dequeue_ns as f64 * 100.0 / self.ns.max(1) as f64;
        let time_ppm = percent_ppm(sum(|thread| thread.dequeue_ns), self.ns * self.threads.len() as u64);
        rows.extend([
            row(JAIN_DRAINED, jain_ppm(self.threads.iter().map(|thread| thread.drained))),
            row(FOR_OTHERS, percent_ppm(sum(|thread| thread.for_others), drained))
                .by_thread(each(|thread| thread.for_others)),
            row(DEQUEUE_TIME, time_ppm).by_thread(self.threads.iter().map(share).collect()),
            whole(RUN_P50, self.runs.at_permille(500)),
            whole(RUN_P99, self.runs.at_permille(990)),
            whole(LONGEST_RUN, self.longest_packets),
        ]);
        rows
    }
}
