//! Routes.

use super::{IPV4, IPV6};
use crate::wire::{address, attribute, attributes, number, u16_at, u32_at};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const CLONED: u32 = 0x200;
/// `RTNH_F_DEAD`.
const DEAD: u8 = 1;
const METRICS_LOCKED: u16 = 1;
const METRIC_MTU: u16 = 2;

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RouteKind {
    /// To a gateway, or to the destination itself.
    Unicast,
    /// To this host.
    Local,
    /// To all hosts of a link.
    Broadcast,
    /// To this host, by an address that others have as well.
    Anycast,
    /// To the members of a group.
    Multicast,
    /// Dropped in silence.
    Blackhole,
    /// Refused: no route to the host.
    Unreachable,
    /// Refused: prohibited.
    Prohibit,
    /// This table has no answer; the next rule may.
    Throw,
}

/// A next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RouteHop {
    pub(crate) interface: u32,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) weight: u16,
    /// MPLS, segment routing and other headers that the route itself adds.
    pub(crate) is_encapsulated: bool,
}

/// The next hops of a route: nearly always one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hops {
    One(RouteHop),
    Many(Box<[RouteHop]>),
}

impl Hops {
    pub(crate) fn all(&self) -> &[RouteHop] {
        match self {
            Self::One(hop) => std::slice::from_ref(hop),
            Self::Many(hops) => hops,
        }
    }
}

/// What a route says beside its next hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Metrics {
    pub(crate) mtu_bytes: Option<u32>,
    pub(crate) is_mtu_locked: bool,
    pub(crate) source: Option<IpAddr>,
}

/// One route of a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) kind: RouteKind,
    pub(crate) scope: u8,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) priority: u32,
    /// A router's preference: 3 low, 0 medium, 1 high (RFC 4191).
    pub(crate) preference: u8,
    pub(crate) metrics: Metrics,
    /// The nexthop object that it uses; 0: none.
    pub(crate) object: u32,
    pub(crate) hops: Hops,
}

/// A route and its place.
#[derive(Debug)]
pub(crate) struct RouteMessage {
    pub(crate) table: u32,
    pub(crate) to: IpAddr,
    pub(crate) len: u8,
    /// An exception that the kernel has learnt: a path's MTU, or a redirect.
    pub(crate) is_exception: bool,
    /// IPv6 alone: a route for some sources.
    pub(crate) is_for_sources: bool,
    pub(crate) route: Route,
}

/// Reads a route. `None` for those of other families and of kinds that carry no packet.
pub(crate) fn route_of(body: &[u8]) -> Option<RouteMessage> {
    let fixed: &[u8; 12] = body.first_chunk()?;
    let any: IpAddr = match fixed[0] {
        IPV4 => Ipv4Addr::UNSPECIFIED.into(),
        IPV6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let hop = RouteHop { interface: 0, gateway: None, weight: 1, is_encapsulated: false };
    let mut read = RouteMessage {
        table: u32::from(fixed[4]),
        to: any,
        len: fixed[1].min(if any.is_ipv4() { 32 } else { 128 }),
        is_exception: u32_at(body, 8)? & CLONED != 0,
        is_for_sources: fixed[2] != 0,
        route: Route {
            kind: kind_of(fixed[7])?,
            scope: fixed[6],
            protocol: fixed[5],
            tos: fixed[3],
            priority: 0,
            preference: 0,
            metrics: Metrics::default(),
            object: 0,
            hops: Hops::One(hop),
        },
    };
    let (mut single, mut many) = (hop, Vec::new());
    for (kind, payload) in attributes(&body[12..]) {
        match kind {
            1 => read.to = address(payload).filter(|to| to.is_ipv4() == any.is_ipv4())?,
            6 => read.route.priority = number(payload),
            7 => read.route.metrics.source = address(payload),
            8 => {
                let metric = |kind| attribute(payload, kind).map_or(0, number);
                read.route.metrics.mtu_bytes = Some(metric(METRIC_MTU)).filter(|mtu| *mtu != 0);
                read.route.metrics.is_mtu_locked = metric(METRICS_LOCKED) >> METRIC_MTU & 1 != 0;
            }
            9 => many = hops_of(payload),
            15 => read.table = number(payload),
            20 => read.route.preference = payload.first().copied().unwrap_or(0),
            30 => read.route.object = number(payload),
            _ => read_hop(&mut single, kind, payload),
        }
    }
    read.route.hops = if many.is_empty() { Hops::One(single) } else { Hops::Many(many.into()) };
    Some(read)
}

fn kind_of(number: u8) -> Option<RouteKind> {
    use RouteKind::*;
    let kinds = [Unicast, Local, Broadcast, Anycast, Multicast, Blackhole, Unreachable, Prohibit, Throw];
    kinds.get(usize::from(number.checked_sub(1)?)).copied()
}

/// Takes an attribute that a next hop may have.
fn read_hop(hop: &mut RouteHop, kind: u16, payload: &[u8]) {
    match kind {
        4 => hop.interface = number(payload),
        5 => hop.gateway = address(payload),
        18 => hop.gateway = payload.get(2..).and_then(address),
        21 => hop.is_encapsulated = u16_at(payload, 0) != Some(0),
        _ => {}
    }
}

/// Reads `RTA_MULTIPATH`: a header of eight bytes for each next hop, with attributes behind it. Those that
/// the kernel does not use are left out: their interface is down, or has lost its last address.
fn hops_of(mut left: &[u8]) -> Vec<RouteHop> {
    let mut hops = Vec::new();
    while let (Some(length), Some(interface)) = (u16_at(left, 0).map(usize::from), u32_at(left, 4)) {
        let Some(inner) = left.get(8..length) else { break };
        let is_dead = left[2] & DEAD != 0;
        let mut hop =
            RouteHop { interface, gateway: None, weight: u16::from(left[3]) + 1, is_encapsulated: false };
        attributes(inner).for_each(|(kind, payload)| read_hop(&mut hop, kind, payload));
        if !is_dead {
            hops.push(hop);
        }
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    hops
}
