//! Ends that cannot be forwarded between, and the end of a run.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use wharf::device::Opened;
use wharf::forward::{Forward, ForwardError, ForwardSettings};
use wharf::qdisc::{FqCodel, FqCodelOptions, Qdisc};
use wharf::{Direction, PagePool, Port, PortBuilder};
use wharf_devices::null::Null;
use wharf_devices::wire::{WireSpec, wire};
use wharf_testkit::gate::Gate;
use wharf_testkit::threads::within;

/// Returns an end of so many queues that only send.
fn sending(count: usize) -> PortBuilder {
    Port::builder_over((0..count).map(|_| Opened::tx(Null::default())).collect(), Direction::Send)
}

#[test]
fn queues_that_have_no_other_end_are_refused() {
    for (a, b, refused) in [(2, 3, true), (3, 2, true), (1, 3, false), (2, 2, false)] {
        match Forward::start([sending(a), sending(b)], &ForwardSettings::default()) {
            Err(ForwardError::Queues { a_queues, b_queues, .. }) => {
                assert!(refused && (a_queues, b_queues) == (a, b), "{a} and {b}");
            }
            // Both only send.
            Err(ForwardError::Nothing { .. }) => assert!(!refused, "{a} and {b}"),
            other => panic!("{other:?}"),
        }
    }
    let wires = || Port::builder("wire", Direction::Both);
    let refused = Forward::start([wires(), sending(1)], &ForwardSettings::default());
    assert!(matches!(refused, Err(ForwardError::OtherEnd { .. })), "{refused:?}");
    assert!(Forward::start([sending(0), sending(1)], &ForwardSettings::default()).is_err());
    let refused = Forward::start([sending(1), sending(1), sending(1)], &ForwardSettings::default());
    assert!(matches!(refused, Err(ForwardError::Port { .. })), "{refused:?}");
}

#[test]
fn vlans_of_no_port_are_refused() {
    let end = || Port::builder_over(vec![Opened::duplex(wire(&WireSpec::default()).0)], Direction::Both);
    let name = end().devices()[0].device.name();
    for (port, refused) in [(name.as_str(), false), ("tap:other", true)] {
        let settings =
            ForwardSettings { vlans: vec![(port.into(), "10".into())], ..ForwardSettings::default() };
        let started = Forward::start([end(), end(), end()], &settings);
        assert_eq!(started.is_err(), refused, "{port}: {started:?}");
    }
}

/// What the disciplines of a direction share, a rate above all, the other direction has no part of.
#[test]
fn each_direction_has_disciplines_of_its_own_making() {
    let end = || Port::builder_over(vec![Opened::duplex(wire(&WireSpec::default()).0)], Direction::Both);
    let fq_codel = |_: &PagePool| -> Box<dyn Qdisc> { Box::new(FqCodel::new(FqCodelOptions::default())) };
    let mut settings = ForwardSettings::default();
    // In front of the second end.
    settings.qdisc.push(Box::new(fq_codel));
    let forward = Forward::start([end(), end()], &settings).unwrap();
    let has_stats = |direction: &wharf::forward::Direction| !direction.queues[0].qdisc_stats().is_empty();
    assert_eq!(forward.directions().iter().map(has_stats).collect::<Vec<_>>(), [true, false]);
}

/// What is left of a port that was unplugged is a part of the sum of its end.
#[test]
fn ports_that_come_and_go_leave_little_memory_and_no_poller() {
    let end = || Port::builder_over(vec![Opened::duplex(wire(&WireSpec::default()).0)], Direction::Both);
    let settings = ForwardSettings::default();
    let mut forward = Forward::start([end(), end(), end()], &settings).unwrap();
    let mut parts = Vec::new();
    for _ in 0..200 {
        parts.push(forward.directions()[2].receivers[0].measured());
        forward.unplug(2);
        forward.plug(end(), &settings).unwrap();
    }
    let kept = parts.iter().filter(|part| part.upgrade().is_some()).count();
    assert!(kept <= 1, "{kept} of 200 ports are still there");
    assert_eq!(forward.poller_counters().count(), 3);
    let summaries = forward.finish(Duration::ZERO);
    assert_eq!(summaries.iter().map(|one| one.queues.len()).collect::<Vec<_>>(), [1; 4]);
}

