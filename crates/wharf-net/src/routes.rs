//! The routes of one family: tables of prefixes, and what stands behind them. As in the kernel (`fib_info`),
//! routes that say the same are kept once: a million prefixes usually have few next hops.

use crate::kernel::{Route, RouteMessage};
use crate::prefixes::{Found, Key, Prefixes, VALUES_MAX};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The routes of a prefix, in the order in which the kernel tries them.
type Entry = Arc<[Route]>;
const CHUNK: usize = 256;

/// What readers need of a family's routes. A clone shares everything.
#[derive(Clone, Debug)]
pub(crate) struct Routes<K: Key> {
    tables: Vec<(u32, Prefixes<K>)>,
    chunks: Vec<Arc<Vec<Entry>>>,
}

impl<K: Key> Default for Routes<K> {
    fn default() -> Self {
        Self { tables: Vec::new(), chunks: Vec::new() }
    }
}

impl<K: Key> Routes<K> {
    pub(crate) fn table(&self, id: u32) -> Option<&Prefixes<K>> {
        self.place(id).map(|place| self.at(place))
    }

    /// Returns the place of a table.
    pub(crate) fn place(&self, id: u32) -> Option<usize> {
        self.tables.iter().position(|(table, _)| *table == id)
    }

    /// Returns the table at a place.
    #[inline(always)]
    pub(crate) fn at(&self, place: usize) -> &Prefixes<K> {
        &self.tables[place].1
    }

    pub(crate) fn count(&self) -> usize {
        self.tables.iter().map(|(_, prefixes)| prefixes.count()).sum()
    }

    /// Returns the routes of a prefix that was found in a table.
    pub(crate) fn of(&self, found: Found) -> &[Route] {
        self.entry(found.value())
    }

    fn entry(&self, id: u32) -> &Entry {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    fn table_mut(&mut self, id: u32) -> &mut Prefixes<K> {
        let at = self.place(id).unwrap_or_else(|| {
            self.tables.push((id, Prefixes::default()));
            self.tables.len() - 1
        });
        &mut self.tables[at].1
    }
}

/// What a change came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Same,
    Changed,
    /// The message does not say what the kernel has now: only a dump does.
    Unsure,
}

/// How a route comes among others of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Behind all that it equals in order, as a dump lists them.
    Last,
    /// In the place of the one that it equals in order.
    Replace,
    /// As the only one of its order.
    Only,
}

/// The routes of a family with what changes them.
#[derive(Debug)]
pub(crate) struct Editor<K: Key> {
    pub(crate) routes: Routes<K>,
    ids: HashMap<Entry, u32>,
    uses: Vec<u32>,
    free: Vec<u32>,
}

impl<K: Key> Default for Editor<K> {
    fn default() -> Self {
        Self { routes: Routes::default(), ids: HashMap::new(), uses: Vec::new(), free: Vec::new() }
    }
}

impl<K: Key> Editor<K> {
    /// Makes lookups faster after a dump.
    pub(crate) fn compact(&mut self) {
        self.routes.tables.iter_mut().for_each(|(_, prefixes)| prefixes.compact());
    }

    /// True if a route names this source.
    pub(crate) fn has_source(&self, source: IpAddr) -> bool {
        self.ids.keys().flat_map(|entry| entry.iter()).any(|route| route.metrics.source == Some(source))
    }

    /// Takes a route in. `first` is the prefix's address.
    pub(crate) fn learn(&mut self, first: K, message: RouteMessage, placing: Placing) -> Outcome {
        let (table, len, route) = (message.table, message.len, message.route);
        let Some(old) = self.routes.table(table).and_then(|prefixes| prefixes.get(first, len)) else {
            return self.set(table, first, len, std::slice::from_ref(&route));
        };
        let before = self.routes.entry(old);
        let equals = before.iter().filter(|other| order(other) == order(&route)).count();
        if before.contains(&route) {
            return if equals == 1 || placing == Placing::Last { Outcome::Same } else { Outcome::Unsure };
        }
        let is_unsure = equals > usize::from(placing == Placing::Replace) && placing != Placing::Last;
        let mut routes = before.to_vec();
        if is_unsure && K::IS_V4 && placing == Placing::Only {
            // The others went without a word, or it was put in front of them: it is the first in any case.
            let at = routes.partition_point(|other| order(other) < order(&route));
            routes.insert(at, route);
            self.set(table, first, len, &routes);
            return Outcome::Unsure;
        }
        if is_unsure {
            return Outcome::Unsure;
        }
        if placing == Placing::Replace {
            routes.retain(|other| order(other) != order(&route));
        }
        let at = routes.partition_point(|other| order(other) <= order(&route));
        routes.insert(at, route);
        self.set(table, first, len, &routes)
    }

    /// Takes a route out.
    pub(crate) fn forget(&mut self, first: K, message: &RouteMessage) -> Outcome {
        let (table, len, route) = (message.table, message.len, &message.route);
        let Some(old) = self.routes.table(table).and_then(|prefixes| prefixes.get(first, len)) else {
            return Outcome::Same;
        };
        let before = self.routes.entry(old);
        let Some(at) = before.iter().position(|other| other == route) else {
            let is_there = before.iter().any(|other| order(other) == order(route));
            return if is_there { Outcome::Unsure } else { Outcome::Same };
        };
        let mut routes = before.to_vec();
        routes.remove(at);
        if !routes.is_empty() {
            return self.set(table, first, len, &routes);
        }
        let old = self.routes.table_mut(table).remove(first, len);
        self.release(old);
        Outcome::Changed
    }

    fn set(&mut self, table: u32, first: K, len: u8, routes: &[Route]) -> Outcome {
        let Some(id) = self.id_of(routes) else { return Outcome::Same };
        let old = self.routes.table_mut(table).insert(first, len, id);
        self.release(old);
        Outcome::Changed
    }

    /// Returns the number of an entry, and counts its use. `None` beyond 16 million different ones.
    fn id_of(&mut self, routes: &[Route]) -> Option<u32> {
        if let Some(id) = self.ids.get(routes) {
            self.uses[*id as usize] += 1;
            return Some(*id);
        }
        let entry: Entry = routes.into();
        let id = self.free.pop().unwrap_or(self.uses.len() as u32);
        if id + 1 >= VALUES_MAX {
            return None;
        }
        let (chunk, at) = (id as usize / CHUNK, id as usize % CHUNK);
        if chunk == self.routes.chunks.len() {
            self.routes.chunks.push(Arc::default());
        }
        let chunk = Arc::make_mut(&mut self.routes.chunks[chunk]);
        if at == chunk.len() {
            chunk.push(entry.clone());
            self.uses.push(1);
        } else {
            chunk[at] = entry.clone();
            self.uses[id as usize] = 1;
        }
        self.ids.insert(entry, id);
        Some(id)
    }

    fn release(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        self.uses[id as usize] -= 1;
        if self.uses[id as usize] == 0 {
            let entry = self.routes.entry(id).clone();
            self.ids.remove(&entry);
            self.free.push(id);
        }
    }
}

/// The kernel tries the most special service first, then the least metric.
fn order(route: &Route) -> (u8, u32) {
    (!route.tos, route.priority)
}
