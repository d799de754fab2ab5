use super::{Template, Templates};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wharf::net::{EthernetHeader, IpHeader, UDP, UdpHeader, UdpHeaders};
use wharf_net::Query;

const DESTINATIONS: u64 = 200;

/// A number that looks like chance.
fn scattered(at: u64) -> u64 {
    let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn v4(bits: u64) -> IpAddr {
    Ipv4Addr::from_bits(bits as u32).into()
}

fn v6(high: u64, low: u64) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()
}

fn query(to: SocketAddr) -> Query {
    Query::to(to.ip()).ports(UDP, 4000, to.port())
}

fn template(query: Query, to: SocketAddr, generation: u64, payload_bytes_max: usize) -> Template {
    let source = if to.is_ipv4() { v4(1) } else { v6(1, 1) };
    let ip = IpHeader::new(source, to.ip(), UDP);
    let ethernet =
        EthernetHeader { destination: [2; 6], source: [4; 6], vlan: None, ethertype: ip.ethertype() };
    let headers = UdpHeaders::new(ethernet, ip, UdpHeader { source: 4000, destination: to.port() });
    Template { generation, query, headers: headers.unwrap(), interface: 1, payload_bytes_max }
}

/// Sends to each destination, two rounds. Returns how many of the second round have no template.
fn misses(templates: &mut Templates, of: impl Fn(u64) -> SocketAddr, count: u64) -> usize {
    let mut missed = 0;
    for round in [0, 1] {
        for at in 0..count {
            let query = query(of(at));
            if templates.get(&query, 1, 1000).is_none() {
                templates.put(template(query, of(at), 1, 1472));
                missed += round;
            }
        }
    }
    missed
}

#[test]
fn destinations_of_any_pattern_then_each_keeps_its_template() {
    let to = |ip| SocketAddr::new(ip, 8001);
    let patterns: [(&str, &dyn Fn(u64) -> SocketAddr); 9] = [
        ("neighbours", &|at| to(v4(10 << 24 | at))),
        ("anywhere", &|at| to(v4(scattered(at)))),
        ("one host of each /24", &|at| to(v4(10 << 24 | at << 8 | 7))),
        ("one host of each /16", &|at| to(v4(at << 16 | 7))),
        ("ports", &|at| SocketAddr::new(v4(10 << 24 | 7), 1024 + at as u16)),
        ("IPv6, anywhere", &|at| to(v6(0x2a << 56 | scattered(at) >> 8, scattered(at + 999)))),
        ("IPv6, hosts of a /64", &|at| to(v6(0x2a << 56, scattered(at)))),
        ("IPv6, one host of each /64", &|at| to(v6(0x2a << 56 | at, 1))),
        ("IPv6, hosts with their subnet's number", &|at| to(v6(0x2a << 56 | at, at))),
    ];
    for (name, of) in patterns {
        let missed = misses(&mut Templates::default(), of, DESTINATIONS);
        assert!(missed <= 4, "{name}: {missed} of {DESTINATIONS} have no template");
    }
}

#[test]
fn more_destinations_than_places_then_memory_is_bounded_and_the_last_are_kept() {
    let mut templates = Templates::default();
    let of = |at| SocketAddr::new(v4(scattered(at)), 8001);
    misses(&mut templates, of, 5000);
    assert_eq!(templates.all.len(), super::TEMPLATES);
    let kept = (4900..5000).filter(|at| templates.get(&query(of(*at)), 1, 0).is_some()).count();
    assert!(kept >= 98, "{kept} of the last 100");
}

#[test]
fn a_template_of_another_state_or_too_long_a_payload_then_it_is_no_good_and_gives_way_to_its_own() {
    let mut templates = Templates::default();
    let to = SocketAddr::new(v4(9), 1);
    for generation in 1..100 {
        assert!(templates.get(&query(to), generation, 0).is_none());
        templates.put(template(query(to), to, generation, 1472));
        assert!(templates.get(&query(to), generation, 1472).is_some());
        assert!(templates.get(&query(to), generation, 1473).is_none());
    }
    assert_eq!(templates.all.len(), 1);
}
