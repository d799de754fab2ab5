//! A sender's own memory of next hops.

use crate::hop::{Hop, NoHop};
use crate::query::Query;
use crate::state::Snapshot;
use crate::tables::Tables;
use std::sync::Arc;

/// As many destinations as a sender is likely to alternate between.
const SLOTS: usize = 256;

#[derive(Debug)]
struct Slot {
    /// The state of the tables that the answer is of; 0: none.
    generation: u64,
    query: Query,
    answer: Result<Hop, NoHop>,
}

/// The next hops that a sender has looked up, each good until the tables change. In a burst to one
/// destination a lookup costs a compare.
#[derive(Debug)]
pub struct Cache {
    tables: Tables,
    snapshot: Arc<Snapshot>,
    slots: Box<[Slot]>,
    last: usize,
}

impl Cache {
    /// Makes a cache for one sender.
    pub fn new(tables: Tables) -> Self {
        let nothing = || Slot {
            generation: 0,
            query: Query::to(std::net::Ipv4Addr::UNSPECIFIED.into()),
            answer: Err(NoHop::NoRoute),
        };
        let slots = (0..SLOTS).map(|_| nothing()).collect();
        Self { snapshot: tables.snapshot(), tables, slots, last: 0 }
    }

    /// Returns where a packet has to go next.
    ///
    /// # Errors
    /// Why it cannot go anywhere.
    #[inline]
    pub fn look(&mut self, query: &Query) -> Result<&Hop, NoHop> {
        let generation = self.tables.generation();
        let last = &self.slots[self.last];
        if last.generation != generation || last.query != *query {
            self.find(query, generation);
        }
        self.slots[self.last].answer.as_ref().map_err(|none| *none)
    }

    /// Makes the slot of the query the last one, with an answer.
    #[cold]
    fn find(&mut self, query: &Query, generation: u64) {
        self.last = query.mixed() as usize % SLOTS;
        let slot = &mut self.slots[self.last];
        if slot.generation == generation && slot.query == *query {
            return;
        }
        if self.snapshot.generation != generation {
            self.snapshot = self.tables.snapshot();
        }
        *slot =
            Slot { generation: self.snapshot.generation, query: *query, answer: self.snapshot.look(query) };
    }
}
