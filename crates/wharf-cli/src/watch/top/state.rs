//! The contents of the view: the last snapshot, and the rates before it.

use crate::watch::snapshot::Snapshot;
use std::collections::VecDeque;

/// Rates that are kept for each direction: as many as the widest terminal shows.
const RATES_MAX: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) snapshot: Snapshot,
    /// Bits per second of each direction, the newest first: of packets sent, or packets per second of a receiver.
    pub(super) rates: Vec<VecDeque<u64>>,
    pub(super) is_paused: bool,
    pub(super) has_ended: bool,
    /// The process has not answered for a while: it may be stopped.
    pub(super) is_silent: bool,
    /// Snapshots so far. The rates of the first are over the whole run.
    seen: u64,
}

impl State {
    pub(super) fn add(&mut self, snapshot: Snapshot) {
        self.seen += 1;
        self.rates.resize(snapshot.paths.len(), VecDeque::new());
        for (rates, path) in self.rates.iter_mut().zip(&snapshot.paths).filter(|_| self.seen > 1) {
            let rate = if path.to.is_some() { path.rates.sent_bps } else { path.rates.received_pps };
            rates.push_front(rate as u64);
            rates.truncate(RATES_MAX);
        }
        self.snapshot = snapshot;
    }
}
