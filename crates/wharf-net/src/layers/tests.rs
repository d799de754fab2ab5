//! Interfaces on top of each other, from messages that are written here: no test machine has all kinds.

use crate::hop::{Exit, Hop, NoHop, Tag, TunnelHeader};
use crate::kernel::{NEW_ADDRESS, NEW_LINK, NEW_NEIGHBOUR, NEW_ROUTE, NEW_RULE};
use crate::query::Query;
use crate::tables::Tables;
use crate::wire::Request;
use std::net::IpAddr;

pub(crate) const OF_A_DUMP: u16 = 2;
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// An attribute by itself, for nests.
pub(crate) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    Request::new(0, 0, 0, &[]).with(kind, payload).bytes().split_off(16)
}

/// A link that is up: index, name, attributes of its own, kind and its data.
pub(crate) fn link(
    index: u8, name: &str, attributes: &[(u16, Vec<u8>)], kind: Option<(&str, Vec<u8>)>,
) -> Vec<u8> {
    let fixed = [0, 0, 1, 0, index, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0];
    let mut made = Request::new(NEW_LINK, OF_A_DUMP, 0, &fixed)
        .with(1, &[2, 0, 0, 0, 1, index])
        .with(3, name.as_bytes())
        .with(4, &1500_u32.to_ne_bytes());
    for (kind, payload) in attributes {
        made = made.with(*kind, payload);
    }
    if let Some((kind, data)) = kind {
        let info = [attribute(1, kind.as_bytes()), attribute(2, &data)].concat();
        made = made.with(18, &info);
    }
    made.bytes()
}

pub(crate) fn number(value: u8) -> Vec<u8> {
    u32::from(value).to_ne_bytes().to_vec()
}

/// A rule of IPv4: table, action, type of service, attributes.
pub(crate) fn rule(table: u8, action: u8, tos: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let made = Request::new(NEW_RULE, OF_A_DUMP, 0, &[2, 0, 0, tos, table, 0, 0, action, 0, 0, 0, 0]);
    attributes.iter().fold(made, |made, (kind, payload)| made.with(*kind, payload)).bytes()
}

