//! SenderSlots for senders: whose lane is where, and what each has done.

use super::QueueError;
use crate::counters::SenderCounters;
use std::sync::Arc;
use wharf_mem::frame::SENDERS_MAX;

/// Senders whose counters are kept by themselves, at least: those that live, and the last ones that are gone.
const KEPT: usize = 1024;

#[derive(Debug)]
pub(super) struct SenderSlots {
    free: Vec<usize>,
    used: usize,
    /// In order of their making.
    counters: Vec<Arc<SenderCounters>>,
    /// How many there may be before those of senders that are gone are added up.
    most: usize,
    past: SenderCounters,
}

impl Default for SenderSlots {
    fn default() -> Self {
        Self { free: Vec::new(), used: 0, counters: Vec::new(), most: KEPT, past: SenderCounters::default() }
    }
}

impl SenderSlots {
    /// A place for a new sender.
    pub(super) fn take(&mut self) -> Result<usize, QueueError> {
        match self.free.pop() {
            Some(at) => Ok(at),
            None if self.used == usize::from(SENDERS_MAX) => Err(QueueError::Senders),
            None => {
                self.used += 1;
                Ok(self.used - 1)
            }
        }
    }

    /// Keeps what a new sender does.
    pub(super) fn keep(&mut self, counters: &Arc<SenderCounters>) {
        if self.counters.len() >= self.most {
            self.add_up();
        }
        self.counters.push(counters.clone());
    }

    pub(super) fn give_back(&mut self, at: usize) {
        self.free.push(at);
    }

    pub(super) fn counters(&self) -> &[Arc<SenderCounters>] {
        &self.counters
    }

    /// The sum of those that are no longer kept by themselves.
    pub(super) fn past(&self) -> SenderCounters {
        let past = SenderCounters::default();
        past.add(&self.past);
        past
    }

    /// A queue that senders come to and leave for years must not remember each of them.
    #[cold]
    fn add_up(&mut self) {
        let Self { counters, past, .. } = self;
        // Nobody else has them: neither a sender nor somebody who looks.
        counters.retain(|one| {
            let is_gone = Arc::strong_count(one) == 1;
            if is_gone {
                past.add(one);
            }
            !is_gone
        });
        self.most = KEPT.max(2 * self.counters.len());
    }
}
