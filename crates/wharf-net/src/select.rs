//! The choice within a table: the longest prefix with a route that can be used, and one of its next hops.

use crate::hop::{NoHop, Why};
use crate::kernel::{DSCP_IN_TOS_V4, FAILED, NEIGHBOUR_VALID, Object, Route, RouteHop, RouteKind};
use crate::lookup::Path;
use crate::prefixes::{Found, Key};
use crate::query::Query;
use crate::routes::Routes;
use crate::state::Snapshot;
use std::net::IpAddr;

/// Next hops share 31 bits of a hash by weight, as the kernel's do.
const HASHES: u64 = 1 << 31;
/// A group of more nexthop objects than this is used up to it.
const GROUP_MAX: usize = 64;
impl Snapshot {
    /// Returns what a table gives. `None`: the next rule is asked.
    pub(crate) fn in_table(&self, query: &Query, why: Why) -> Result<Option<Path>, NoHop> {
        match query.destination() {
            IpAddr::V4(to) => {
                self.in_prefixes(&self.v4, to.to_bits(), why, |routes| self.first_v4(routes, query))
            }
            IpAddr::V6(to) => {
                let key = to.to_bits();
                // A router that is known not to answer is taken only if there is no other way, and by no
                // router itself.
                let strict =
                    self.in_prefixes(&self.v6, key, why, |routes| self.best_v6(routes, query, true))?;
                if strict.is_some() {
                    return Ok(strict);
                }
                self.in_prefixes(&self.v6, key, why, |routes| self.best_v6(routes, query, false))
            }
        }
    }

    /// Goes from the longest prefix to shorter ones, until `choose` finds a route that can be used.
    fn in_prefixes<K: Key>(
        &self, routes: &Routes<K>, key: K, why: Why, choose: impl Fn(&[Route]) -> Choice,
    ) -> Result<Option<Path>, NoHop> {
        let Some(table) = routes.table(why.table) else { return Ok(None) };
        let mut next: Option<Found> = table.longest(key);
        while let Some(found) = next {
            match choose(routes.of(found))? {
                Some(Chosen::Throw) => return Ok(None),
                Some(Chosen::Path(mut path)) => {
                    path.why = Why { rule: why.rule, table: why.table, prefix_len: found.len(), ..path.why };
                    return Ok(Some(path));
                }
                None => next = table.shorter(key, found.len()),
            }
        }
        Ok(None)
    }

    /// IPv4 takes the first route that has a next hop (`fib_table_lookup`).
    fn first_v4(&self, routes: &[Route], query: &Query) -> Choice {
        let tos = query.tos & DSCP_IN_TOS_V4;
        for route in routes.iter().filter(|route| route.tos == 0 || route.tos == tos) {
            if let Some(chosen) = self.chosen(route, query, Family::V4)? {
                return Ok(Some(chosen));
            }
        }
        Ok(None)
    }

    /// IPv6 takes, of the routes with the least metric, the first of the best score; if none of them can be
    /// used, of all others (`find_rr_leaf`). An object that drops comes before all.
    fn best_v6(&self, routes: &[Route], query: &Query, is_strict: bool) -> Choice {
        let equals = routes.iter().take_while(|route| route.priority == routes[0].priority).count();
        let (equals, others) = routes.split_at(equals);
        for some in [equals, others] {
            if some.iter().any(|route| route.object != 0 && self.kind_of(route) == RouteKind::Blackhole) {
                return Err(NoHop::Blackhole);
            }
            let scored = some.iter().filter_map(|route| Some((route, self.score(route, query, is_strict)?)));
            let best = scored.reduce(|best, next| if next.1 > best.1 { next } else { best });
            if let Some((route, _)) = best {
                let chosen = self.chosen(route, query, Family::V6 { is_strict })?;
                if chosen.is_some() {
                    return Ok(chosen);
                }
            }
        }
        Ok(None)
    }

