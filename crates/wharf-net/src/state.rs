//! All that the mirror knows, and how messages change it.

use crate::kernel::{
    Address, Fact, FdbEntry, IPV4, Link, Mac, Neighbour, NeighbourMessage, Object, RouteMessage, Rule,
    fact_of, says_of_links,
};
use crate::maps::{Map, Pieces};
use crate::routes::{Editor, Outcome, Placing, Routes};
use crate::wire::{APPEND, Message, REPLACE};
use std::net::IpAddr;
use std::sync::Arc;

/// Parts of the kernel's tables that are dumped by themselves, as bits of a set.
pub(crate) mod part {
    pub(crate) const LINKS: u16 = 1;
    pub(crate) const ADDRESSES: u16 = 2;
    pub(crate) const RULES: u16 = 4;
    pub(crate) const OBJECTS: u16 = 8;
    pub(crate) const ROUTES_V4: u16 = 16;
    pub(crate) const ROUTES_V6: u16 = 32;
    pub(crate) const NEIGHBOURS: u16 = 64;
    pub(crate) const FDB: u16 = 128;
    pub(crate) const EXCEPTIONS: u16 = 256;
    pub(crate) const ALL: u16 = 511;
    /// What the kernel changes without a word as an interface, an address or a nexthop object goes: routes
    /// (IPv4 says nothing of them), objects, and addresses.
    pub(crate) const SILENT: u16 = ADDRESSES | OBJECTS | ROUTES_V4 | ROUTES_V6;
}

/// What readers search. It never changes: a new one takes its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    /// IPv6 forwards what arrives.
    pub(crate) forwards_v6: bool,
    pub(crate) links: Arc<Map<u32, Arc<Link>>>,
    pub(crate) addresses: Arc<Map<u32, Vec<Address>>>,
    /// Of IPv4, and of IPv6.
    pub(crate) rules: [Arc<Vec<Rule>>; 2],
    /// IPv4's tables `local` and `main` are one: the kernel parts them with the first rule, for good.
    pub(crate) is_one_table: bool,
    pub(crate) objects: Arc<Map<u32, Object>>,
    pub(crate) neighbours: Pieces<(u32, IpAddr), Neighbour>,
    /// By bridge or VXLAN, and MAC.
    pub(crate) fdb: Pieces<(u32, Mac), FdbEntry>,
    /// MTUs of paths that are smaller than their route's, of IPv4, and of IPv6.
    pub(crate) exceptions: [Arc<Map<IpAddr, u32>>; 2],
    pub(crate) v4: Routes<u32>,
    pub(crate) v6: Routes<u128>,
}

/// The mirror's own copy.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) now: Snapshot,
    v4: Editor<u32>,
    v6: Editor<u128>,
}

