//! A sender's own memory of next hops.

use crate::hop::{Hop, NoHop};
use crate::query::Query;
use crate::select::Step;
use crate::state::Snapshot;
use crate::tables::Tables;
use std::hint::black_box;
use std::sync::Arc;

/// As many destinations as a sender is likely to alternate between.
const QUERIES: usize = 256;
/// As many gateways as a table usually has.
const STEPS: usize = 1024;
/// As many lookups as a processor has under way, and more.
const AT_ONCE: usize = 16;

/// An answer, and what it is the answer to.
#[derive(Debug)]
struct Kept<Of> {
    /// The state of the tables that the answer is of; 0: none.
    generation: u64,
    of: Of,
}

/// The next hops that a sender has looked up, each good until the tables change. In a burst to one
/// destination a lookup costs a compare. Destinations behind one gateway share its answer.
#[derive(Debug)]
pub struct Cache {
    tables: Tables,
    snapshot: Arc<Snapshot>,
    last: Kept<Query>,
    last_at: usize,
    queries: Box<[Kept<Query>]>,
    steps: Box<[Kept<(Step, u64)>]>,
    /// A query that the steps are for: others differ from it in destination, flow and ports alone.
    constant: Query,
    /// The number of the constant query: steps of an earlier one are no good.
    constants: u64,
    /// The last query that was not like it. The next that is like this one makes it the constant: one that
    /// comes once, between others, costs the steps nothing.
    other: Query,
    /// The answers to queries, and behind them those of steps.
    answers: Box<[Result<Hop, NoHop>]>,
}

impl Cache {
    /// Makes a cache for one sender.
    pub fn new(tables: Tables) -> Self {
        let nothing = Query::to(std::net::Ipv4Addr::UNSPECIFIED.into());
        Self {
            snapshot: tables.snapshot(),
            tables,
            last: Kept { generation: 0, of: nothing },
            last_at: 0,
            queries: (0..QUERIES).map(|_| Kept { generation: 0, of: nothing }).collect(),
            steps: (0..STEPS).map(|_| Kept { generation: 0, of: (Step::default(), 0) }).collect(),
            constant: nothing,
            constants: 0,
            other: nothing,
            answers: (0..QUERIES + STEPS).map(|_| Err(NoHop::NoRoute)).collect(),
        }
    }

    /// Returns where a packet has to go next.
    ///
    /// # Errors
    /// Why it cannot go anywhere.
    #[inline]
    pub fn lookup(&mut self, query: &Query) -> Result<&Hop, NoHop> {
        if self.last.generation != self.tables.generation() || self.last.of != *query {
            self.find(query);
        }
        self.answers[self.last_at].as_ref().map_err(|none| *none)
    }

    /// Looks up the queries of a burst, and calls `each` with the answers, in order. What several of them
    /// need of a large table is on its way from memory at a time.
    pub fn lookup_all(&mut self, queries: &[Query], mut each: impl FnMut(&Query, Result<&Hop, NoHop>)) {
        let generation = self.renew();
        // The answer to the last query may have to make room.
        self.last.generation = 0;
        for some in queries.chunks(AT_ONCE) {
            let mut words: [(&[u32], &[u64]); AT_ONCE] = Default::default();
            words.iter_mut().zip(some).for_each(|(words, query)| *words = self.snapshot.words(query));
            // No branch depends on what is read here, so that the processor reads all of it at a time.
            black_box(words.iter().fold(0, |sum, (v4, v6)| sum ^ ends(v4) as u64 ^ ends(v6)));
            for query in some {
                let at = self.at(query, generation);
                each(query, self.answers[at].as_ref().map_err(|none| *none));
            }
        }
    }

    /// Returns the number of the tables' state: see [`Tables::generation`].
    #[inline]
    pub fn generation(&self) -> u64 {
        self.tables.generation()
    }

    /// Makes the query the last one, with an answer.
    fn find(&mut self, query: &Query) {
        let generation = self.renew();
        self.last = Kept { generation, of: *query };
        self.last_at = self.at(query, generation);
    }

    /// Takes the newest snapshot. Returns its number.
    fn renew(&mut self) -> u64 {
        if self.snapshot.generation != self.tables.generation() {
            self.snapshot = self.tables.snapshot();
        }
        self.snapshot.generation
    }

    /// Returns the place of the answer to a query.
    fn at(&mut self, query: &Query, generation: u64) -> usize {
        self.at_step(query, generation).unwrap_or_else(|| self.at_query(query, generation))
    }

    /// Returns the place of the answer that all destinations behind a gateway share. `None` if they do not.
    fn at_step(&mut self, query: &Query, generation: u64) -> Option<usize> {
        let step = self.snapshot.step(query)?;
        let at = step.hash() % STEPS;
        let kept = &self.steps[at];
        let is_kept = kept.generation == generation && kept.of == (step, self.constants);
        if is_kept && query.is_like(&self.constant) {
            return Some(QUERIES + at);
        }
        let is_like = query.is_like(&self.constant);
        let is_once = !is_like && !query.is_like(&self.other);
        self.other = if is_like { self.other } else { *query };
        if is_once || !self.snapshot.is_shared(&step, query) {
            return None;
        }
        if !is_like {
            (self.constant, self.constants) = (*query, self.constants + 1);
        }
        self.answers[QUERIES + at] = self.snapshot.lookup(query);
        self.steps[at] = Kept { generation, of: (step, self.constants) };
        Some(QUERIES + at)
    }

    /// Returns the place of the answer to exactly this query.
    fn at_query(&mut self, query: &Query, generation: u64) -> usize {
        let at = query.mixed() as usize % QUERIES;
        let kept = &mut self.queries[at];
        if kept.generation != generation || kept.of != *query {
            self.answers[at] = self.snapshot.lookup(query);
            *kept = Kept { generation, of: *query };
        }
        at
    }
}

/// Reads both ends of a row of words.
#[inline(always)]
fn ends<W: Copy + Default + std::ops::BitXor<Output = W>>(words: &[W]) -> W {
    words.first().copied().unwrap_or_default() ^ words.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
