//! When parts are dumped, and which MTUs of paths are kept. The tables are those of the machine.

use super::{EXCEPTIONS_PREFIXES_MAX, Mirror, part, place_of};
use crate::kernel::{Fact, NEW_ROUTE, fact_of};
use crate::wire::Message;
use std::time::{Duration, Instant};

/// A route of table 100 to one address. `flags` are those of `rtmsg`.
fn route(to: u32, flags: u32, attributes: &[u8]) -> Fact {
    let mut body = vec![2, 32, 0, 0, 100, 3, 0, 1];
    body.extend(flags.to_ne_bytes());
    body.extend([8, 0, 1, 0]);
    body.extend(to.to_be_bytes());
    body.extend([8, 0, 4, 0, 1, 0, 0, 0]);
    body.extend(attributes);
    fact_of(NEW_ROUTE, &body).expect("a route")
}

#[test]
fn a_part_that_rests_holds_back_no_other_and_is_due_later() {
    let mut mirror = Mirror::open().expect("a mirror");
    let later = Instant::now() + Duration::from_secs(3600);
    mirror.exceptions_due = later;
    mirror.rest_until[place_of(part::ROUTES_V4)] = later;
    mirror.wanted = part::ROUTES_V4 | part::RULES | part::ADDRESSES;
    assert!(mirror.due() < later, "rules and addresses do not rest");
    // Other programs change the tables meanwhile: that is asked for, too, and soon no more.
    let rests = (0..1000).any(|_| {
        mirror.turn().expect("a turn");
        mirror.wanted == part::ROUTES_V4 && mirror.due() == later
    });
    assert!(rests, "{} are wanted", mirror.wanted);
}

#[test]
fn what_ipv6_says_of_an_interface_makes_the_interfaces_be_dumped() {
    let mut mirror = Mirror::open().expect("a mirror");
    let take = |mirror: &mut Mirror, kind, family| {
        let message = Message { kind, flags: 0, sequence: 0, body: &[family; 16] };
        mirror.state.take(&message).1
    };
    const LINK: u16 = 16;
    assert_eq!(take(&mut mirror, LINK, 10), part::LINKS);
}

#[test]
fn mtus_of_paths_that_are_not_followed_are_dropped() {
    let mut mirror = Mirror::open().expect("a mirror");
    for to in 0..=EXCEPTIONS_PREFIXES_MAX as u32 {
        mirror.state.fill(route(0x1400_0000 + to, 0, &[]));
    }
    let mtu = [[12, 0, 8, 0], [8, 0, 2, 0], 1300_u32.to_ne_bytes()].concat();
    mirror.state.fill(route(0x1400_0000, 0x200, &mtu));
    assert_eq!(mirror.state.now.exceptions[0].len(), 1);
    mirror.exceptions_due = Instant::now();
    assert!(mirror.turn().expect("a turn"));
    assert!(mirror.state.now.exceptions[0].is_empty());
}