    /// `rt6_score_route`, for a socket that is bound to its interface: what routers say of themselves counts.
    fn score(&self, route: &Route, query: &Query, is_strict: bool) -> Option<u8> {
        let preference = match route.preference {
            1 => 2,
            3 => 0,
            _ => 1,
        };
        if is_error(self.kind_of(route)) {
            // It leads to the loopback interface. A VRF is no wish for an interface.
            return (query.output == 0 || self.is_vrf(query.output)).then_some(2 + preference * 4);
        }
        let usable = self
            .candidates(route)
            .filter(|hop| self.can_use(hop, query) && !(is_strict && self.is_lost(hop)));
        usable.map(|_| 2 + preference * 4).next()
    }

    /// Returns what a route gives. `None`: no next hop of it can be used.
    fn chosen(&self, route: &Route, query: &Query, family: Family) -> Choice {
        let kind = self.kind_of(route);
        match kind {
            RouteKind::Throw => return Ok(Some(Chosen::Throw)),
            RouteKind::Unreachable => return Err(NoHop::Unreachable),
            RouteKind::Prohibit => return Err(NoHop::Prohibited),
            RouteKind::Blackhole => return Err(NoHop::Blackhole),
            _ => {}
        }
        let hop = match (&route.object, route.hops.all()) {
            // IPv4's own addresses stay while their interface is down.
            (0, [hop]) if kind == RouteKind::Local => Some(*hop).filter(|hop| self.fits(hop, query)),
            (0, [hop]) => Some(*hop).filter(|hop| self.can_use(hop, query)),
            _ => self.pick(route, query, family),
        };
        let why =
            Why { protocol: route.protocol, metric: route.priority, object: route.object, ..Why::default() };
        Ok(hop.map(|hop| {
            let first = self.candidates(route).next().unwrap_or(hop).interface;
            // IPv6 chooses the source for the first of a group, whichever is taken.
            let is_of_first = family != Family::V4 && route.object != 0;
            let source_of = if is_of_first { first } else { hop.interface };
            Chosen::Path(Path {
                kind,
                scope: route.scope,
                metrics: route.metrics,
                hop,
                first,
                source_of,
                why,
            })
        }))
    }

    /// Returns the kind of a route. Of one with a nexthop object the object says whether it drops: a change
    /// of the object need not bring an event of the route (`nexthop_compat_mode`).
    fn kind_of(&self, route: &Route) -> RouteKind {
        let object = match self.objects.get(&route.object) {
            Some(_) if route.object == 0 => None,
            Some(Object::Group(ids)) if ids.len() == 1 => self.objects.get(&ids[0].0),
            object => object,
        };
        match (object, route.kind) {
            (Some(Object::Blackhole), _) => RouteKind::Blackhole,
            (Some(_), RouteKind::Blackhole) => RouteKind::Unicast,
            (_, kind) => kind,
        }
    }

    pub(crate) fn can_use(&self, hop: &RouteHop, query: &Query) -> bool {
        self.fits(hop, query) && self.is_alive(hop)
    }

    /// Returns true if a next hop leaves by the interface that is asked for.
    fn fits(&self, hop: &RouteHop, query: &Query) -> bool {
        query.output == 0 || query.output == hop.interface || self.is_vrf(query.output)
    }

    fn is_alive(&self, hop: &RouteHop) -> bool {
        self.links.get(&hop.interface).is_some_and(|link| link.is_up())
    }

    pub(crate) fn is_vrf(&self, interface: u32) -> bool {
        self.vrf_of(interface).is_some_and(|(vrf, _)| vrf == interface)
    }

    /// True for a gateway that is known not to answer, unless this host is a router.
    pub(crate) fn is_lost(&self, hop: &RouteHop) -> bool {
        !self.forwards_v6 && self.has_failed(hop)
    }

    fn has_failed(&self, hop: &RouteHop) -> bool {
        let neighbour = hop.gateway.and_then(|gateway| self.neighbours.get(&(hop.interface, gateway)));
        neighbour.is_some_and(|neighbour| neighbour.state & FAILED != 0)
    }

