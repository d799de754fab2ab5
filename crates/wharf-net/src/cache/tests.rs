//! What a cache must not share or keep.

use super::{Cache, EPOCH_BITS};
use crate::hop::{Exit, Hop};
use crate::layers::tests::{address, attribute, link, neighbour, number, route, rule};
use crate::query::Query;
use crate::tables::Tables;
use std::net::IpAddr;

/// The default route by the gateway 10.0.0.2 on `top`, over `links`.
fn tables(top: u8, links: &[Vec<u8>]) -> Tables {
    let mut all = vec![rule(254, 1, 0, &[]), address(top, [10, 0, 0, 1])];
    all.push(route([0; 4], 0, top, &[(5, &[10, 0, 0, 2])]));
    all.push(neighbour(top, [10, 0, 0, 2], 2));
    all.extend_from_slice(links);
    Tables::replay(&all.concat())
}

#[test]
fn a_burst_does_not_change_the_answer_to_the_last_query() {
    let mut cache = Cache::new(tables(1, &[link(1, "a1", &[], None)]));
    let query = |from: [u8; 4]| Query::to([8, 8, 8, 8].into()).from(from.into());
    let source = |hop: &Hop| hop.source.expect("a source");
    let first = cache.lookup(&query([10, 1, 0, 1])).map(source);
    cache.lookup_all(&[query([10, 2, 0, 1])], |_, _| ());
    assert_eq!(cache.lookup(&query([10, 1, 0, 1])).map(source), first);
}

#[test]
fn flows_behind_a_gateway_keep_the_ports_of_a_bond_and_the_paths_of_a_tunnel() {
    let port = |index, name| {
        let slave = [attribute(4, b"bond"), attribute(5, &[attribute(1, &[0]), attribute(2, &[0])].concat())];
        link(index, name, &[(10, number(9)), (18, slave.concat())], None)
    };
    let bond = link(9, "bo", &[], Some(("bond", attribute(1, &[2]))));
    let bridge = link(8, "br", &[], Some(("bridge", vec![])));
    let vlan = link(7, "v7", &[(5, number(9))], Some(("vlan", attribute(1, &[7, 0]))));
    let links = [bond, vlan, bridge, port(3, "p3"), port(4, "p4"), link(5, "a5", &[(10, number(8))], None)];
    let ports = |top| {
        let mut cache = Cache::new(tables(top, &links));
        let mut by =
            |flow| cache.lookup(&Query::to([8, 8, 8, 8].into()).flow(flow)).expect("a hop").exit.clone();
        (1..64).map(&mut by).collect::<Vec<_>>()
    };
    for top in [9, 7] {
        let found = ports(top);
        assert!(found.contains(&Exit::Port(3)) && found.contains(&Exit::Port(4)), "{top}: {found:?}");
    }
    assert!(ports(8).iter().all(|exit| *exit == Exit::Flood(8)));
}

#[test]
fn queries_that_alternate_do_not_cost_each_other_their_answers() {
    let tables = tables(1, &[link(1, "a1", &[], None)]);
    let mut cache = Cache::new(tables.clone());
    let query = |from: u8, to: u8| Query::to([8, 8, 8, to].into()).from([10, 0, from, 1].into());
    let mut ask = |query: Query| {
        assert_eq!(cache.lookup(&query).cloned(), tables.lookup(&query), "{query:?}");
        cache.epochs
    };
    // A forwarder's packets: two of a flow at a time, of two hosts, to many.
    let first: Vec<_> = (0..20).map(|at| ask(query(1 + at / 2 % 2, at))).collect();
    assert!(first.iter().all(|epochs| *epochs == first[1]), "{first:?}");
    // A sender whose source changes for good.
    let then: Vec<_> = (0..20).map(|at| ask(query(9, at))).collect();
    assert!(then[2..].iter().all(|epochs| *epochs == first[1] + 1), "{then:?}");
}

