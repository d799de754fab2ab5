//! A lookup, as the kernel does it (`ip_route_output_key_hash_rcu`, `ip6_route_output_flags`): rules, tables,
//! next hop, source, neighbour.

use crate::hop::{Exit, Hop, Neighbour, NoHop, Why};
use crate::kernel::{Action, Address, FAILED, Link, Mac, Metrics, RouteHop, RouteKind, Rule};
use crate::query::Query;
use crate::state::Snapshot;
use std::net::IpAddr;

/// The longest packet of IP.
const MTU_BYTES_MAX: u32 = 65535;
/// The index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;
const TUNNELS_MAX: u8 = 2;
const SCOPE_LINK: u8 = 253;

/// What a route gives for a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) kind: RouteKind,
    pub(crate) scope: u8,
    pub(crate) metrics: Metrics,
    pub(crate) hop: RouteHop,
    /// The interface of the route's first next hop.
    pub(crate) first: u32,
    /// The interface that the source is chosen for.
    pub(crate) source_of: u32,
    pub(crate) why: Why,
}

impl Snapshot {
    /// Returns where a packet has to go next, or why it cannot go anywhere.
    pub(crate) fn lookup(&self, query: &Query) -> Result<Hop, NoHop> {
        let found = self.look_within(query, TUNNELS_MAX);
        let is_error = matches!(&found, Err(none) if !matches!(none, NoHop::Unsupported(_)));
        let by_source = is_error && query.is_v6() && query.source().is_none() && query.input == 0;
        if by_source && self.rules[1].iter().any(|rule| rule.from.is_some()) {
            // IPv6 chooses a source without a route then, and asks again (`ip6_dst_lookup_tail`).
            let vrf = self.vrf_of(query.output).map_or(0, |(vrf, _)| vrf);
            let source = self.address_v6(vrf, query.destination());
            return source.map_or(found, |source| self.look_within(&query.from(source), TUNNELS_MAX));
        }
        found
    }

    /// Looks up, through at most so many tunnels in each other.
    pub(crate) fn look_within(&self, query: &Query, tunnels: u8) -> Result<Hop, NoHop> {
        let path = match self.without_rules(query) {
            Some(interface) => Self::on_link(interface),
            None => match self.by_rules(query) {
                Err(none @ NoHop::Unsupported(_)) => return Err(none),
                Err(none) if query.output != 0 && !query.is_v6() => {
                    let is_group = query.destination().is_multicast() && !self.is_vrf(query.output);
                    let is_plain = is_group || self.vrf_of(query.output).is_none();
                    is_plain.then(|| Self::on_link(query.output)).ok_or(none)?
                }
                found => found?,
            },
        };
        if path.hop.is_encapsulated {
            return Err(NoHop::Unsupported("a route with an encapsulation of its own"));
        }
        let path = self.without_gateway(query, path);
        match path.kind {
            RouteKind::Local | RouteKind::Anycast => self.to_host(query, &path),
            // What comes from elsewhere for all of a link is for this host, and a group's needs multicast
            // routing.
            RouteKind::Broadcast if query.input != 0 => self.to_host(query, &path),
            RouteKind::Multicast if query.input != 0 && !query.is_v6() => Err(NoHop::Blackhole),
            _ => self.complete(query, path, tunnels),
        }
    }

    /// Returns the next hop that the rules lead to.
    fn by_rules(&self, query: &Query) -> Result<Path, NoHop> {
        let is_of_link =
            |to: IpAddr| matches!(to, IpAddr::V6(to) if to.is_multicast() || to.is_unicast_link_local());
        if is_of_link(query.destination()) && self.is_vrf(query.output) {
            // A VRF is no link (`vrf_link_scope_lookup`).
            return Err(NoHop::NoRoute);
        }
        let vrf = self.vrf_of(query.output).or_else(|| self.vrf_of(query.input));
        let mut from_priority = 0;
        let rules = &self.rules[usize::from(query.is_v6())];
        for rule in rules.iter() {
            if rule.priority < from_priority || !rule.is_plain && !self.matches(rule, query, vrf) {
                continue;
            }
            if rule.is_unknown {
                return Err(NoHop::Unsupported("a rule with a selector that is not read here"));
            }
            match rule.action {
                Action::Table => {}
                Action::Goto(priority) => {
                    // Without its target the kernel goes on with the next rule.
                    if rules.iter().any(|rule| rule.priority == priority) {
                        from_priority = priority;
                    }
                    continue;
                }
                Action::Nothing => continue,
                Action::Blackhole => return Err(NoHop::Blackhole),
                Action::Unreachable => return Err(NoHop::NoRoute),
                Action::Prohibit => return Err(NoHop::Prohibited),
            }
            let table = if rule.is_of_vrf { vrf.map_or(0, |(_, table)| table) } else { rule.table };
            let why = Why { rule: rule.priority, table, ..Why::default() };
            let found =
                self.in_table(query, why)?.filter(|path| !self.is_suppressed(rule, path, query.is_v6()));
            if let Some(path) = found.filter(|path| !self.is_behind_main(table, path.why.prefix_len, query)) {
                return Ok(path);
            }
        }
        Err(NoHop::NoRoute)
    }

