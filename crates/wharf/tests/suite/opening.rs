//! Wrong openings, and the kinds of error that they give.

use super::interfaces::enter_with_pair;
use std::error::Error;
use std::process::Command;
use wharf::{Direction, OpenErrorKind, PagePool, Port};

fn kind(spec: &str, direction: Direction) -> OpenErrorKind {
    let error = Port::open(spec, direction).expect_err(spec);
    let line = error.to_string();
    assert!(!line.contains('\n') && error.device() == spec, "{line}");
    error.kind()
}

#[test]
fn wrong_specifications_give_their_kind() {
    let table = [
        ("pigeon:eth0", OpenErrorKind::UnknownKind),
        ("", OpenErrorKind::UnknownKind),
        ("wire:colour=red", OpenErrorKind::BadKey),
        ("wire:ring=many", OpenErrorKind::BadKey),
        ("udp:", OpenErrorKind::BadKey),
    ];
    for (spec, expected) in table {
        assert_eq!(kind(spec, Direction::Send), expected, "{spec}");
    }
    assert_eq!(kind("null", Direction::Both), OpenErrorKind::Unsupported);
    let file = kind("pcap:/nowhere/at/all.pcap", Direction::Send);
    assert_eq!(file, OpenErrorKind::Io);
    let error = Port::open("pcap:/nowhere/at/all.pcap", Direction::Send).unwrap_err();
    assert!(error.source().is_some(), "the system's answer");
}

#[test]
fn an_address_in_use_gives_its_kind() {
    let first = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Both).unwrap();
    let spec = format!("{},dest=frame", first.name());
    assert_eq!(kind(&spec, Direction::Both), OpenErrorKind::InUse);
}

#[test]
#[ignore = "wants root"]
fn wrong_openings_of_interfaces_give_their_kind() {
    enter_with_pair();
    for (spec, expected) in [
        ("xdp:nowhere", OpenErrorKind::NoSuchInterface),
        ("packet:nowhere", OpenErrorKind::NoSuchInterface),
        ("xdp:va,queue=99", OpenErrorKind::NoSuchQueue),
    ] {
        assert_eq!(kind(spec, Direction::Send), expected, "{spec}");
    }
    let pool = PagePool::builder().build().unwrap();
    let open = || Port::builder("xdp:va,queue=1", Direction::Send).pool(&pool).build();
    let first = open().unwrap();
    assert_eq!(open().unwrap_err().kind(), OpenErrorKind::InUse);
    drop(first);
    assert!(Command::new("ip").args(["link", "set", "va", "down"]).status().unwrap().success());
    for spec in ["xdp:va", "packet:va"] {
        let error = Port::open(spec, Direction::Send).unwrap_err();
        assert_eq!(error.kind(), OpenErrorKind::Down, "{error}");
        assert!(error.help().is_some());
    }
}
