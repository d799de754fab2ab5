//! `SenderSlots`: places for the senders of a queue, and the counters of each.

use super::control::AUDIT_TRIES;
use super::{ControlMessage, OWNED_NAP_NS, QueueError, Shared};
use crate::counters::SenderCounters;
use std::collections::BTreeMap;
use std::sync::Arc;
use wharf_mem::frame::SENDERS_MAX;
use wharf_mem::word::READY_BITS;

/// Senders whose counters are kept one by one, at least: those that live and the last ones that are gone.
const KEPT: usize = 1024;

/// The name of those whose counters are added up.
const PAST: &str = "(past senders)";

#[derive(Debug)]
pub(crate) struct SenderSlots {
    free: Vec<usize>,
    used: usize,
    /// In order of creation.
    counters: Vec<Arc<SenderCounters>>,
    /// Length of `counters` from which those of senders that are gone are added up.
    most: usize,
    past: SenderCounters,
}

impl Default for SenderSlots {
    fn default() -> Self {
        Self { free: Vec::new(), used: 0, counters: Vec::new(), most: KEPT, past: SenderCounters::default() }
    }
}

impl SenderSlots {
    /// Takes a place for a new sender.
    pub(crate) fn take(&mut self) -> Result<usize, QueueError> {
        match self.free.pop() {
            Some(at) => Ok(at),
            None if self.used == usize::from(SENDERS_MAX) => Err(QueueError::Senders),
            None => {
                self.used += 1;
                Ok(self.used - 1)
            }
        }
    }

    /// Keeps the counters of a new sender.
    pub(crate) fn keep(&mut self, counters: &Arc<SenderCounters>) {
        if self.counters.len() >= self.most {
            self.add_up();
        }
        self.counters.push(counters.clone());
    }

    pub(crate) fn give_back(&mut self, at: usize) {
        self.free.push(at);
    }

    pub(crate) fn counters(&self) -> &[Arc<SenderCounters>] {
        &self.counters
    }

    /// Returns the sums of counters by name: the senders that [`SenderSlots::counters`] lists, and [`PAST`].
    pub(crate) fn by_name(&self) -> BTreeMap<String, SenderCounters> {
        let mut sums: BTreeMap<String, SenderCounters> = BTreeMap::new();
        for one in &self.counters {
            let sum = sums.entry(one.name().into()).or_default();
            sum.add(one);
            // A gauge: of living senders only.
            let is_living = Arc::strong_count(one) > 1;
            sum.small_queue_bytes.add(if is_living { one.small_queue_bytes.get() } else { 0 });
        }
        if self.past.packets.get() > 0 {
            sums.entry(PAST.into()).or_default().add(&self.past);
        }
        sums
    }

    /// Returns the sum of the counters of all senders that there are and were.
    pub(crate) fn totals(&self) -> SenderCounters {
        let totals = SenderCounters::default();
        totals.add(&self.past);
        self.counters.iter().for_each(|one| totals.add(one));
        totals
    }

    /// Adds the counters of all senders that there were to those of senders that are gone.
    pub(crate) fn absorb(&mut self, all: &SenderCounters) {
        self.past.add(all);
    }

    /// Adds up the counters of senders that are gone, so that a queue used for years stays bounded.
    #[cold]
    fn add_up(&mut self) {
        let Self { counters, past, .. } = self;
        // Neither a sender nor a reader holds them.
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

impl Shared {
    /// Takes a slot for a new sender. The owner gives back those of senders that are gone: it may be late.
    pub(crate) fn take_slot(&self) -> Result<usize, QueueError> {
        let mut taken = self.senders().take();
        for _ in 0..AUDIT_TRIES {
            if taken.is_ok() || self.living_senders() >= usize::from(SENDERS_MAX) {
                break;
            }
            // A message makes the owner look.
            self.control(ControlMessage::Apply(Box::new(|_| ())));
            self.setup.park.park(OWNED_NAP_NS);
            taken = self.senders().take();
        }
        taken.inspect(|&at| {
            if at >= READY_BITS as usize {
                self.cell.share_bits();
            }
        })
    }
}
