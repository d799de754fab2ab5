//! What a sender's queries have in common: the tables that rules lead all of them to, and which answers they
//! share.

use crate::kernel::{Action, LOCAL, MAIN, Route, RouteHop, RouteKind};
use crate::layers::LAYERS_MAX;
use crate::prefixes::{Found, Key, Prefixes, VALUES_MAX};
use crate::query::Query;
use crate::routes::Routes;
use crate::state::Snapshot;
use std::hint::black_box;
use std::iter::successors;

/// The first addresses that are no host's, or of one link alone.
const APART_FROM_V4: u32 = 224 << 24;
const APART_FROM_V6: u128 = 0xfe80 << 112;
/// More tables than this are left to a lookup.
const STOPS_MAX: usize = 8;
/// A table of fewer prefixes is near in any case.
const NEAR_PREFIXES_MAX: usize = 100_000;
/// Low bits of a step, in which the cache keeps the epoch of its plan.
pub(crate) const EPOCH_BITS: u32 = 28;

/// A table that the rules lead to.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// Its number among the stops of both families.
    number: u32,
    /// Its index among the tables of the family.
    table: usize,
    /// Prefixes shorter than this are passed over (`suppress_prefixlength`).
    len_min: u8,
    /// The table `main`, while this one is `local` and one with it: a longer prefix there is before a
    /// shorter one here.
    main: Option<usize>,
    /// What is found is taken.
    is_plain: bool,
}

/// The tables that the rules lead to, for queries that differ in destination, flow and ports alone. It ends
/// at the first rule that matches on one of these. Valid for one snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    stops: Vec<Stop>,
    /// The first stop with a prefix for some of the addresses with a first byte.
    first: [u8; 256],
    has_exceptions: bool,
    /// A table that is far from a processor, by its size.
    large: Option<usize>,
}

/// The prefix that covers a query's destination, and its stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    found: Found,
    stop: u32,
}

impl Step {
    /// Returns the length of the prefix.
    #[inline(always)]
    pub(crate) fn len(self) -> u8 {
        self.found.len()
    }

    /// Returns the number of its route, its stop and the epoch of its plan, as the cache keeps them: never 0.
    #[inline(always)]
    pub(crate) fn key(self, epoch: u64) -> u64 {
        u64::from(self.found.number() % VALUES_MAX) << 32 | u64::from(self.stop) << EPOCH_BITS | epoch
    }

    #[inline(always)]
    pub(crate) fn hash(self) -> usize {
        (self.found.number() ^ self.stop << 6) as usize
    }
}

impl Snapshot {
    /// Returns the plan of all queries that are like this one.
    pub(crate) fn plan(&self, query: &Query) -> Plan {
        let is_v6 = query.is_v6();
        let vrf = self.vrf_of(query.output).or_else(|| self.vrf_of(query.input));
        let place = |id| if is_v6 { self.v6.place(id) } else { self.v4.place(id) };
        let (mut stops, mut from_priority) = (Vec::new(), 0);
        let rules = &self.rules[usize::from(is_v6)];
        for rule in rules.iter() {
            if rule.priority < from_priority {
                continue;
            }
            let by_packet = rule.to.is_some() || rule.ports.is_some() || rule.source_ports.is_some();
            if by_packet || stops.len() == STOPS_MAX {
                break;
            }
            if !rule.is_plain && !self.matches(rule, query, vrf) {
                continue;
            }
            match rule.action {
                _ if rule.is_unknown || rule.suppress_group.is_some() => break,
                Action::Table => {}
                Action::Goto(priority) if rules.iter().any(|rule| rule.priority == priority) => {
                    from_priority = priority;
                    continue;
                }
                Action::Goto(_) | Action::Nothing => continue,
                Action::Blackhole | Action::Unreachable | Action::Prohibit => break,
            }
            let id = if rule.is_of_vrf { vrf.map_or(0, |(_, table)| table) } else { rule.table };
            let Some(table) = place(id) else { continue };
            let is_one = id == LOCAL && self.is_one_table && !is_v6;
            let main = is_one.then(|| place(MAIN)).flatten();
            let len_min = rule.suppress_len.map_or(0, |len| len.saturating_add(1));
            let number = (stops.len() + if is_v6 { STOPS_MAX } else { 0 }) as u32;
            stops.push(Stop { number, table, len_min, main, is_plain: len_min == 0 && main.is_none() });
        }
        let has_exceptions = query.input == 0 && !self.exceptions[usize::from(is_v6)].is_empty();
        let tables = stops.iter().map(|stop| stop.table);
        let large = tables.max_by_key(|table| self.prefixes(is_v6, *table));
        let large = large.filter(|table| self.prefixes(is_v6, *table) > NEAR_PREFIXES_MAX);
        let has_some = |stop: &Stop, byte| match is_v6 {
            false => self.v4.at(stop.table).has_some(byte),
            true => self.v6.at(stop.table).has_some(byte),
        };
        let first_of = |byte| stops.iter().position(|stop| has_some(stop, byte)).unwrap_or(stops.len());
        Plan { first: std::array::from_fn(|byte| first_of(byte) as u8), stops, has_exceptions, large }
    }

