//! Nexthop objects and groups (`ip nexthop`).

use super::RouteHop;
use crate::wire::{address, attributes, number, u16_at, u32_at};

/// A nexthop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Hop(RouteHop),
    /// The ids of a group, with their weights.
    Group(Box<[(u32, u16)]>),
    Blackhole,
}

/// Reads an object: its id, and it.
pub(crate) fn object_of(body: &[u8]) -> Option<(u32, Object)> {
    let (mut id, mut group, mut is_blackhole) = (0, Vec::new(), false);
    let mut hop = RouteHop { interface: 0, gateway: None, weight: 1, is_encapsulated: false };
    for (kind, payload) in attributes(body.get(8..)?) {
        match kind {
            1 => id = number(payload),
            2 => group = payload.chunks_exact(8).filter_map(member).collect(),
            4 => is_blackhole = true,
            5 => hop.interface = number(payload),
            6 => hop.gateway = address(payload),
            7 => hop.is_encapsulated = u16_at(payload, 0) != Some(0),
            _ => {}
        }
    }
    let object = match (is_blackhole, group.is_empty()) {
        (true, _) => Object::Blackhole,
        (false, true) => Object::Hop(hop),
        (false, false) => Object::Group(group.into()),
    };
    (id != 0).then_some((id, object))
}

/// Reads `struct nexthop_grp`: the id, and the weight less one, of which Linux 6.12 has a second byte.
fn member(bytes: &[u8]) -> Option<(u32, u16)> {
    let weight = u16::from_le_bytes([bytes[4], bytes[5]]);
    Some((u32_at(bytes, 0)?, weight.saturating_add(1)))
}
