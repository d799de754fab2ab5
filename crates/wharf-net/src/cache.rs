//! A sender's own memory of next hops.

use crate::hop::{Hop, NoHop};
use crate::plan::{EPOCH_BITS, Plan, Step};
use crate::query::Query;
use crate::state::Snapshot;
use crate::tables::Tables;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// As many destinations as a sender is likely to alternate between.
const QUERIES: usize = 256;
/// As many gateways as a table usually has.
const STEPS: usize = 1024;
/// As many lookups as a processor has under way, and more.
const AT_ONCE: usize = 16;

/// A query whose answer is kept.
#[derive(Debug)]
struct Kept {
    /// The state of the tables that the answer is of; 0: none.
    generation: u64,
    of: Query,
}

/// The constant query of an address family, and its plan.
#[derive(Debug)]
struct Common {
    /// Other queries differ from it in destination, flow and ports alone.
    constant: Query,
    plan: Plan,
    /// The number of this plan. Steps of other plans do not count.
    epoch: u64,
}

/// The next hops that a sender has looked up, each good until the tables change. In a burst to one
/// destination a lookup costs a compare. Destinations behind one gateway share its answer.
#[derive(Debug)]
pub struct Cache {
    tables: Tables,
    snapshot: Arc<Snapshot>,
    generation: u64,
    last: Query,
    /// The index of its answer.
    last_at: usize,
    /// It is like the constant query of its family.
    last_is_like: bool,
    queries: Box<[Kept]>,
    /// Kept steps, each with the epoch of its plan; 0 for an empty slot.
    steps: Box<[u64; STEPS]>,
    /// Of IPv4, and of IPv6.
    common: [Common; 2],
    epochs: u64,
    /// The last query that was like no constant one, and how many like it came in a row. The third makes it
    /// the constant one: a flow of which one or two come between others costs the steps nothing.
    other: Query,
    in_a_row: u32,
    /// The answers to queries, and behind them those of steps.
    answers: Box<[Result<Hop, NoHop>]>,
}

impl Cache {
    /// Makes a cache for one sender.
    pub fn new(tables: Tables) -> Self {
        let (nothing, snapshot) = (Query::to(Ipv4Addr::UNSPECIFIED.into()), tables.snapshot());
        let common = |constant| Common { plan: snapshot.plan(&constant), constant, epoch: 0 };
        let mut made = Self {
            tables,
            generation: 0,
            last: nothing,
            last_at: 0,
            last_is_like: true,
            queries: (0..QUERIES).map(|_| Kept { generation: 0, of: nothing }).collect(),
            steps: Box::new([0; STEPS]),
            common: [common(nothing), common(Query::to(Ipv6Addr::UNSPECIFIED.into()))],
            epochs: 0,
            other: nothing,
            in_a_row: 0,
            answers: (0..QUERIES + STEPS).map(|_| Err(NoHop::NoRoute)).collect(),
            snapshot,
        };
        made.renew();
        made
    }

    /// Returns where a packet has to go next.
    ///
    /// # Errors
    /// Why it cannot go anywhere.
    #[inline]
    pub fn lookup(&mut self, query: &Query) -> Result<&Hop, NoHop> {
        if self.generation != self.tables.generation() {
            self.renew();
        }
        let at = self.answer_of(query);
        self.answers[at].as_ref().map_err(|none| *none)
    }

    /// Looks up the queries of a burst, and calls `each` with the answers, in order. What several of them
    /// need of a large table is on its way from memory at a time.
    pub fn lookup_all(&mut self, queries: &[Query], mut each: impl FnMut(&Query, Result<&Hop, NoHop>)) {
        if self.generation != self.tables.generation() {
            self.renew();
        }
        for some in queries.chunks(AT_ONCE) {
            self.snapshot.touch([&self.common[0].plan, &self.common[1].plan], some);
            for query in some {
                let at = self.answer_of(query);
                each(query, self.answers[at].as_ref().map_err(|none| *none));
            }
        }
    }

    /// Returns the number of the tables' state: see [`Tables::generation`].
    #[inline]
    pub fn generation(&self) -> u64 {
        self.tables.generation()
    }

    /// Makes the query the last one. Returns the index of its answer.
    #[inline(always)]
    fn answer_of(&mut self, query: &Query) -> usize {
        match self.last.is_like(query) {
            true if self.last.goes_as(query) => {}
            true if self.last_is_like => self.go_elsewhere(query),
            _ => self.find(query),
        }
        self.last_at
    }