    fn prefixes(&self, is_v6: bool, table: usize) -> usize {
        if is_v6 { self.v6.at(table).count() } else { self.v4.at(table).count() }
    }

    /// Returns the prefix that covers the destination, by the plan. `None` for groups, broadcasts and
    /// link-local addresses, and for a destination with an MTU exception.
    #[inline(always)]
    pub(crate) fn step(&self, plan: &Plan, query: &Query) -> Option<Step> {
        let to = query.number();
        let is_taught = |v6: usize| self.exceptions[v6].contains_key(&query.destination());
        match query.is_v6() {
            false if to as u32 >= APART_FROM_V4 || plan.has_exceptions && is_taught(0) => None,
            false => step_of(&self.v4, plan, to as u32),
            true if to >= APART_FROM_V6 || plan.has_exceptions && is_taught(1) => None,
            true => step_of(&self.v6, plan, to),
        }
    }

    /// Reads what the lookups of these queries will read of large tables: without a branch on it, so that a
    /// processor has all of it under way at a time. The plans are IPv4's and IPv6's.
    #[inline(always)]
    pub(crate) fn touch(&self, plans: [&Plan; 2], queries: &[Query]) {
        let v4 = plans[0].large.map(|table| self.v4.at(table));
        let v6 = plans[1].large.map(|table| self.v6.at(table));
        if v4.is_none() && v6.is_none() {
            return;
        }
        let touched = queries.iter().map(|query| match query.is_v6() {
            false => v4.map_or(0, |table| table.touch(query.number() as u32)),
            true => v6.map_or(0, |table| table.touch(query.number())),
        });
        black_box(touched.fold(0, |sum, words| sum ^ words));
    }

    /// True for a prefix of the table `local` while it is one with `main`, which has a longer one.
    #[inline]
    pub(crate) fn is_behind_main(&self, table: u32, prefix_len: u8, query: &Query) -> bool {
        let may_be = table == LOCAL && prefix_len < 32 && self.is_one_table && !query.is_v6();
        let longest = || self.v4.table(MAIN)?.longest(query.number() as u32);
        may_be && longest().is_some_and(|found| found.len() > prefix_len)
    }

    /// Returns true if every destination of this step's route has the same answer but for the prefix's
    /// length: by one gateway, with a source that does not depend on the destination, and by one way below
    /// the interface.
    pub(crate) fn is_shared(&self, step: Step, query: &Query) -> bool {
        let is_v6 = query.is_v6();
        let routes = if is_v6 { self.v6.of(step.found) } else { self.v4.of(step.found) };
        let [route] = routes else { return false };
        // A route out of a VRF has another source than the one that it says.
        let says_source = route.metrics.source.is_some() && query.output == 0;
        let has_source = !is_v6 || query.source().is_some() || says_source;
        let is_plain = route.kind == RouteKind::Unicast && route.object == 0 && route.tos == 0;
        // Instead of a router that does not answer, each prefix has another way.
        let leads = |hop: &RouteHop| {
            let is_lost = is_v6 && self.is_lost(hop);
            hop.gateway.is_some()
                && self.can_use(hop, query)
                && !is_lost
                && !self.is_own_gateway(hop)
                && !hop.is_encapsulated
        };
        let by_gateway = matches!(route.hops.all(), [hop] if leads(hop));
        has_source && is_plain && by_gateway && !self.spreads(route.hops.all()[0].interface, LAYERS_MAX)
    }
}

/// Searches the tables up to the first that has a prefix.
#[inline(always)]
fn step_of<K: Key>(routes: &Routes<K>, plan: &Plan, key: K) -> Option<Step> {
    for stop in plan.stops.get(usize::from(plan.first[key.byte(K::BITS - 8)])..)? {
        let Some(found) = routes.at(stop.table).longest(key) else { continue };
        if stop.is_plain || is_taken(routes, stop, key, found)? {
            return Some(Step { found, stop: stop.number });
        }
    }
    None
}

/// True if a lookup takes a prefix that was found in a stop; false if it goes on with the next stop.
/// `None`: that is not known here.
#[cold]
#[inline(never)]
fn is_taken<K: Key>(routes: &Routes<K>, stop: &Stop, key: K, found: Found) -> Option<bool> {
    if found.len() < stop.len_min {
        return are_passed_over(routes, routes.at(stop.table), key, found).then_some(false);
    }
    let is_longer = |main: usize| routes.at(main).longest(key).is_some_and(|it| it.len() > found.len());
    Some(found.len() == K::BITS || !stop.main.is_some_and(is_longer))
}

/// True if a lookup passes over a prefix and all shorter ones that cover `key`: it goes on from one that
/// cannot be used to the next, and an error route ends it.
fn are_passed_over<K: Key>(routes: &Routes<K>, table: &Prefixes<K>, key: K, found: Found) -> bool {
    let all = successors(Some(found), |found| table.shorter(key, found.len()));
    let is_plain = |route: &Route| route.kind == RouteKind::Unicast && route.object == 0;
    all.flat_map(|found| routes.of(found)).all(is_plain)
}
