//! `PairSignals`: the notifications of each queue pair, both ways.

use std::sync::atomic::{AtomicU64, Ordering};
use wharf_core::device::Signals;

/// See the module. By pair: those of the driver that were seen, and those sent to it.
#[derive(Debug)]
pub(super) struct PairSignals(Box<[[AtomicU64; 2]]>);

impl PairSignals {
    pub(super) fn new(pairs: u16) -> Self {
        Self((0..pairs).map(|_| Default::default()).collect())
    }

    /// Notes one of the driver's about virtqueue `index`.
    pub(super) fn came(&self, index: usize) {
        self.note(index, 0);
    }

    /// Notes one to the driver about virtqueue `index`.
    #[inline]
    pub(super) fn sent(&self, index: usize) {
        self.note(index, 1);
    }

    #[inline]
    fn note(&self, index: usize, way: usize) {
        if let Some(pair) = self.0.get(index / 2) {
            pair[way].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns those of each pair.
    pub(super) fn each(&self) -> impl Iterator<Item = Signals> {
        self.0.iter().map(|pair| {
            let [interrupts, kicks] = pair.each_ref().map(|count| count.load(Ordering::Relaxed));
            Signals { interrupts, kicks }
        })
    }
}