    /// Finds the answer to a query that is like the last and the constant one.
    #[inline(never)]
    fn go_elsewhere(&mut self, query: &Query) {
        match self.at_common(query) {
            Some(at) => {
                self.last.go_as(query);
                self.last_at = at;
            }
            None => self.find_own(query, true),
        }
    }

    /// Finds the answer to any query.
    #[inline(never)]
    fn find(&mut self, query: &Query) {
        let is_like = self.is_like(query);
        match if is_like { self.at_common(query) } else { None } {
            Some(at) => (self.last, self.last_at, self.last_is_like) = (*query, at, true),
            None => self.find_own(query, is_like),
        }
    }

    /// Finds the answer to a query that shares none so far.
    #[inline(never)]
    fn find_own(&mut self, query: &Query, is_like: bool) {
        self.last_at = self.at_query(query, is_like);
        (self.last, self.last_is_like) = (*query, self.is_like(query));
    }

    /// True if a query is like the constant one of its family.
    fn is_like(&self, query: &Query) -> bool {
        query.is_like(&self.common[usize::from(query.is_v6())].constant)
    }

    /// Takes the newest snapshot, and the last query's answer in it.
    #[cold]
    #[inline(never)]
    fn renew(&mut self) {
        self.snapshot = self.tables.snapshot();
        self.generation = self.snapshot.generation;
        self.plan_all();
        self.find(&self.last.clone());
    }

    fn plan_all(&mut self) {
        for family in [0, 1] {
            let constant = self.common[family].constant;
            let plan = self.snapshot.plan(&constant);
            self.adopt(constant, plan);
        }
    }

    /// Makes a query the constant one of its family.
    fn adopt(&mut self, constant: Query, plan: Plan) {
        self.epochs += 1;
        if self.epochs >> EPOCH_BITS != 0 {
            // A step of long ago must not be taken for one of now.
            (self.epochs, self.common[0].epoch, self.common[1].epoch) = (3, 1, 2);
            self.steps.fill(0);
        }
        self.common[usize::from(constant.is_v6())] = Common { constant, plan, epoch: self.epochs };
    }

    /// Returns the index of the answer that all destinations behind a gateway share, for a query like the
    /// constant one. `None` if they share none.
    #[inline(always)]
    fn at_common(&mut self, query: &Query) -> Option<usize> {
        let step = self.snapshot.step(&self.common[usize::from(query.is_v6())].plan, query)?;
        self.at_step(query, step)
    }

    #[inline(always)]
    fn at_step(&mut self, query: &Query, step: Step) -> Option<usize> {
        let key = step.key(self.common[usize::from(query.is_v6())].epoch);
        let at = step.hash() % STEPS;
        if self.steps[at] != key && !self.keep_step(query, step, key) {
            return None;
        }
        if let Ok(hop) = &mut self.answers[QUERIES + at] {
            hop.why.prefix_len = step.len();
        }
        Some(QUERIES + at)
    }

    /// Looks up the answer of a step, and keeps it for its route. Returns false if it is not for all
    /// destinations.
    #[cold]
    fn keep_step(&mut self, query: &Query, step: Step, key: u64) -> bool {
        let is_shared = self.snapshot.is_shared(step, query);
        if is_shared {
            let at = step.hash() % STEPS;
            self.answers[QUERIES + at] = self.snapshot.lookup(query);
            self.steps[at] = key;
        }
        is_shared
    }

    /// Returns the index of the answer to exactly this query, or of its step if it becomes the constant one.
    fn at_query(&mut self, query: &Query, is_like: bool) -> usize {
        let at = query.mixed() as usize % QUERIES;
        let generation = self.snapshot.generation;
        if self.queries[at].generation == generation && self.queries[at].of == *query {
            return at;
        }
        if !is_like && let Some(at) = self.at_new_constant(query) {
            return at;
        }
        self.answers[at] = self.snapshot.lookup(query);
        self.queries[at] = Kept { generation, of: *query };
        at
    }

    /// Makes a query the constant one, if it is the third of its like in a row and all destinations of its
    /// step share its answer.
    fn at_new_constant(&mut self, query: &Query) -> Option<usize> {
        self.in_a_row = if query.is_like(&self.other) { self.in_a_row.saturating_add(1) } else { 1 };
        self.other = *query;
        if self.in_a_row < 3 {
            return None;
        }
        let plan = self.snapshot.plan(query);
        let step = self.snapshot.step(&plan, query)?;
        if !self.snapshot.is_shared(step, query) {
            return None;
        }
        self.adopt(*query, plan);
        self.at_step(query, step)
    }
}

#[cfg(test)]
mod tests;
