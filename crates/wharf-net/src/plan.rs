//! What a sender's queries have in common: the tables that rules lead all of them to, and which answers they
//! share.

use crate::kernel::{Action, LOCAL, MAIN, Route, RouteHop, RouteKind};
use crate::layers::LAYERS_MAX;
use crate::prefixes::{Found, Key, Prefixes, Reached};
use crate::query::Query;
use crate::routes::Routes;
use crate::state::Snapshot;
use std::hint::black_box;
use std::iter::successors;

/// 224.0.0.0 and fe80::, the first addresses that are no host's, or of one link alone.
const APART_FROM: [u128; 2] = [224 << 24, 0xfe80 << 112];
/// More tables than this are left to a lookup.
const STOPS_MAX: usize = 8;
/// As many lookups as a processor has under way, and more.
pub(crate) const AT_ONCE: usize = 16;
/// Low bits of a step, in which the cache keeps the epoch of its plan.
pub(crate) const EPOCH_BITS: u32 = 28;

/// A table that the rules lead to.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// Its index among the tables of the family.
    table: usize,
    /// Prefixes shorter than this are passed over (`suppress_prefixlength`).
    len_min: u8,
    /// The table `main`, while this one is `local` and one with it: a longer prefix there is before a
    /// shorter one here.
    main: Option<usize>,
}

/// The tables that the rules lead to, for queries that differ in destination, flow and ports alone. It ends
/// at the first rule that matches on one of these. Valid for one snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    stops: Vec<Stop>,
    has_exceptions: bool,
}

/// The prefix that covers a query's destination, and its stop. Never 0; the low [`EPOCH_BITS`] bits are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(u64);

impl Step {
    fn new<K: Key>(found: Found, stop: usize) -> Self {
        let stop = stop + if K::IS_V4 { 0 } else { STOPS_MAX };
        Self(u64::from(found.number()) << 32 | (stop as u64) << EPOCH_BITS)
    }

    fn found(self) -> Found {
        Found::of((self.0 >> 32) as u32)
    }

    /// Returns the step with the epoch of its plan, as the cache keeps it.
    #[inline(always)]
    pub(crate) fn key(self, epoch: u64) -> u64 {
        self.0 | epoch
    }

    #[inline(always)]
    pub(crate) fn hash(self) -> usize {
        (self.0 >> 32 ^ self.0 >> EPOCH_BITS << 6) as usize
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
            stops.push(Stop {
                table,
                len_min: rule.suppress_len.map_or(0, |len| len.saturating_add(1)),
                main,
            });
        }
        let has_exceptions = query.input == 0 && !self.exceptions[usize::from(is_v6)].is_empty();
        Plan { stops, has_exceptions }
    }

    /// Returns the prefix that covers the destination, by the plan. `None` for groups, broadcasts and
    /// link-local addresses, and for a destination with an MTU exception.
    #[inline]
    pub(crate) fn step(&self, plan: &Plan, query: &Query) -> Option<Step> {
        let to = query.number();
        match query.is_v6() {
            _ if self.is_apart(plan, query) => None,
            false => steps_from(&self.v4, plan, to as u32, 0, None),
            true => steps_from(&self.v6, plan, to, 0, None),
        }
    }

    /// Returns the steps of up to [`AT_ONCE`] queries of one family.
    pub(crate) fn steps(&self, plan: &Plan, queries: &[Query]) -> [Option<Step>; AT_ONCE] {
        let mut steps = match queries {
            [first, ..] if first.is_v6() => steps_of(&self.v6, plan, queries, Query::number),
            _ => steps_of(&self.v4, plan, queries, |query| query.number() as u32),
        };
        let apart = steps.iter_mut().zip(queries).filter(|(_, query)| self.is_apart(plan, query));
        apart.for_each(|(step, _)| *step = None);
        steps
    }

    #[inline(always)]
    fn is_apart(&self, plan: &Plan, query: &Query) -> bool {
        let is_v6 = query.is_v6();
        let is_taught = || self.exceptions[usize::from(is_v6)].contains_key(&query.destination());
        query.number() >= APART_FROM[usize::from(is_v6)] || plan.has_exceptions && is_taught()
    }

    /// True for a prefix of the table `local` while it is one with `main`, which has a longer one.
    #[inline]
    pub(crate) fn is_behind_main(&self, table: u32, prefix_len: u8, query: &Query) -> bool {
        let may_be = table == LOCAL && prefix_len < 32 && self.is_one_table && !query.is_v6();
        let longest = || self.v4.table(MAIN)?.longest(query.number() as u32);
        may_be && longest().is_some_and(|found| found.len() > prefix_len)
    }

    /// Returns true if every destination of this step has the same answer: by one gateway, with a source
    /// that does not depend on the destination, and by one way below the interface.
    pub(crate) fn is_shared(&self, step: Step, query: &Query) -> bool {
        let is_v6 = query.is_v6();
        let routes = if is_v6 { self.v6.of(step.found()) } else { self.v4.of(step.found()) };
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

/// Searches the tables from stop `from` on, up to the first that has a prefix. `reached` is how far the
/// search of the first one is.
#[inline(always)]
fn steps_from<K: Key>(
    routes: &Routes<K>, plan: &Plan, key: K, from: usize, mut reached: Option<Reached<'_, K>>,
) -> Option<Step> {
    for (at, stop) in plan.stops.iter().enumerate().skip(from) {
        let table = routes.at(stop.table);
        let Some(reached) = reached.take().or_else(|| table.reach(key)) else { continue };
        let Some(found) = table.search(reached, key) else { continue };
        if found.len() < stop.len_min {
            if !are_passed_over(routes, table, key, found) {
                return None;
            }
            continue;
        }
        let is_longer = |main: usize| routes.at(main).longest(key).is_some_and(|it| it.len() > found.len());
        if found.len() < K::BITS && stop.main.is_some_and(is_longer) {
            continue;
        }
        return Some(Step::new::<K>(found, at));
    }
    None
}

/// True if a lookup passes over a prefix and all shorter ones that cover `key`: it goes on from one that
/// cannot be used to the next, and an error route ends it.
#[cold]
fn are_passed_over<K: Key>(routes: &Routes<K>, table: &Prefixes<K>, key: K, found: Found) -> bool {
    let all = successors(Some(found), |found| table.shorter(key, found.len()));
    let is_plain = |route: &Route| route.kind == RouteKind::Unicast && route.object == 0;
    all.flat_map(|found| routes.of(found)).all(is_plain)
}

/// Searches for many keys in stages, so that what each reads of memory is on its way at a time.
#[inline(always)]
fn steps_of<K: Key>(
    routes: &Routes<K>, plan: &Plan, queries: &[Query], key: impl Fn(&Query) -> K,
) -> [Option<Step>; AT_ONCE] {
    let mut reached = [(0, None); AT_ONCE];
    for (reached, query) in reached.iter_mut().zip(queries) {
        let first = |(at, stop): (usize, &Stop)| Some((at, Some(routes.at(stop.table).reach(key(query))?)));
        *reached = plan.stops.iter().enumerate().find_map(first).unwrap_or((STOPS_MAX, None));
    }
    // No branch depends on what is read here, so that the processor reads all of it at a time.
    let touched = reached.iter().filter_map(|(_, reached)| reached.as_ref().map(Reached::touch));
    black_box(touched.fold(0, |sum, word| sum ^ word));
    let mut steps = [None; AT_ONCE];
    for ((step, (at, reached)), query) in steps.iter_mut().zip(reached).zip(queries) {
        *step = steps_from(routes, plan, key(query), at, reached);
    }
    steps
}