#[test]
fn port_that_is_plugged_then_it_has_a_poller_of_those_that_were_asked_for() {
    let end = || Port::builder_over(vec![Opened::duplex(wire(&WireSpec::default()).0)], Direction::Both);
    for (asked, threads) in [(None, [3, 4]), (Some(2), [2, 2]), (Some(9), [3, 4])] {
        let settings = ForwardSettings { pollers: asked, ..ForwardSettings::default() };
        let mut forward = Forward::start([end(), end(), end()], &settings).unwrap();
        let started = forward.poller_counters().count();
        forward.plug(end(), &settings).unwrap();
        assert_eq!([started, forward.poller_counters().count()], threads, "{asked:?}");
        forward.finish(Duration::ZERO);
    }
}

/// Ports that take nothing hold a part of the memory each.
#[test]
fn ports_of_a_switch_that_take_nothing_then_the_others_go_on() {
    let (ends, far): (Vec<_>, Vec<_>) = (0..5).map(|_| wire(&WireSpec::default())).unzip();
    let ends: Vec<_> =
        ends.into_iter().map(|end| Port::builder_over(vec![Opened::duplex(end)], Direction::Both)).collect();
    let settings = ForwardSettings { frames: Some(512), flood_pps: u32::MAX, ..ForwardSettings::default() };
    let forward = Forward::start(ends, &settings).unwrap();
    let far =
        far.into_iter().map(|end| Port::builder_over(vec![Opened::duplex(end)], Direction::Both).build());
    let far: Vec<Port> = far.collect::<Result<_, _>>().unwrap();
    let mut senders: Vec<_> = far[..2].iter().map(|port| port.sender("test").unwrap()).collect();
    let mut receivers: Vec<_> = far[..2].iter().map(|port| port.receiver().unwrap()).collect();
    let mut send = |from: usize, to: u8, len_bytes: u32| {
        let mut packet = senders[from].packet(len_bytes, Duration::from_secs(9)).unwrap();
        packet.bytes_mut().fill(0);
        packet.bytes_mut()[..14].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from as u8, 0x88, 0xb5]);
        assert_eq!(senders[from].send_packet(packet, Duration::from_secs(9)).unwrap().accepted, 1);
    };
    let mut hear = |at: usize| {
        let (mut burst, began) = (far[at].burst(64), Instant::now());
        while began.elapsed() < Duration::from_millis(200) {
            receivers[at].recv(&mut burst, Duration::from_millis(100)).unwrap();
            if burst.iter().any(|bytes| bytes.len() == 99) {
                return true;
            }
            burst.clear();
        }
        false
    };
    for _ in 0..6000 {
        // To all: three ports take no more than their wire holds.
        send(0, 9, 1500);
    }
    // The ports that take what comes may drop some of it, too: they have had the same load.
    let mut heard = |from: usize, to: usize| {
        (0..100).any(|_| {
            send(from, to as u8, 99);
            hear(to)
        })
    };
    assert!(heard(1, 0), "the first hears the second");
    assert!(heard(0, 1), "the second hears the first");
    drop((senders, receivers));
    forward.finish(Duration::ZERO);
}

/// True once the run is over, or its receive side has ended with an error, within `time`.
fn ends_within(forward: &Forward, time: Duration) -> bool {
    // A device that panics while the receive side takes its completions ends that side.
    let has_error = || forward.directions()[0].receivers[0].take_error().is_some();
    within(time, || forward.is_over() || has_error())
}

/// A run ends when the last frame has left, or when the device that it waits for has panicked.
#[test]
fn what_is_inside_leaves_before_the_end_unless_its_queue_is_dead() {
    for dies in [false, true] {
        let read = concat!("pcap:", env!("CARGO_MANIFEST_DIR"), "/../../data/sample.pcap");
        let (gate, control) = Gate::new(4);
        let from = Port::builder(read, Direction::Receive);
        let to = Port::builder_over(vec![Opened::tx(gate)], Direction::Send);
        let forward = Forward::start([from, to], &ForwardSettings::default()).unwrap();
        assert!(!ends_within(&forward, Duration::from_millis(300)), "frames are inside, and wait for room");
        if dies {
            control.bomb.store(1, SeqCst);
        }
        control.allowed.store(usize::MAX / 2, SeqCst);
        assert!(ends_within(&forward, Duration::from_secs(20)), "dies: {dies}");
        let direction = &forward.directions()[0];
        let sent = direction.queues[0].counters().sent.get();
        assert_eq!(sent == 2200, !dies, "{sent}");
        forward.finish(Duration::ZERO);
    }
}