impl State {
    /// Returns what readers get.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { v4: self.v4.routes.clone(), v6: self.v6.routes.clone(), ..self.now.clone() }
    }

    /// Returns the number of prefixes.
    pub(crate) fn prefixes(&self) -> usize {
        self.v4.routes.count() + self.v6.routes.count()
    }

    /// Takes a fact of a dump.
    pub(crate) fn fill(&mut self, fact: Fact) {
        let now = &mut self.now;
        match fact {
            Fact::Link(link) => drop(Arc::make_mut(&mut now.links).insert(link.index, Arc::new(link))),
            Fact::Address(link, address) => {
                Arc::make_mut(&mut now.addresses).entry(link).or_default().push(address)
            }
            Fact::Rule(v6, rule) => Arc::make_mut(&mut now.rules[usize::from(v6)]).push(rule),
            Fact::Route(route) => drop(self.learn_route(route, Placing::Last)),
            Fact::ForwardsV6(does) => now.forwards_v6 = does,
            Fact::Object(..) | Fact::Neighbour(_) => drop(self.learn(fact, Placing::Last)),
        }
    }

    /// Takes what was dumped of some parts from another state.
    pub(crate) fn adopt(&mut self, parts: u16, dumped: State) {
        let (now, new, has) = (&mut self.now, dumped.now, |part| parts & part != 0);
        let take = |part, to: &mut dyn FnMut()| {
            if has(part) {
                to()
            }
        };
        take(part::LINKS, &mut || {
            now.links.clone_from(&new.links);
            now.forwards_v6 = new.forwards_v6;
        });
        take(part::ADDRESSES, &mut || now.addresses.clone_from(&new.addresses));
        take(part::RULES, &mut || {
            now.rules.clone_from(&new.rules);
            now.is_one_table = new.is_one_table;
        });
        take(part::OBJECTS, &mut || now.objects.clone_from(&new.objects));
        take(part::NEIGHBOURS, &mut || now.neighbours.clone_from(&new.neighbours));
        take(part::FDB, &mut || now.fdb.clone_from(&new.fdb));
        take(part::EXCEPTIONS, &mut || now.exceptions.clone_from(&new.exceptions));
        if has(part::ROUTES_V4) {
            self.v4 = dumped.v4;
            self.v4.compact();
        }
        if has(part::ROUTES_V6) {
            self.v6 = dumped.v6;
            self.v6.compact();
        }
    }

    /// Takes an event. Returns what came of it, and the parts that a dump must bring.
    pub(crate) fn take(&mut self, message: &Message<'_>) -> (Outcome, u16) {
        let is_v4 = message.body.first() == Some(&IPV4);
        let placing = match message.flags {
            flags if flags & REPLACE != 0 => Placing::Replace,
            flags if flags & APPEND != 0 && is_v4 => Placing::Last,
            _ => Placing::Only,
        };
        match fact_of(message.kind, message.body) {
            Some(fact) if message.kind.is_multiple_of(4) => self.learn(fact, placing),
            Some(fact) => self.forget(fact),
            None if says_of_links(message.kind, message.body) => (Outcome::Same, part::LINKS),
            None => (Outcome::Same, 0),
        }
    }

    /// Takes the fact of an event: what is new. Returns what came of it, and the parts that a dump must
    /// bring.
    pub(crate) fn learn(&mut self, fact: Fact, placing: Placing) -> (Outcome, u16) {
        let now = &mut self.now;
        match fact {
            Fact::Link(link) => learn_link(now, link),
            Fact::ForwardsV6(does) => (changed(std::mem::replace(&mut now.forwards_v6, does) != does), 0),
            // Next hops of an interface are dead while it has no address of IPv4.
            Fact::Address(link, address) if address.local.is_ipv4() => {
                let has_one =
                    now.addresses.get(&link).is_some_and(|of| of.iter().any(|it| it.local.is_ipv4()));
                (Outcome::Unsure, part::ADDRESSES | if has_one { 0 } else { part::ROUTES_V4 })
            }
            Fact::Address(..) => (Outcome::Unsure, part::ADDRESSES),
            Fact::Rule(..) => (Outcome::Unsure, part::RULES),
            Fact::Object(id, object) => {
                let old = Arc::make_mut(&mut now.objects).insert(id, object.clone());
                (changed(old.as_ref() != Some(&object)), 0)
            }
            Fact::Neighbour(NeighbourMessage::Neighbour { interface, address, neighbour }) => {
                let old = now.neighbours.insert((interface, address), neighbour);
                (changed(old.is_none_or(|old| !old.means(&neighbour))), 0)
            }
            Fact::Neighbour(NeighbourMessage::Fdb { master, mac, entry }) => {
                (changed(now.fdb.insert((master, mac), entry) != Some(entry)), 0)
            }
            Fact::Route(route) => {
                let part = if route.to.is_ipv4() { part::ROUTES_V4 } else { part::ROUTES_V6 };
                let outcome = self.learn_route(route, placing);
                (outcome, if outcome == Outcome::Unsure { part } else { 0 })
            }
        }
    }

    fn learn_route(&mut self, route: RouteMessage, placing: Placing) -> Outcome {
        if route.is_exception {
            return self.learn_exception(&route);
        }
        match route.to {
            // A route for some sources is left out: see "Where it differs" of the README.
            _ if route.is_for_sources => Outcome::Same,
            IpAddr::V4(to) => self.v4.learn(to.to_bits(), route, placing),
            IpAddr::V6(to) => self.v6.learn(to.to_bits(), route, placing),
        }
    }

    fn learn_exception(&mut self, route: &RouteMessage) -> Outcome {
        let Some(mtu) = route.route.metrics.mtu_bytes else { return Outcome::Same };
        let of_family = &mut self.now.exceptions[usize::from(route.to.is_ipv6())];
        let old = Arc::make_mut(of_family).insert(route.to, mtu);
        changed(old != Some(mtu))
    }

    /// Takes the fact of an event: what is gone. Returns as `learn` does.
    pub(crate) fn forget(&mut self, fact: Fact) -> (Outcome, u16) {
        let now = &mut self.now;
        match fact {
            Fact::Link(link) => {
                Arc::make_mut(&mut now.links).remove(&link.index);
                (Outcome::Changed, part::SILENT)
            }
            // A kernel before 6.7 takes routes with that source out without a word.
            Fact::Address(_, address) if address.local.is_ipv4() => {
                (Outcome::Unsure, part::ADDRESSES | part::ROUTES_V4)
            }
            // IPv6's routes lose that source without a word.
            Fact::Address(_, address) => {
                let routes = if self.v6.has_source(address.local) { part::ROUTES_V6 } else { 0 };
                (Outcome::Unsure, part::ADDRESSES | routes)
            }
            Fact::Rule(..) => (Outcome::Unsure, part::RULES),
            Fact::ForwardsV6(_) => (Outcome::Same, 0),
            Fact::Object(id, _) => {
                Arc::make_mut(&mut now.objects).remove(&id);
                (Outcome::Changed, part::SILENT)
            }
            Fact::Neighbour(NeighbourMessage::Neighbour { interface, address, .. }) => {
                (changed(now.neighbours.remove(&(interface, address)).is_some()), 0)
            }
            Fact::Neighbour(NeighbourMessage::Fdb { master, mac, .. }) => {
                (changed(now.fdb.remove(&(master, mac)).is_some()), 0)
            }
            Fact::Route(route) if route.is_exception || route.is_for_sources => (Outcome::Same, 0),
            Fact::Route(route) => {
                let (outcome, part) = match route.to {
                    IpAddr::V4(to) => (self.v4.forget(to.to_bits(), &route), part::ROUTES_V4),
                    IpAddr::V6(to) => (self.v6.forget(to.to_bits(), &route), part::ROUTES_V6),
                };
                (outcome, if outcome == Outcome::Unsure { part } else { 0 })
            }
        }
    }
}

fn learn_link(now: &mut Snapshot, link: Link) -> (Outcome, u16) {
    let old = now.links.get(&link.index);
    if old.is_some_and(|old| **old == link) {
        return (Outcome::Same, 0);
    }
    let fell =
        old.is_some_and(|old| old.is_up() && !link.is_up() || old.has_carrier() && !link.has_carrier());
    let rose = old.is_some_and(|old| !old.is_up() && link.is_up());
    let moved = old.is_some_and(|old| old.master != link.master || old.mtu_bytes != link.mtu_bytes);
    Arc::make_mut(&mut now.links).insert(link.index, Arc::new(link));
    // Next hops of several are dead while their interface is down; the loopback's address, by which the
    // mirror asks about tables, is not there.
    let revived = if rose { part::RULES | part::ROUTES_V4 | part::ROUTES_V6 } else { 0 };
    (Outcome::Changed, if fell || moved { part::SILENT } else { revived })
}

fn changed(is: bool) -> Outcome {
    if is { Outcome::Changed } else { Outcome::Same }
}