#[test]
fn a_path_that_has_taught_its_mtu_has_an_answer_of_its_own() {
    let mut all = vec![rule(254, 1, 0, &[]), address(1, [10, 0, 0, 1]), link(1, "a1", &[], None)];
    all.push(route([0; 4], 0, 1, &[(5, &[10, 0, 0, 2])]));
    let mut exception = route([8, 8, 8, 8], 32, 1, &[(8, &attribute(2, &1300_u32.to_ne_bytes()))]);
    exception[25] = 2; // RTM_F_CLONED
    all.push(exception);
    let mut cache = Cache::new(Tables::replay(&all.concat()));
    let queries: Vec<_> = (0..40).map(|at| Query::to([8, 8, 8, at].into())).collect();
    let mtu = |hop: &Hop| hop.mtu_bytes;
    let mtus: Vec<_> = queries.iter().map(|query| cache.lookup(query).map(mtu).expect("a hop")).collect();
    assert_eq!((mtus[8], mtus.iter().filter(|mtu| **mtu == 1500).count()), (1300, 39));
    cache.lookup_all(&queries, |query, hop| {
        let is_taught = query.destination() == IpAddr::from([8, 8, 8, 8]);
        assert_eq!(hop.map(mtu), Ok(if is_taught { 1300 } else { 1500 }));
    });
    assert_eq!(cache.steps.iter().filter(|step| **step != 0).count(), 1, "the others share one");
}

#[test]
fn one_route_at_several_lengths_has_one_answer_that_says_each_length() {
    let mut all = vec![rule(254, 1, 0, &[]), address(1, [10, 0, 0, 1]), link(1, "a1", &[], None)];
    for len in 0..=24 {
        all.push(route([8, 8, 8, 0], len, 1, &[(5, &[10, 0, 0, 2])]));
    }
    all.push(neighbour(1, [10, 0, 0, 2], 2));
    let tables = Tables::replay(&all.concat());
    let mut cache = Cache::new(tables.clone());
    // Of 8.8.8.1, one bit of each differs.
    let to = |at: u32| {
        IpAddr::from((0x0808_0801 ^ 1_u32.checked_shl(31_u32.wrapping_sub(at)).unwrap_or(0)).to_be_bytes())
    };
    let queries: Vec<_> = (0..33).map(|at| Query::to(to(at))).collect();
    for query in queries.iter().rev().chain(&queries) {
        assert_eq!(cache.lookup(query).cloned(), tables.lookup(query), "{query:?}");
    }
    cache.lookup_all(&queries, |query, hop| assert_eq!(hop.cloned(), tables.lookup(query), "{query:?}"));
    let lens: Vec<_> =
        queries.iter().map(|query| tables.lookup(query).map(|hop| hop.why.prefix_len)).collect();
    assert_eq!((lens[0], lens[10], lens[32]), (Ok(0), Ok(10), Ok(24)));
    assert_eq!(cache.steps.iter().filter(|step| **step != 0).count(), 1, "all share one");
}

/// Of epochs there are so many that they come again.
#[test]
fn steps_of_long_ago_are_not_taken_for_those_of_now() {
    let mut cache = Cache::new(tables(1, &[link(1, "a1", &[], None)]));
    let query = |from: u8| Query::to([8, 8, 8, 8].into()).from([10, 0, from, 1].into());
    for (epochs, from) in [(2, 1), ((1 << EPOCH_BITS) - 1, 2)] {
        cache.epochs = epochs;
        for at in 0..3 {
            let query = query(from).port(at);
            let source = cache.lookup(&query).map(|hop| hop.source);
            assert_eq!(source, Ok(query.source()));
        }
    }
    assert!(cache.epochs < 10, "{}", cache.epochs);
}

#[test]
fn a_prefix_that_is_passed_over_is_no_step_to_the_next_table_if_a_shorter_one_ends_the_lookup() {
    let [mut none, mut other] = [route([0; 4], 0, 1, &[]), route([0; 4], 0, 1, &[(5, &[10, 0, 0, 2])])];
    (none[23], other[20]) = (7, 100); // RTN_UNREACHABLE; rtm_table
    let all = [
        rule(254, 1, 0, &[(6, &number(90)), (14, &number(8))]),
        rule(100, 1, 0, &[(6, &number(100))]),
        address(1, [10, 0, 0, 1]),
        link(1, "a1", &[], None),
        link(2, "a2", &[], None),
        route([10, 0, 0, 0], 8, 2, &[(5, &[10, 2, 0, 2])]),
        route([11, 0, 0, 0], 8, 1, &[(5, &[10, 0, 0, 2])]),
        none,
        other,
        neighbour(1, [10, 0, 0, 2], 2),
    ];
    let tables = Tables::replay(&all.concat());
    let query = |to: [u8; 4]| Query::to(to.into()).output(1);
    assert_ne!(tables.lookup(&query([10, 1, 1, 1])), tables.lookup(&query([11, 0, 0, 1])));
    for first in [10, 11] {
        let mut cache = Cache::new(tables.clone());
        for number in 0..6 {
            for query in [query([first, 0, 0, number]), query([21 - first, 0, 0, number])] {
                assert_eq!(cache.lookup(&query).cloned(), tables.lookup(&query), "{query:?}");
            }
        }
    }
}
