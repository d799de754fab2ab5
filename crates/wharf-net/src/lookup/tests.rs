//! Rules, neighbours and MTUs from messages that are written here.

use crate::hop::{Hop, Neighbour, NoHop};
use crate::kernel::{NEW_ADDRESS, NEW_LINK, NEW_ROUTE, NEW_RULE};
use crate::layers::tests::{MAC, OF_A_DUMP, address, attribute, link, neighbour, number, route, rule};
use crate::query::Query;
use crate::tables::Tables;
use crate::wire::Request;
use std::net::IpAddr;

const PROHIBIT: u8 = 8;
const PERMANENT: u8 = 0x80;

/// An interface a1 with 10.0.0.1, and the default route by it, behind `rules`.
fn tables(rules: &[Vec<u8>], more: &[Vec<u8>]) -> Tables {
    let plain = [rule(254, 1, 0, &[]), link(1, "a1", &[], None), address(1, [10, 0, 0, 1])];
    let way = [route([0; 4], 0, 1, &[])];
    Tables::replay(&[rules, &plain, &way, more].concat().concat())
}

fn to() -> Query {
    Query::to([10, 0, 0, 9].into())
}

fn is_refused(rule: Vec<u8>, query: Query) -> bool {
    match tables(&[rule], &[]).lookup(&query) {
        Err(NoHop::Prohibited) => true,
        found => found.map(|_| false).expect("a hop"),
    }
}

#[test]
fn a_rule_regards_dscp_and_its_mask() {
    let dscp = |dscp: u8| rule(0, PROHIBIT, 0, &[(25, &[dscp])]);
    assert!(is_refused(dscp(10), to().tos(0x28)), "six bits");
    assert!(!is_refused(dscp(10), to().tos(0x08)) && !is_refused(dscp(10), to()));
    assert!(is_refused(dscp(0), to()) && !is_refused(dscp(0), to().tos(0x28)));
    let masked = || rule(0, PROHIBIT, 0, &[(25, &[8]), (30, &[0x38])]);
    assert!(is_refused(masked(), to().tos(0x28)) && !is_refused(masked(), to().tos(0x08)));
}

#[test]
fn a_type_of_service_of_ipv4_is_three_bits() {
    assert!(is_refused(rule(0, PROHIBIT, 0x08, &[]), to().tos(0x28)));
    assert!(!is_refused(rule(0, PROHIBIT, 0x28, &[]), to().tos(0x28)));
}

#[test]
fn a_rule_regards_ports_and_their_mask() {
    let ports = [80_u16.to_ne_bytes(), 80_u16.to_ne_bytes()].concat();
    let rule = |mask: u16| rule(0, PROHIBIT, 0, &[(24, &ports), (29, &mask.to_ne_bytes())]);
    assert!(is_refused(rule(0xfffe), to().port(81)));
    assert!(!is_refused(rule(0xffff), to().port(81)) && is_refused(rule(0xffff), to().port(80)));
}

#[test]
fn a_rule_that_regards_what_is_not_known_is_said_where_it_is_reached() {
    let label = |destination: &[u8]| {
        let mut made = rule(0, PROHIBIT, 0, &[(1, destination), (26, &[0, 0, 0, 5])]);
        made[17] = 32; // the length of the destination's prefix
        made
    };
    let found = |rule| tables(&[rule], &[]).lookup(&to());
    assert!(matches!(found(label(&[10, 0, 0, 9])), Err(NoHop::Unsupported(_))));
    assert!(found(label(&[10, 0, 0, 8])).is_ok());
}

#[test]
fn what_is_not_known_is_said_to_a_query_for_an_interface_too() {
    let label = rule(0, PROHIBIT, 0, &[(26, &[0, 0, 0, 5])]);
    assert!(matches!(tables(&[label], &[]).lookup(&to().output(1)), Err(NoHop::Unsupported(_))));
}

