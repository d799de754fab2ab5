//! A recording of Linux 6.18 (`tests/data/record.py`): dumps of all tables, then events.

use crate::cache::Cache;
use crate::hop::{Hop, Neighbour, NoHop};
use crate::query::Query;
use crate::socket::{Dump, Dumped};
use crate::tables::Tables;
use crate::wire::{DONE, HEADER_BYTES, messages};
use proptest::prelude::*;
use std::net::IpAddr;

const RECORDING: &[u8] = include_bytes!("../../tests/data/linux-6.18.nl");
/// The number of the dump of IPv4's routes.
const ROUTES_V4: u32 = 6;

fn lookup(to: &str, from: Option<&str>) -> Result<Hop, NoHop> {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let query = Query::to(address(to));
    Tables::replay(RECORDING).lookup(&from.map_or(query, |from| query.from(address(from))))
}

/// Says a hop in a line: interface, gateway, source, MTU, last byte of the MAC.
fn line(hop: Result<Hop, NoHop>) -> String {
    let hop = hop.unwrap();
    let name = Tables::replay(RECORDING).interface_name(hop.interface).unwrap();
    let or_none = |address: Option<IpAddr>| address.map_or("-".into(), |address| address.to_string());
    let mac = hop.neighbour.mac().map_or("-".into(), |mac| format!("{:02x}", mac[5]));
    format!("{name} {} {} {} {mac}", or_none(hop.gateway), or_none(hop.source), hop.mtu_bytes)
}

#[test]
fn events_change_what_the_dumps_said() {
    assert_eq!(line(lookup("8.8.8.8", None)), "a1 10.1.0.2 10.1.0.1 1500 09", "the neighbour's new MAC");
    assert_eq!(line(lookup("20.1.1.1", None)), "a2 10.2.0.2 10.2.0.1 1500 -", "replaced: no multipath now");
    assert_eq!(line(lookup("21.1.1.1", None)), "a1 10.1.0.2 10.1.0.1 1500 09", "no blackhole now");
    assert_eq!(line(lookup("22.1.1.1", None)), "a2 fe80::b 10.2.0.1 1400 -", "by an IPv6 gateway");
    assert_eq!(line(lookup("23.1.1.1", None)), "a1 10.1.0.7 10.1.0.1 1500 -", "by the object's new gateway");
    assert_eq!(line(lookup("24.1.1.1", Some("10.2.0.1"))), "a2 10.2.0.2 10.2.0.1 1500 -", "by a rule");
    assert_eq!(line(lookup("24.1.1.1", None)), "a1 10.1.0.2 10.1.0.1 1500 09");
    assert_eq!(line(lookup("25.1.1.1", None)), "a1 10.1.0.2 10.1.0.1 1500 09");
    assert_eq!(line(lookup("2001:db8::9", None)), "a1 fd01::2 fd01::1 1500 01");
    assert_eq!(line(lookup("10.1.0.1", None)), "lo - 10.1.0.1 65535 -");
    assert_eq!(lookup("2001:dead::1", None), Err(NoHop::NoRoute));
    assert_eq!(lookup("10.2.0.77", None).unwrap().neighbour, Neighbour::Unknown);
}

#[test]
fn the_end_of_a_dump_may_stand_behind_data() {
    let (mut count, mut dump) = (0, Dump::new(ROUTES_V4));
    let ended = dump.read(RECORDING, &mut |_| count += 1).unwrap();
    assert_eq!(ended, Some(Dumped::Whole), "all in one datagram, as since Linux 6.9");
    assert!(count >= 12, "{count} routes");
}

#[test]
fn an_end_in_a_datagram_of_its_own_ends_it_too() {
    let mut dump = Dump::new(ROUTES_V4);
    let mut at = 0;
    for message in messages(RECORDING) {
        let end = at + (HEADER_BYTES + message.body.len()).next_multiple_of(4);
        let ended = dump.read(&RECORDING[at..end], &mut |_| ()).unwrap();
        at = end;
        if message.sequence == ROUTES_V4 && message.kind == DONE {
            return assert_eq!(ended, Some(Dumped::Whole));
        }
        assert_eq!(ended, None);
    }
    panic!("no end");
}

#[test]
fn a_dump_that_was_interrupted_says_so() {
    let mut recording = RECORDING.to_vec();
    let of_routes = messages(RECORDING).position(|message| message.sequence == ROUTES_V4).unwrap();
    let before = messages(RECORDING).take(of_routes + 3);
    let at: usize = before.map(|it| (HEADER_BYTES + it.body.len()).next_multiple_of(4)).sum();
    recording[at + 6] |= 0x10;
    let ended = Dump::new(ROUTES_V4).read(&recording, &mut |_| ()).unwrap();
    assert_eq!(ended, Some(Dumped::Interrupted));
}

#[test]
fn an_error_ends_a_dump_and_what_the_kernel_does_not_have_is_none() {
    let error = |number: i32| {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend((-number).to_ne_bytes());
        bytes.resize(36, 0);
        bytes
    };
    let read = |number| Dump::new(1).read(&error(number), &mut |_| ());
    assert_eq!(read(95).unwrap(), Some(Dumped::Whole), "EOPNOTSUPP: no rules, no objects");
    assert_eq!(read(1).unwrap_err().raw_os_error(), Some(1), "EPERM");
    assert!(read(i32::MIN + 1).is_err(), "no error that there is");
}

#[test]
fn a_recording_may_end_anywhere() {
    for end in (0..RECORDING.len()).step_by(61) {
        Tables::replay(&RECORDING[..end]).lookup(&Query::to([20, 1, 1, 1].into())).ok();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever lengths and kinds say: every walk ends, and nothing panics.
    #[test]
    fn any_bytes_are_read(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut recording = RECORDING.to_vec();
        for (at, byte) in changes {
            recording[at.index(RECORDING.len())] = byte;
        }
        let tables = Tables::replay(&recording);
        let mut cache = Cache::new(tables.clone());
        for to in [[20, 1, 1, 1], [22, 1, 1, 1], [23, 9, 9, 9], [10, 2, 0, 7], [224, 0, 0, 5]] {
            let query = Query::to(to.into());
            for query in [query, query.from([10, 2, 0, 1].into()), query.output(2)] {
                assert_eq!(cache.lookup(&query).cloned(), tables.lookup(&query));
            }
        }
        Dump::new(ROUTES_V4).read(&recording, &mut |_| ()).ok();
    }
}
