//! What the kernel says of itself, read from the bodies of rtnetlink's messages (`linux/rtnetlink.h` and its
//! neighbours).

mod link;
mod neighbour;
mod object;
mod route;
mod rule;

pub(crate) use link::{Address, ELSEWHERE, Layer, Link, address_of, link_of};
pub(crate) use neighbour::{FAILED, FdbEntry, NEIGHBOUR_VALID, Neighbour, NeighbourMessage, neighbour_of};
pub(crate) use object::{Object, object_of};
pub use route::RouteKind;
pub(crate) use route::{Metrics, Route, RouteHop, RouteMessage, route_of};
pub(crate) use rule::{Action, DSCP_IN_TOS_V4, LOCAL, MAIN, Rule, default_rules, rule_of};

use crate::wire::{attribute, number};

/// An address of Ethernet.
pub type Mac = [u8; 6];

pub(crate) const IPV4: u8 = 2;
pub(crate) const BRIDGE: u8 = 7;
pub(crate) const IPV6: u8 = 10;

pub(crate) const NEW_LINK: u16 = 16;
pub(crate) const DEL_LINK: u16 = 17;
pub(crate) const GET_LINK: u16 = 18;
pub(crate) const NEW_ADDRESS: u16 = 20;
pub(crate) const DEL_ADDRESS: u16 = 21;
pub(crate) const GET_ADDRESS: u16 = 22;
pub(crate) const NEW_ROUTE: u16 = 24;
pub(crate) const DEL_ROUTE: u16 = 25;
pub(crate) const GET_ROUTE: u16 = 26;
pub(crate) const NEW_NEIGHBOUR: u16 = 28;
pub(crate) const DEL_NEIGHBOUR: u16 = 29;
pub(crate) const GET_NEIGHBOUR: u16 = 30;
pub(crate) const NEW_RULE: u16 = 32;
pub(crate) const DEL_RULE: u16 = 33;
pub(crate) const GET_RULE: u16 = 34;
pub(crate) const NEW_OBJECT: u16 = 104;
pub(crate) const DEL_OBJECT: u16 = 105;
pub(crate) const GET_OBJECT: u16 = 106;

const NEW_NETCONF: u16 = 80;
pub(crate) const GET_NETCONF: u16 = 82;

/// Everything that a message may say.
#[derive(Debug)]
pub(crate) enum Fact {
    Link(Link),
    Address(u32, Address),
    Route(RouteMessage),
    Rule(bool, Rule),
    Neighbour(NeighbourMessage),
    Object(u32, Object),
    /// IPv6 forwards what arrives.
    ForwardsV6(bool),
}

/// True for messages about IPv6's settings of an interface, which a dump of links has.
pub(crate) fn says_of_links(kind: u16, body: &[u8]) -> bool {
    kind == NEW_LINK && body.first() == Some(&IPV6)
}

/// Reads whether IPv6 forwards: its setting for all interfaces, whatever those of single ones are.
fn forwards_v6_of(body: &[u8]) -> Option<bool> {
    const OF_ALL: u32 = u32::MAX;
    let settings = body.get(4..).filter(|_| body[0] == IPV6)?;
    let is_of_all = attribute(settings, 1).map(number) == Some(OF_ALL);
    attribute(settings, 2).filter(|_| is_of_all).map(|forwards| number(forwards) != 0)
}

/// Reads the body of a message. `None` if it says nothing of interest, or nothing.
pub(crate) fn fact_of(kind: u16, body: &[u8]) -> Option<Fact> {
    match kind {
        NEW_LINK | DEL_LINK => link_of(body).map(Fact::Link),
        NEW_ADDRESS | DEL_ADDRESS => address_of(body).map(|(link, address)| Fact::Address(link, address)),
        NEW_ROUTE | DEL_ROUTE => route_of(body).map(Fact::Route),
        NEW_RULE | DEL_RULE => rule_of(body).map(|(v6, rule)| Fact::Rule(v6, rule)),
        NEW_NEIGHBOUR | DEL_NEIGHBOUR => neighbour_of(body).map(Fact::Neighbour),
        NEW_NETCONF => forwards_v6_of(body).map(Fact::ForwardsV6),
        NEW_OBJECT | DEL_OBJECT => object_of(body).map(|(id, object)| Fact::Object(id, object)),
        _ => None,
    }
}