#[test]
fn a_goto_without_its_target_is_passed_over() {
    let goto = rule(0, 2, 0, &[(4, &number(200)), (6, &number(10))]);
    let refuses = rule(0, PROHIBIT, 0, &[(6, &number(20))]);
    assert_eq!(tables(&[goto, refuses], &[]).lookup(&to()), Err(NoHop::Prohibited));
}

/// The hop by an interface with flags of its own, over neighbours.
fn by(flags: u8, neighbours: &[Vec<u8>]) -> Hop {
    let fixed = [0, 0, 1, 0, 1, 0, 0, 0, 0x43 | flags, 0, 1, 0, 0, 0, 0, 0];
    let made = Request::new(NEW_LINK, OF_A_DUMP, 0, &fixed).with(1, &[2; 6]).with(2, &[3; 6]);
    let made = made.with(3, b"a1").with(4, &1500_u32.to_ne_bytes()).bytes();
    tables(&[], &[&[made], neighbours].concat()).lookup(&to()).expect("a hop")
}

#[test]
fn a_neighbour_that_was_set_counts_before_what_the_kernel_makes_up() {
    let known = |mac| Neighbour::Known { mac, is_stale: false };
    const NO_ARP: u8 = 0x80;
    const POINT_TO_POINT: u8 = 0x10;
    assert_eq!(by(NO_ARP, &[]).neighbour, known([2; 6]));
    assert_eq!(by(NO_ARP, &[neighbour(1, [10, 0, 0, 9], PERMANENT)]).neighbour, known(MAC));
    assert_eq!(by(POINT_TO_POINT, &[]).neighbour, known([3; 6]));
    assert_eq!(by(POINT_TO_POINT, &[neighbour(1, [0; 4], PERMANENT)]).neighbour, known(MAC), "one for all");
}

#[test]
fn the_mtu_of_a_path_binds_own_packets_alone() {
    let metrics = attribute(2, &1300_u32.to_ne_bytes());
    let mut exception = route([10, 0, 0, 9], 32, 1, &[(8, &metrics)]);
    exception[25] = 2; // RTM_F_CLONED
    let tables = tables(&[], &[exception]);
    let mtu = |query: &Query| tables.lookup(query).expect("a hop").mtu_bytes;
    assert_eq!((mtu(&to()), mtu(&to().from([10, 0, 0, 7].into()).input(1))), (1300, 1500));
}

