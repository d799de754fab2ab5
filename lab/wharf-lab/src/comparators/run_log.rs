//! `RunLogs`: the runs of a queue by its senders, their durations, and the packets drained for others.

use super::histogram::Histogram;
use std::sync::Arc;
use wharf_core::counters::Tally;
use wharf_core::host::Clock;
use wharf_core::model::{ObservedRun, RunObserver};

/// The runs of one sender. Its thread writes; any thread reads.
#[derive(Debug, Default)]
pub struct RunLog {
    began_ns: Tally,
    /// Runs: each from the claim of the queue to its release, or to the offer to others.
    pub runs: Tally,
    /// Frames that the device took in them, from all senders.
    pub packets: Tally,
    /// Frames taken over from other senders.
    pub for_others: Tally,
    /// Frames of the longest run.
    pub longest_packets: Tally,
    /// Durations, in nanoseconds.
    pub time_ns: Histogram,
}

/// A log for each sender of a queue. Reads the clock twice per run.
#[derive(Debug)]
pub struct RunLogs {
    clock: Arc<dyn Clock>,
    logs: Box<[RunLog]>,
}

impl RunLogs {
    /// Creates logs for the senders at the places below `senders`, with `clock`, which should be exact.
    pub fn new(clock: Arc<dyn Clock>, senders: usize) -> Self {
        Self { clock, logs: (0..senders).map(|_| RunLog::default()).collect() }
    }

    /// Returns the logs, by the sender's place.
    pub fn logs(&self) -> &[RunLog] {
        &self.logs
    }
}

impl RunObserver for RunLogs {
    fn run_began(&self, place: u16) {
        if let Some(log) = self.logs.get(usize::from(place)) {
            log.began_ns.set(self.clock.now_ns());
        }
    }

    fn run_ended(&self, place: u16, run: &ObservedRun) {
        let Some(log) = self.logs.get(usize::from(place)) else { return };
        log.runs.add(1);
        log.packets.add(run.packets);
        log.for_others.add(run.for_others);
        log.longest_packets.set(log.longest_packets.get().max(run.longest_packets.into()));
        log.time_ns.record(self.clock.now_ns().saturating_sub(log.began_ns.get()));
    }
}
