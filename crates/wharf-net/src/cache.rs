//! A sender's own memory of next hops.

use crate::hop::{Hop, NoHop};
use crate::plan::{AT_ONCE, EPOCH_BITS, Plan, Step};
use crate::query::Query;
use crate::state::Snapshot;
use crate::tables::Tables;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// As many destinations as a sender is likely to alternate between.
const QUERIES: usize = 256;
/// As many gateways as a table usually has.
const STEPS: usize = 1024;

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
    last: Kept,
    last_at: usize,
    queries: Box<[Kept]>,
    /// Kept steps, each with the epoch of its plan; 0 for an empty slot.
    steps: Box<[u64]>,
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
        let nothing = Query::to(Ipv4Addr::UNSPECIFIED.into());
        let common = |constant| Common { constant, plan: Plan::default(), epoch: 0 };
        let mut made = Self {
            snapshot: tables.snapshot(),
            tables,
            last: Kept { generation: 0, of: nothing },
            last_at: 0,
            queries: (0..QUERIES).map(|_| Kept { generation: 0, of: nothing }).collect(),
            steps: (0..STEPS).map(|_| 0).collect(),
            common: [common(nothing), common(Query::to(Ipv6Addr::UNSPECIFIED.into()))],
            epochs: 0,
            other: nothing,
            in_a_row: 0,
            answers: (0..QUERIES + STEPS).map(|_| Err(NoHop::NoRoute)).collect(),
        };
        made.plan_all();
        made
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
        self.renew();
        // The answer to the last query may have to make room.
        self.last.generation = 0;
        let families = queries.chunk_by(|one, other| one.is_v6() == other.is_v6());
        for some in families.flat_map(|of_family| of_family.chunks(AT_ONCE)) {
            let Common { plan, epoch, .. } = &self.common[usize::from(some[0].is_v6())];
            let (steps, epoch) = (self.snapshot.steps(plan, some), *epoch);
            for (query, step) in some.iter().zip(steps) {
                let common = &self.common[usize::from(query.is_v6())];
                let is_like = query.is_like(&common.constant);
                let at = match is_like && common.epoch == epoch {
                    true => step.and_then(|step| self.at_step(query, step)),
                    false if is_like => self.at_common(query),
                    false => None,
                };
                let at = at.unwrap_or_else(|| self.at_query(query, is_like));
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
        self.renew();
        self.last = Kept { generation: self.snapshot.generation, of: *query };
        let is_like = query.is_like(&self.common[usize::from(query.is_v6())].constant);
        let shared = if is_like { self.at_common(query) } else { None };
        self.last_at = shared.unwrap_or_else(|| self.at_query(query, is_like));
    }

    /// Takes the newest snapshot.
    #[inline(always)]
    fn renew(&mut self) {
        if self.snapshot.generation != self.tables.generation() {
            self.snapshot = self.tables.snapshot();
            self.plan_all();
        }
    }

    #[cold]
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
        (self.steps[at] == key || self.keep_step(query, step, key)).then_some(QUERIES + at)
    }

    /// Looks up the answer of a step, and keeps it. Returns false if it is not for all destinations.
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