    /// Returns the VRF that an interface is, or is a port of, and its table.
    pub(crate) fn vrf_of(&self, interface: u32) -> Option<(u32, u32)> {
        use crate::kernel::Layer::Vrf;
        let link = (interface != 0).then(|| self.links.get(&interface)).flatten()?;
        let master = self.links.get(&link.master);
        [Some(link), master].into_iter().flatten().find_map(|link| match link.layer {
            Vrf { table } => Some((link.index, table)),
            _ => None,
        })
    }

    pub(crate) fn matches(&self, rule: &Rule, query: &Query, vrf: Option<(u32, u32)>) -> bool {
        let named = |name: &Option<Box<str>>, index: u32| {
            name.as_ref().is_none_or(|name| {
                let is = |index| self.links.get(&index).is_some_and(|link| link.has_name(name));
                is(index) || vrf.is_some_and(|(vrf, _)| is(vrf))
            })
        };
        let within = |prefix: &Option<(IpAddr, u8)>, address: Option<IpAddr>| {
            prefix.is_none_or(|(base, len)| {
                len == 0 || address.is_some_and(|address| shares(base, address, len))
            })
        };
        let [source_port, port] = query.both_ports();
        let input = if query.input == 0 { LOOPBACK } else { query.input };
        let does = named(&rule.input, input)
            && named(&rule.output, query.output)
            && (query.mark ^ rule.mark) & rule.mark_mask == 0
            && rule.users.as_ref().is_none_or(|users| users.contains(&query.user))
            && (!rule.is_of_vrf || vrf.is_some())
            && within(&rule.from, query.source())
            && within(&rule.to, Some(query.destination()))
            && query.tos & rule.tos_mask == rule.tos
            && (rule.protocol == 0 || rule.protocol == query.protocol)
            && rule.source_ports.as_ref().is_none_or(|ports| ports.contains(source_port))
            && rule.ports.as_ref().is_none_or(|ports| ports.contains(port));
        does != rule.is_inverted
    }

    /// True if a rule passes over what was found. IPv4 asks the first next hop for its group, whichever was
    /// taken (`fib4_rule_suppress`).
    fn is_suppressed(&self, rule: &Rule, path: &Path, is_v6: bool) -> bool {
        let group = |interface| self.links.get(&interface).map(|link| link.group);
        let asked = if is_v6 { path.hop.interface } else { path.first };
        rule.suppress_len.is_some_and(|len| path.why.prefix_len <= len)
            || rule.suppress_group.is_some_and(|of| group(asked) == Some(of))
    }

    /// Returns the interface of an IPv4 broadcast or group that no rule is asked for: that of its source, or
    /// of a group of one link the one that it has to leave by.
    fn without_rules(&self, query: &Query) -> Option<u32> {
        let IpAddr::V4(to) = query.destination() else { return None };
        let is_of_link = to.is_broadcast() || to.octets()[..3] == [224, 0, 0];
        match query.source() {
            _ if query.output != 0 => is_of_link.then_some(query.output),
            Some(source) if query.input == 0 && (to.is_broadcast() || to.is_multicast()) => {
                let has = |of: &Vec<Address>| of.iter().any(|address| address.local == source);
                self.addresses.iter().find(|(_, of)| has(of)).map(|(interface, _)| *interface)
            }
            _ => None,
        }
    }

    /// What IPv4 assumes of an interface that it does not ask a table for, or that no route leads out of: the
    /// destination is on its link.
    fn on_link(interface: u32) -> Path {
        let hop = RouteHop { interface, gateway: None, weight: 1, is_encapsulated: false };
        let metrics = Metrics::default();
        Path {
            kind: RouteKind::Unicast,
            scope: SCOPE_LINK,
            metrics,
            hop,
            first: interface,
            source_of: interface,
            why: Why::default(),
        }
    }

