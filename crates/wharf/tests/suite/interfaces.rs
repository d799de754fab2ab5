//! Paths over interfaces: a pair of them with four queues each, in a network of its own. Wants root and `ip`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wharf::Events;
use wharf::queue::Spread;
use wharf::{Direction, Event, Port, Wait, net};
use wharf_testkit::threads::{within, within_a_minute};

const QUEUES: u32 = 4;
const FLOWS: u16 = 64;
/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("wants `ip`");
    assert!(status.success(), "ip {arguments}");
}

pub(crate) fn enter_with_pair() {
    wharf_sys::namespace::enter_new_network().expect("wants root");
    let queues = format!("numrxqueues {QUEUES} numtxqueues {QUEUES}");
    for name in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
    ip(&format!("link add va {queues} type veth peer name vb {queues}"));
    ip("link set va up");
    ip("link set vb up");
}

/// Writes a UDP datagram over IPv4 of port `flow`, with its number.
fn write(bytes: &mut [u8], flow: u16, number: u32) {
    bytes.fill(0);
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    bytes[14..24].copy_from_slice(&[0x45, 0, 0, 86, 0, 0, 0, 0, 64, net::UDP]);
    bytes[26..34].copy_from_slice(&[10, 9, 0, 1, 10, 9, 0, 2]);
    bytes[34..36].copy_from_slice(&flow.to_be_bytes());
    bytes[38..40].copy_from_slice(&66u16.to_be_bytes());
    bytes[42..46].copy_from_slice(&number.to_be_bytes());
}

/// Sends flows over the queues of `kind`, to two receivers for each queue of the other end. Returns the numbers of queues
/// and receivers by flow.
fn receivers_by(kind: &str) -> BTreeMap<u16, (usize, usize)> {
    let open = |interface, direction| {
        let builder = Port::builder(&format!("{kind}:{interface}"), direction);
        builder.build_queues(QUEUES, |queue, _| queue).unwrap()
    };
    let (far, near) = (open("vb", Direction::Both), open("va", Direction::Send));
    let split = |path: &Port| path.receivers(2, |bytes| net::flow_hash(bytes) >> 8).unwrap();
    let mut receivers: Vec<_> = far.iter().map(split).collect();
    let senders: Result<_, _> = near.iter().map(|path| path.sender("test")).collect();
    let mut sender = Spread::new(senders.unwrap()).unwrap();
    let (mut burst, mut received) = (near[0].burst(256), far[0].burst(256));
    let (mut places, mut next) = (BTreeMap::new(), BTreeMap::<u16, u32>::new());
    for number in 0..100 {
        sender.fill(&mut burst, FLOWS.into(), 100, LONG).unwrap();
        (0..FLOWS).zip(burst.iter_mut()).for_each(|(flow, bytes)| write(bytes, flow, number));
        _ = sender.send(&mut burst, LONG).unwrap();
        let (mut arrived, since) = (0, Instant::now());
        while arrived < FLOWS {
            assert!(since.elapsed() < LONG, "{kind}: {arrived} of round {number}");
            for (queue, receivers) in receivers.iter_mut().enumerate() {
                for (at, receiver) in receivers.iter_mut().enumerate() {
                    receiver.recv(&mut received, Wait::Never).unwrap();
                    for bytes in received.iter_mut().filter(|bytes| bytes[23] == net::UDP) {
                        let flow = u16::from_be_bytes([bytes[34], bytes[35]]);
                        let next = next.entry(flow).or_default();
                        assert_eq!(bytes[42..46], next.to_be_bytes(), "{kind}: flow {flow} in order");
                        assert_eq!(*places.entry(flow).or_insert((queue, at)), (queue, at), "{kind}: {flow}");
                        (*next, arrived) = (*next + 1, arrived + 1);
                    }
                    received.clear();
                }
            }
        }
    }
    for path in &far {
        let mut answers = path.sender("answers").unwrap();
        answers.fill(&mut received, 8, 100, LONG).unwrap();
        _ = answers.send(&mut received, LONG).unwrap();
        assert!(path.drain(LONG) && path.queue().unwrap().counters().sent.get() == 8, "{kind}");
    }
    drop((sender, receivers, burst, received));
    let audits = near.iter().chain(&far).map(|path| path.close(LONG));
    let outs: Vec<_> = audits.map(|audit| audit.out()).collect();
    assert_eq!((outs[QUEUES as usize - 1], outs.last()), (0, Some(&0)), "{kind}");
    places
}

#[test]
#[ignore = "wants root"]
fn flows_keep_to_a_queue_and_to_a_receiver_of_it() {
    within_a_minute(|| {
        enter_with_pair();
        for kind in ["packet", "xdp"] {
            let places = receivers_by(kind);
            let queues: std::collections::BTreeSet<_> = places.values().collect();
            assert!(queues.len() > QUEUES as usize, "{kind}: {places:?}");
        }
    });
}