    /// Yields the next hops of a route that are alive.
    fn candidates<'a>(&'a self, route: &'a Route) -> impl Iterator<Item = RouteHop> + 'a {
        let (ids, hops): (&[(u32, u16)], &[RouteHop]) = match self.objects.get(&route.object) {
            _ if route.object == 0 => (&[], route.hops.all()),
            Some(Object::Group(ids)) => (ids, &[]),
            Some(Object::Hop(hop)) => (&[], std::slice::from_ref(hop)),
            Some(Object::Blackhole) | None => (&[], &[]),
        };
        let of_group = ids.iter().filter_map(|(id, weight)| match self.objects.get(id) {
            Some(Object::Hop(hop)) => Some(RouteHop { weight: *weight, ..*hop }),
            _ => None,
        });
        of_group.chain(hops.iter().copied()).filter(|hop| self.is_alive(hop))
    }

    /// `nexthop_is_good_nh`: no neighbour yet is good, too.
    fn is_good(&self, hop: &RouteHop) -> bool {
        let neighbour = hop.gateway.and_then(|gateway| self.neighbours.get(&(hop.interface, gateway)));
        neighbour.is_none_or(|neighbour| neighbour.state & NEIGHBOUR_VALID != 0)
    }

    /// Picks one of several next hops by the flow's hash, by weight; with the source's own interface before
    /// others (Linux 6.16). IPv4 takes the first by the interface that is asked for; IPv6's hash is over all,
    /// and decides in a group whatever that interface is.
    fn pick(&self, route: &Route, query: &Query, family: Family) -> Option<RouteHop> {
        let fits = |hop: &RouteHop| self.fits(hop, query);
        let is_v4 = family == Family::V4;
        let hops = || self.candidates(route).take(GROUP_MAX).filter(|hop| !is_v4 || fits(hop));
        if is_v4 && query.output != 0 && !self.is_vrf(query.output) {
            return hops().next();
        }
        let total: u64 = hops().map(|hop| u64::from(hop.weight)).sum();
        let (hash, mut sum) = (u64::from(query.path_hash()), 0);
        let mut by_hash = hops().filter(|hop| {
            sum += u64::from(hop.weight);
            hash < (sum * HASHES + total / 2) / total
        });
        if route.object != 0 {
            return by_hash
                .find(|hop| self.is_good(hop))
                .or_else(|| hops().find(|hop| self.is_good(hop)).or_else(|| hops().next()));
        }
        let first = by_hash.next();
        if let Family::V6 { is_strict } = family {
            // `fib6_select_path`: the first that can be used stands for one that is lost, or does not fit.
            let is_well = |hop: &RouteHop| fits(hop) && !(is_strict && self.is_lost(hop));
            return first.filter(is_well).or_else(|| hops().find(is_well));
        }
        let owns =
            |hop: &RouteHop| query.source().is_some_and(|source| self.source_of(hop, route) == Some(source));
        if query.source().is_none() || query.input != 0 || first.is_some_and(|first| owns(&first)) {
            return first;
        }
        by_hash.find(owns).or_else(|| hops().find(owns)).or(first)
    }

    /// The source that IPv4 chooses for a next hop.
    fn source_of(&self, hop: &RouteHop, route: &Route) -> Option<IpAddr> {
        let gateway = hop.gateway.filter(IpAddr::is_ipv4);
        self.address_v4(hop.interface, gateway, route.scope)
    }
}

/// What a prefix gives; `None`: nothing that can be used.
type Choice = Result<Option<Chosen>, NoHop>;

/// What a family regards as it chooses among the next hops of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    /// `is_strict`: gateways that are known not to answer are avoided (`RT6_LOOKUP_F_REACHABLE`).
    V6 {
        is_strict: bool,
    },
}

enum Chosen {
    Path(Path),
    Throw,
}

fn is_error(kind: RouteKind) -> bool {
    matches!(kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit | RouteKind::Throw)
}