    /// A packet to this host: the kernel sends it by the loopback interface, or the VRF.
    fn to_host(&self, query: &Query, path: &Path) -> Result<Hop, NoHop> {
        let vrf = self.vrf_of(path.hop.interface).map(|(vrf, _)| vrf);
        let interface = vrf.unwrap_or(LOOPBACK);
        let chosen = match path.kind {
            RouteKind::Local => path.metrics.source.or(Some(query.destination())),
            _ => self.source(query, path),
        };
        let link = self.links.get(&interface).ok_or(NoHop::NoRoute)?;
        Ok(Hop {
            kind: path.kind,
            interface,
            gateway: None,
            source: query.source().or(chosen),
            mtu_bytes: mtu_of(link, query, &path.metrics),
            source_mac: link.mac,
            neighbour: Neighbour::NotNeeded,
            exit: Exit::Host,
            tags: [None; 2],
            why: path.why,
        })
    }

    /// Broadcasts, and groups by a route for more than groups, go to the link itself (`__mkroute_output`);
    /// and so does what has an address of this host for a gateway.
    fn without_gateway(&self, query: &Query, mut path: Path) -> Path {
        let IpAddr::V4(to) = query.destination() else { return path };
        if self.is_own_gateway(&path.hop) {
            path.metrics.source = self.source(query, &path);
            path.hop.gateway = None;
        }
        if to.is_broadcast() {
            path.kind = RouteKind::Broadcast;
        } else if to.is_multicast() {
            path.kind = RouteKind::Multicast;
        }
        let is_direct =
            path.kind == RouteKind::Broadcast || path.kind == RouteKind::Multicast && path.why.prefix_len < 4;
        if is_direct {
            path.hop.gateway = None;
            path.metrics.mtu_bytes = None;
        }
        path
    }

    fn complete(&self, query: &Query, path: Path, tunnels: u8) -> Result<Hop, NoHop> {
        let link = self.links.get(&path.hop.interface).filter(|link| link.is_up()).ok_or(NoHop::NoRoute)?;
        let neighbour = self.neighbour(link, query, &path);
        let mut mtu_bytes = mtu_of(link, query, &path.metrics);
        // What a path has taught binds this host's own packets (`ip_dst_mtu_maybe_forward`).
        let exceptions = &self.exceptions[usize::from(query.is_v6())];
        if !exceptions.is_empty() && path.kind == RouteKind::Unicast && query.input == 0 {
            mtu_bytes = exceptions.get(&query.destination()).map_or(mtu_bytes, |mtu| mtu_bytes.min(*mtu));
        }
        let mut hop = Hop {
            kind: path.kind,
            interface: link.index,
            gateway: path.hop.gateway,
            source: query.source().or_else(|| self.source(query, &path)),
            mtu_bytes,
            source_mac: link.mac,
            neighbour,
            exit: Exit::Port(link.index),
            tags: [None; 2],
            why: path.why,
        };
        self.leave(&mut hop, link, query, tunnels);
        Ok(hop)
    }

    fn neighbour(&self, link: &Link, query: &Query, path: &Path) -> Neighbour {
        if !link.has_macs() {
            return Neighbour::NotNeeded;
        }
        let to = path.hop.gateway.unwrap_or_else(|| query.destination());
        // One that was set by hand counts before what the kernel would make up.
        let found = self.neighbours.get(&(link.index, link.neighbour_key(to)));
        if let Some((found, mac)) = found.and_then(|found| Some((found, found.valid_mac()?))) {
            return Neighbour::Known { mac, is_stale: found.is_stale() };
        }
        let fixed = match path.kind {
            _ if to.is_multicast() => Some(group_mac(to)),
            RouteKind::Broadcast if link.is_broadcast() => link.broadcast,
            _ => link.fixed_mac(),
        };
        match (fixed, found) {
            (Some(mac), _) => Neighbour::Known { mac, is_stale: false },
            (None, Some(found)) if found.state & FAILED != 0 => Neighbour::Failed,
            (None, _) => Neighbour::Unknown,
        }
    }
}

fn mtu_of(link: &Link, query: &Query, metrics: &Metrics) -> u32 {
    let of_link = if query.is_v6() { link.mtu_v6_bytes.min(link.mtu_bytes) } else { link.mtu_bytes };
    // IPv6 forwards by the interface's, unless the route's is locked (`ip6_dst_mtu_maybe_forward`).
    let counts = !query.is_v6() || query.input == 0 || metrics.is_mtu_locked;
    metrics.mtu_bytes.filter(|_| counts).unwrap_or(of_link).min(MTU_BYTES_MAX)
}

/// Returns the MAC of a group (RFC 1112, RFC 2464).
fn group_mac(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// Returns true if two addresses of one family share their first `len` bits.
pub(crate) fn shares(one: IpAddr, other: IpAddr, len: u8) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(len)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (one.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(len)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