#[test]
#[ignore = "wants root"]
fn packets_before_a_receivers_first_call_then_it_has_them() {
    within_a_minute(|| {
        enter_with_pair();
        let (near, far) = (
            Port::open("xdp:va", Direction::Send).unwrap(),
            Port::open("xdp:vb", Direction::Receive).unwrap(),
        );
        let (mut sender, mut receiver) = (near.sender("test").unwrap(), far.receiver().unwrap());
        let (mut burst, mut received, mut packets) = (near.burst(32), far.burst(32), 0);
        sender.fill(&mut burst, 32, 100, LONG).unwrap();
        burst.iter_mut().zip(0..).for_each(|(bytes, number)| write(bytes, 1, number));
        _ = sender.send(&mut burst, LONG).unwrap();
        assert!(near.drain(LONG));
        while packets < 32 {
            assert!(receiver.recv(&mut received, LONG).unwrap() > 0, "{packets} of 32");
            packets += received.iter_mut().filter(|bytes| bytes[23] == net::UDP).count();
            received.clear();
        }
    });
}

/// Sends numbered datagrams until `stop`. Returns the packets accepted.
fn send_until(path: &Port, stop: &AtomicBool) -> u64 {
    let mut sender = path.sender("test").unwrap();
    let (mut burst, mut accepted, time) = (path.burst(32), 0, Duration::from_millis(20));
    while !stop.load(SeqCst) {
        if sender.fill(&mut burst, 32, 100, time).is_ok_and(|filled| filled > 0) {
            burst.iter_mut().zip(0..).for_each(|(bytes, number)| write(bytes, 1, number));
            // What has no room by then is dropped.
            _ = sender.send(&mut burst, time);
            accepted += 32 - burst.len() as u64;
        }
        burst.clear();
        std::thread::sleep(Duration::from_micros(100));
    }
    accepted
}

fn receive_until(path: &Port, stop: &AtomicBool, packets: &AtomicU64) {
    let (mut receiver, mut received) = (path.receiver().unwrap(), path.burst(256));
    while !stop.load(SeqCst) {
        receiver.recv(&mut received, Duration::from_millis(20)).unwrap();
        let count = received.iter_mut().filter(|bytes| bytes.get(23) == Some(&net::UDP)).count();
        packets.fetch_add(count as u64, SeqCst);
        received.clear();
    }
}

fn wait_for(events: &mut Events, what: &str, is_it: impl Fn(&Event) -> bool) {
    let began = Instant::now();
    while !events.wait(LONG).is_some_and(|event| is_it(&event)) {
        assert!(began.elapsed() < LONG, "not {what}");
    }
}

/// Deletes an interface under traffic and makes it again, three times.
fn made_again(near: &str, far: &str, delete: &str, make: impl Fn()) {
    let near = Port::open(near, Direction::Send).unwrap();
    let far = Port::open(far, Direction::Receive).unwrap();
    let (stop, packets) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut near_events, mut far_events) = (near.events().unwrap(), far.events().unwrap());
    let arrive = |from: &str| {
        let (before, began) = (packets.load(SeqCst), Instant::now());
        let arrive = within(LONG, || packets.load(SeqCst) >= before + 1000);
        assert!(arrive, "{near:?} {from}: {:?} {:?}", near.state(), far.state());
        began.elapsed()
    };
    let accepted = std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_until(&near, &stop));
        scope.spawn(|| receive_until(&far, &stop, &packets));
        arrive("at first");
        for _ in 0..3 {
            ip(delete);
            wait_for(&mut near_events, "gone", |event| matches!(event, Event::Gone { .. }));
            std::thread::sleep(Duration::from_millis(150));
            make();
            let made = Instant::now();
            let is_back = |event: &Event| matches!(event, Event::Reopened { .. });
            wait_for(&mut near_events, "sent by again", is_back);
            eprintln!("{near:?}: open {:?} after it was made", made.elapsed());
            wait_for(&mut far_events, "received from again", is_back);
            eprintln!("{near:?}: 1000 packets {:?} after both are open", arrive("again"));
        }
        stop.store(true, SeqCst);
        sending.join().unwrap()
    });
    let audits = [near.close(LONG), far.close(LONG)];
    let counters = near.queue().unwrap().counters();
    let ends = (counters.sent.get(), counters.failed.get(), counters.returned.get());
    assert_eq!((ends.0 + ends.1 + ends.2, counters.accepted.get()), (accepted, accepted), "{ends:?}");
    assert_eq!([audits[0].out(), audits[1].out()], [0, 0], "{near:?} {} {}", audits[0], audits[1]);
    eprintln!("{near:?}: {accepted} accepted, {ends:?}, {:?}", counters.failures());
}

#[test]
#[ignore = "wants root"]
fn interface_that_is_made_again_carries_traffic_again() {
    within_a_minute(|| {
        enter_with_pair();
        let pair = || {
            ip("link add va type veth peer name vb");
            ip("link set va up");
            ip("link set vb up");
        };
        for kind in ["packet", "xdp"] {
            made_again(&format!("{kind}:va"), &format!("{kind}:vb"), "link del va", pair);
        }
        // The device makes its interface by itself.
        made_again("tap:t0", "packet:t0", "link del t0", || {});
    });
}
