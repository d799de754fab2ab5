//! Wrong openings, and the kinds of error that they give.

use super::interfaces::enter_with_pair;
use std::error::Error;
use std::process::Command;
use wharf::device::Opened;
use wharf::qdisc::{Fifo, FifoLimit};
use wharf::queue::{QueueError, Rest, RxQueue};
use wharf::{Direction, OpenErrorKind, Owners, PagePool, Port};

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
fn settings_that_cannot_be_give_their_kind() {
    let null = || Port::builder("null", Direction::Send);
    let fifo = Fifo::new(FifoLimit::Packets(1));
    let device = || Opened::tx(wharf_devices::null::Null::default());
    let chains = "tap:wharf0,offload=on";
    for error in [
        null().owners(Owners::Poller { cpu: Some(9999) }).build().unwrap_err(),
        null().poller_cpu(9999).build().unwrap_err(),
        null().lane_packets(3).build().unwrap_err(),
        Port::builder("wire", Direction::Send).open(2).unwrap_err(),
        Port::builder("wire", Direction::Send).build_queues(0, |queue, _| queue).unwrap_err(),
        null().qdisc(fifo).build_queues(1, |queue, _| queue).unwrap_err(),
        Port::builder(chains, Direction::Both).build().unwrap_err(),
        Port::builder_over(vec![device(), device()], Direction::Send).build().unwrap_err(),
    ] {
        assert_eq!(error.kind(), OpenErrorKind::Setting, "{error}");
    }
}

#[test]
fn calls_that_a_port_cannot_serve_give_errors_to_match() {
    let sends = Port::open("null", Direction::Send).unwrap();
    let receives = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Receive).unwrap();
    let wire = Port::open("wire", Direction::Both).unwrap();
    let has = wire.receiver().unwrap();
    let polled = Port::builder("wire", Direction::Both).owners(Owners::Poller { cpu: None }).build().unwrap();
    drop(wire.far_end().unwrap());
    type Row = (QueueError, fn(&QueueError) -> bool, &'static str);
    let table: [Row; 7] = [
        (
            receives.sender("test").unwrap_err(),
            |e| matches!(e, QueueError::OnlyReceives { .. }),
            "it only receives",
        ),
        (
            sends.receiver().unwrap_err(),
            |e| matches!(e, QueueError::OnlySends { .. }),
            "it was opened to send",
        ),
        (
            wire.receiver().unwrap_err(),
            |e| matches!(e, QueueError::InUse { .. }),
            "its receive side is in use",
        ),
        (
            polled.receiver().unwrap_err(),
            |e| matches!(e, QueueError::PollerReceives { .. }),
            "its poller has to receive, too: take served_receiver, or owners that are senders",
        ),
        (
            wire.far_end().unwrap_err(),
            |e| matches!(e, QueueError::NoFarEnd { .. }),
            "its other end is not in this process",
        ),
        (
            sends.reopen().unwrap_err(),
            |e| matches!(e, QueueError::CannotReopen { .. }),
            "it cannot be opened again",
        ),
        (
            RxQueue::of(sends.queue().unwrap(), Box::new(|_| Rest::Free)).unwrap_err(),
            |e| matches!(e, QueueError::OnlySends { .. }),
            "it only sends",
        ),
    ];
    for (error, is_it, text) in table {
        assert!(is_it(&error), "{error:?}");
        assert!(error.to_string().ends_with(&format!(": {text}")), "{error}");
    }
    drop(has);
    let system = QueueError::System {
        device: "d".into(),
        what: "no descriptor",
        source: std::io::Error::other("none left"),
    };
    assert_eq!(system.to_string(), "d: no descriptor: none left");
    assert!(system.source().is_some());
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