/// A route of IPv4's main table, by an interface.
pub(crate) fn route(to: [u8; 4], len: u8, index: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let fixed = [2, len, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    let made = Request::new(NEW_ROUTE, OF_A_DUMP, 0, &fixed).with(1, &to).with(4, &number(index));
    attributes.iter().fold(made, |made, (kind, payload)| made.with(*kind, payload)).bytes()
}

/// A neighbour of IPv4.
pub(crate) fn neighbour(index: u8, address: [u8; 4], state: u8) -> Vec<u8> {
    let fixed = [2, 0, 0, 0, index, 0, 0, 0, state, 0, 0, 0];
    Request::new(NEW_NEIGHBOUR, OF_A_DUMP, 0, &fixed).with(2, &MAC).with(1, &address).bytes()
}

/// An address of IPv4, in a /24.
pub(crate) fn address(index: u8, address: [u8; 4]) -> Vec<u8> {
    Request::new(NEW_ADDRESS, OF_A_DUMP, 0, &[2, 24, 0, 0, index, 0, 0, 0]).with(2, &address).bytes()
}

/// The interface `top` with the route 10.0.0.0/8 to a neighbour, over what `links` makes; a2 has
/// 192.0.2.0/24.
fn hop(top: u8, links: &[Vec<u8>]) -> Hop {
    tables(top, links).lookup(&Query::to([10, 0, 0, 9].into())).unwrap()
}

fn tables(top: u8, links: &[Vec<u8>]) -> Tables {
    // One that the tunnel with the mark 9 comes to.
    let refused = rule(0, 8, 0, &[(10, &number(9))]);
    let mut all = vec![refused, rule(254, 1, 0, &[]), address(2, [192, 0, 2, 1])];
    all.extend([route([10, 0, 0, 0], 8, top, &[]), route([192, 0, 2, 0], 24, 2, &[])]);
    all.extend([neighbour(top, [10, 0, 0, 9], 2), neighbour(2, [192, 0, 2, 9], 2)]);
    // A bridge, if `top` is one, has the MAC at a2.
    let entry = Request::new(NEW_NEIGHBOUR, OF_A_DUMP, 0, &[7, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
    all.push(entry.with(2, &MAC).with(9, &number(top)).bytes());
    all.extend([link(1, "a1", &[], None), link(2, "a2", &[], None)]);
    all.extend_from_slice(links);
    Tables::replay(&all.concat())
}

#[test]
fn vlans_add_their_tags_the_outer_one_first() {
    let vlan = |id: u8, protocol: [u8; 2]| [attribute(1, &[id, 0]), attribute(5, &protocol)].concat();
    let outer = link(5, "v5", &[(5, number(1))], Some(("vlan", vlan(5, [0x88, 0xa8]))));
    let inner = link(7, "q7", &[(5, number(5))], Some(("vlan", vlan(7, [0x81, 0]))));
    let one = hop(5, std::slice::from_ref(&outer));
    assert_eq!((one.exit, one.tags), (Exit::Port(1), [Some(Tag { protocol: 0x88a8, id: 5 }), None]));
    let two = hop(7, &[outer, inner]);
    let tags = [Some(Tag { protocol: 0x88a8, id: 5 }), Some(Tag { protocol: 0x8100, id: 7 })];
    assert_eq!((two.exit, two.tags), (Exit::Port(1), tags));
    assert_eq!(two.source_mac, Some([2, 0, 0, 0, 1, 7]), "the MAC of the interface on top");
}

#[test]
fn an_interface_below_in_another_namespace_is_said() {
    let vlan = link(5, "v5", &[(5, number(1)), (37, number(0))], Some(("vlan", attribute(1, &[5, 0]))));
    assert!(matches!(hop(5, &[vlan]).exit, Exit::Unsupported(_)));
}

#[test]
fn a_bond_leaves_by_its_active_port_or_one_that_may_transmit() {
    let port = |index, name, state: u8| {
        let slave =
            [attribute(4, b"bond"), attribute(5, &[attribute(1, &[state]), attribute(2, &[0])].concat())];
        link(index, name, &[(10, number(9)), (18, slave.concat())], None)
    };
    let bond = |mode: u8, active: u8| {
        let data = [attribute(1, &[mode]), attribute(2, &number(active))].concat();
        [link(9, "bo", &[], Some(("bond", data))), port(3, "p3", u8::from(active == 4)), port(4, "p4", 0)]
    };
    assert_eq!(hop(9, &bond(1, 4)).exit, Exit::Port(4));
    assert_eq!(hop(9, &bond(1, 3)).exit, Exit::Port(3));
    assert!(matches!(hop(9, &bond(2, 0)).exit, Exit::Port(3 | 4)));
    for balances in [5, 6] {
        assert_eq!(hop(9, &bond(balances, 4)).exit, Exit::Port(4), "the others have another MAC");
    }
    assert!(matches!(hop(9, &bond(3, 0)).exit, Exit::Unsupported(_)), "by every port");
}

#[test]
fn a_bridge_leaves_by_the_port_that_has_the_mac() {
    assert_eq!(hop(8, &[link(8, "br", &[], Some(("bridge", vec![])))]).exit, Exit::Port(2));
}

#[test]
fn tunnels_have_an_outer_header_with_a_next_hop_of_its_own() {
    let remote: IpAddr = [192, 0, 2, 9].into();
    let vxlan =
        [attribute(1, &number(42)), attribute(2, &[192, 0, 2, 9]), attribute(15, &[0x12, 0xb5])].concat();
    let gre = [
        attribute(2, &[0x20, 0]),
        attribute(3, &[0x20, 0]),
        attribute(5, &[0, 0, 0, 6]),
        attribute(7, &[192, 0, 2, 9]),
    ];
    let ipip = attribute(3, &[192, 0, 2, 9]);
    let cases = [
        ("vxlan", vxlan, TunnelHeader::Vxlan { id: 42, port: 4789 }),
        ("gretap", gre.concat(), TunnelHeader::Gre { key: Some(6), is_ethernet: true }),
        ("ipip", ipip, TunnelHeader::Ip),
    ];
    for (kind, data, header) in cases {
        let Exit::Tunnel(tunnel) = hop(6, &[link(6, "t6", &[], Some((kind, data)))]).exit else {
            panic!("{kind}")
        };
        assert_eq!((tunnel.header, tunnel.destination), (header, remote));
        let outer = tunnel.hop.unwrap();
        assert_eq!((outer.exit, outer.neighbour.mac()), (Exit::Port(2), Some(MAC)), "{kind}");
        assert_eq!(outer.source, Some([192, 0, 2, 1].into()));
    }
}

#[test]
fn a_tunnel_that_leads_into_itself_ends() {
    let into_itself = attribute(3, &[10, 0, 0, 8]);
    let found = hop(6, &[link(6, "t6", &[], Some(("ipip", into_itself)))]);
    assert!(format!("{found:?}").contains("Unsupported"));
}

#[test]
fn what_is_not_known_of_a_tunnel_or_a_bridge_is_said() {
    let here = attribute(3, &[192, 0, 2, 9]);
    let with = |kind, value: &[u8]| [here.clone(), attribute(kind, value)].concat();
    let is_unsupported = |attributes: &[(u16, Vec<u8>)], kind, data| {
        matches!(hop(6, &[link(6, "t6", attributes, Some((kind, data)))]).exit, Exit::Unsupported(_))
    };
    assert!(!is_unsupported(&[], "ipip", here.clone()));
    assert!(is_unsupported(&[(37, number(0))], "ipip", here.clone()), "its outer packets leave elsewhere");
    assert!(is_unsupported(&[], "ipip", with(15, &[2, 0])), "GUE");
    assert!(is_unsupported(&[], "gre", attribute(14, &[1, 0])), "FOU");
    assert!(is_unsupported(&[], "ipip", with(19, &[])), "each packet names its ends");
    assert!(is_unsupported(&[], "vxlan", [attribute(1, &number(5)), attribute(25, &[1])].concat()));
    assert!(is_unsupported(&[], "bridge", attribute(7, &[1])), "it filters VLANs");
}

#[test]
fn the_outer_packets_of_a_tunnel_have_its_mark() {
    let data = [attribute(3, &[192, 0, 2, 9]), attribute(20, &number(9))].concat();
    let Exit::Tunnel(tunnel) = hop(6, &[link(6, "t6", &[], Some(("ipip", data)))]).exit else { panic!() };
    assert_eq!(tunnel.hop, Err(NoHop::Prohibited));
}

#[test]
fn an_interface_is_found_by_another_name() {
    let names = [attribute(53, b"uplink\0"), attribute(53, b"lan0\0")].concat();
    let tables = tables(5, &[link(5, "enp5s0", &[(52, names)], None)]);
    assert_eq!(
        ["enp5s0", "uplink", "lan0", "no"].map(|name| tables.interface_index(name)),
        [Some(5), Some(5), Some(5), None]
    );
}

#[test]
fn a_message_that_says_a_part_of_an_interface_leaves_it_as_it_is() {
    let fixed = [0, 0, 1, 0, 5, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0];
    let of_v6 = [10, 0, 1, 0, 5, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0];
    let wireless = Request::new(NEW_LINK, 0, 0, &fixed).with(3, b"w5").with(11, &[0; 8]).bytes();
    let ipv6 = Request::new(NEW_LINK, 0, 0, &of_v6).with(3, b"w5").with(4, &number(9)).bytes();
    let found = hop(5, &[link(5, "w5", &[], None), wireless, ipv6]);
    assert_eq!((found.mtu_bytes, found.source_mac), (1500, Some([2, 0, 0, 0, 1, 5])));
}