#[test]
fn ipv6_forwards_by_the_mtu_of_the_interface_unless_that_of_the_route_is_locked() {
    let mtu = |metrics: &[u8]| {
        let fixed = [10, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        let way = Request::new(NEW_ROUTE, OF_A_DUMP, 0, &fixed).with(4, &number(1)).with(8, metrics).bytes();
        let main = [10, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        let rule = Request::new(NEW_RULE, OF_A_DUMP, 0, &main).bytes();
        let tables = Tables::replay(&[link(1, "a1", &[], None), rule, way].concat());
        let to = Query::to("2001:db8::1".parse().expect("an address"));
        [to, to.input(1)].map(|query| tables.lookup(&query).expect("a hop").mtu_bytes)
    };
    let of_route = attribute(2, &1300_u32.to_ne_bytes());
    assert_eq!(mtu(&of_route), [1300, 1500]);
    assert_eq!(mtu(&[of_route, attribute(1, &number(4))].concat()), [1300, 1300]);
}

#[test]
fn an_address_of_a_vrf_is_a_source_within_it_alone() {
    let vrf = link(7, "red", &[], Some(("vrf", attribute(1, &number(10)))));
    let bare = [link(5, "b5", &[], None), route([20, 0, 0, 0], 8, 5, &[])];
    let before = [rule(254, 1, 0, &[]), vrf, address(7, [10, 7, 0, 1]), link(9, "b9", &[], None)];
    let all = [&before[..], &bare, &[address(9, [10, 9, 0, 1])]].concat();
    let hop = Tables::replay(&all.concat()).lookup(&Query::to([20, 0, 0, 1].into())).expect("a hop");
    assert_eq!(hop.source, Some([10, 9, 0, 1].into()));
}

#[test]
fn the_way_within_a_vrf_is_that_of_its_table() {
    let vrf = link(7, "red", &[], Some(("vrf", attribute(1, &number(10)))));
    let of_vrf = rule(0, 1, 0, &[(19, &[1])]);
    let mut within = route([20, 0, 0, 0], 8, 5, &[(15, &number(10))]);
    within[20] = 10;
    let port = link(5, "b5", &[(10, number(7))], None);
    let all = [of_vrf, rule(254, 1, 0, &[]), vrf, port, link(9, "b9", &[], None), within];
    let all = [&all[..], &[route([20, 0, 0, 0], 8, 9, &[]), address(5, [10, 5, 0, 1])]].concat();
    let tables = Tables::replay(&all.concat());
    let by = |vrf| tables.lookup(&Query::to([20, 0, 0, 1].into()).output(vrf)).expect("a hop");
    assert_eq!([5, 7, 9].map(|port| tables.interface_vrf(port)), [7, 7, 0]);
    assert_eq!((by(tables.interface_vrf(5)).interface, by(0).interface), (5, 9));
    assert_eq!(by(7).source, Some([10, 5, 0, 1].into()));
}

/// The VRF `red` has the port 5 and ways of IPv6: to 2001:5::/32 by the port, to 2001:9::/32 out of it, by an
/// interface with an address that is nearer.
#[test]
fn ipv6_has_sources_of_the_vrf_and_its_error_routes() {
    const TO_TABLE: u8 = 10;
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
    let rule = |table: u8, attributes: &[(u16, &[u8])]| {
        let made = Request::new(NEW_RULE, OF_A_DUMP, 0, &[10, 0, 0, 0, table, 0, 0, 1, 0, 0, 0, 0]);
        attributes.iter().fold(made, |made, (kind, payload)| made.with(*kind, payload)).bytes()
    };
    let way = |to: &str, len, kind, index| {
        let fixed = [10, len, 0, 0, TO_TABLE, 3, 0, kind, 0, 0, 0, 0];
        let made = Request::new(NEW_ROUTE, OF_A_DUMP, 0, &fixed).with(1, &octets(to)).with(4, &number(index));
        made.with(7, &octets("2001:9::1")).bytes()
    };
    let address = |index: u8, local: &str| {
        Request::new(NEW_ADDRESS, OF_A_DUMP, 0, &[10, 64, 0, 0, index, 0, 0, 0])
            .with(1, &octets(local))
            .bytes()
    };
    let all = [
        rule(0, &[(19, &[1])]),
        rule(254, &[]),
        link(7, "red", &[], Some(("vrf", attribute(1, &number(TO_TABLE))))),
        link(5, "b5", &[(10, number(7))], None),
        link(9, "b9", &[], None),
        [address(7, "2001:7::1"), address(5, "2001:5::1"), address(9, "2001:9::1")].concat(),
        [way("2001:5::", 32, 1, 5), way("2001:9::", 32, 1, 9), way("::", 0, 7, 1)].concat(),
    ];
    let tables = Tables::replay(&all.concat());
    let by = |to: &str| tables.lookup(&Query::to(ip(to)).output(7)).map(|hop| (hop.interface, hop.source));
    assert_eq!(by("2001:5::9"), Ok((5, Some(ip("2001:9::1")))), "the route names it");
    assert_eq!(by("2001:9::9"), Ok((9, Some(ip("2001:7::1")))), "of the VRF: the route leads out");
    assert_eq!(by("2001:6::9"), Err(NoHop::Unreachable));
    assert_eq!(by("fe80::9"), Err(NoHop::NoRoute), "a VRF is no link");
}
