//! A port's snapshot: it adds up at any time, outlives receivers and the port, and can be subtracted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use wharf::device::wrap_device;
use wharf::metrics::Snapshot;
use wharf::queue::Rest;
use wharf::testing::{Fault, FaultSpec, Virtual};
use wharf::{Direction, Port, Wait};
use wharf_testkit::threads::{eventually, within_a_minute};

/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn counts_add_up_at_any_time_and_outlive_receivers_and_the_port() {
    let time = Virtual::new();
    let (port, faults) = time.port_with_faults("wire:ring=64", "error=10%,late=10%,seed=3").unwrap();
    let far_end = port.far_end().unwrap();
    let (mut sender, begun) = (port.sender("test").unwrap(), port.snapshot());
    let (mut burst, mut received, mut arrived) = (sender.burst(16), far_end.burst(16), 0);
    for round in 0..40 {
        // Each receiver takes a few packets, and goes.
        let mut receiver = far_end.receiver().unwrap();
        sender.fill(&mut burst, 16, 100, LONG).unwrap();
        _ = sender.send(&mut burst, LONG).unwrap();
        arrived += receiver.recv(&mut received, LONG).unwrap();
        received.clear();
        let now = port.snapshot() - begun.clone();
        assert_eq!(now.accepted, 16 * (round + 1));
        assert_eq!(now.accepted, now.sent + now.failed + now.returned + now.inside, "{now:?}");
        drop(receiver);
        assert_adds_up(&far_end, arrived as u64);
    }
    drop(sender);
    let half = port.snapshot();
    port.close(LONG);
    let end = port.snapshot();
    assert_eq!((end.accepted, end.inside), (640, 0), "{end:?}");
    assert_eq!(end.accepted, end.sent + end.failed + end.returned);
    assert_eq!((end.failed, end.drops.get("injected")), (faults.of("error"), Some(&faults.of("error"))));
    assert_eq!((end.clone() - half).accepted, 0);
    let far = far_end.snapshot();
    // What a receiver had not taken when it went was its own.
    assert!(far.received >= arrived as u64 && far.received <= end.sent, "{far:?} of {end:?}");
    assert_eq!(far.received_bytes, far.received * 100);
}

/// Asserts that both sides add up, `taken` packets having been taken by receivers.
fn assert_adds_up(port: &Port, taken: u64) -> Snapshot {
    let now = port.snapshot();
    assert_eq!(now.received, taken + now.waiting + now.received_drops, "{now:?}");
    assert_eq!(now.accepted, now.sent + now.failed + now.returned + now.inside, "{now:?}");
    let drops = now.dropped_at_senders + now.failed + now.lost + now.received_drops;
    assert_eq!(now.drops.values().sum::<u64>(), drops, "{now:?}");
    now
}

#[test]
fn receive_side_adds_up_while_receivers_come_and_go_and_once_the_port_is_closed() {
    let time = Virtual::new();
    let port = time.port("wire").unwrap();
    let far_end = port.far_end().unwrap();
    let mut sender = port.sender("test").unwrap();
    let (mut burst, mut received, mut taken) = (sender.burst(64), far_end.burst(16), 0);
    let mut receivers = far_end.receivers(2, |bytes| bytes[0].into()).unwrap();
    for round in 0..119 {
        sender.fill(&mut burst, 8, 60, LONG).unwrap();
        burst.iter_mut().enumerate().for_each(|(at, packet)| packet[0] = at as u8);
        _ = sender.send(&mut burst, LONG).unwrap();
        time.run(Duration::from_millis(1));
        if round < 60 {
            taken += receivers[1].recv(&mut received, Wait::Never).unwrap() as u64;
            received.clear();
        } else if round == 60 {
            receivers.truncate(1);
        }
        assert_adds_up(&far_end, taken);
    }
    // The far end takes no chains.
    let mut chain = sender.packet(1000, LONG).unwrap();
    chain.append(sender.packet(1000, LONG).unwrap()).unwrap();
    _ = sender.send_packet(chain, LONG).unwrap();
    time.run(Duration::from_millis(1));
    let now = assert_adds_up(&far_end, taken);
    assert_eq!((now.lost, now.waiting, now.drops.get("too-long")), (1, 256, Some(&1)), "{now:?}");
    assert!(now.drops["inbox-full"] > 0 && now.drops["receiver-gone"] > 0, "{now:?}");
    far_end.close(LONG);
    assert_eq!(assert_adds_up(&far_end, taken).waiting, 256);
    taken += receivers[0].recv(&mut received, Wait::Never).unwrap() as u64;
    assert_eq!(assert_adds_up(&far_end, taken).waiting, 240);
    drop(receivers);
    let end = assert_adds_up(&far_end, taken);
    assert_eq!((end.waiting, end.received), (0, 119 * 8));
    drop(sender);
    port.close(LONG);
    assert_adds_up(&port, 0);
}

#[test]
fn drop_of_a_port_waits_for_no_handler() {
    within_a_minute(|| {
        let port = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Receive).unwrap();
        let address = port.name().trim_start_matches("udp:").trim_end_matches(",dest=frame").to_string();
        let ((begun, begins), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
        let handler = move |_: &mut _| {
            begun.send(()).unwrap();
            _ = goes_on.recv();
            Rest::Free
        };
        drop(port.on_receive(handler).unwrap());
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"hello", address).unwrap();
        begins.recv().unwrap();
        drop(port);
        drop(go_on);
    });
}

#[test]
fn task_closes_a_port_and_has_its_audit() {
    let port = Port::open("null", Direction::Send).unwrap();
    let mut sender = port.sender("test").unwrap();
    let packet = sender.packet(60, LONG).unwrap();
    _ = sender.send_packet(packet, LONG).unwrap();
    drop(sender);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(port.drain_async(Wait::Forever)) && port.drain(Wait::Never));
    assert_eq!(runtime.block_on(port.close_async(LONG)).out(), 0);
    assert_eq!(port.snapshot().sent, 1);
}

#[test]
fn near_end_of_a_wire_closes_first_then_its_packets_count_once_they_are_back() {
    let port = Port::open("wire:rate=8kbit", Direction::Send).unwrap();
    let far_end = port.far_end().unwrap();
    let mut sender = port.sender("test").unwrap();
    for _ in 0..3 {
        let packet = sender.packet(60, LONG).unwrap();
        _ = sender.send_packet(packet, LONG).unwrap();
    }
    drop(sender);
    port.close(Duration::ZERO);
    far_end.close(Duration::ZERO);
    let now = port.snapshot();
    assert_eq!((now.accepted, now.inside, now.frames_out), (3, 0, 0), "{now:?}");
}

/// Takes `count` snapshots while a sender sends. Returns the first one that is wrong.
fn wrong_one_of(port: &Port, count: usize, is_wrong: impl Fn(&Snapshot) -> bool) -> Option<Snapshot> {
    let mut sender = port.sender("test").unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut burst = sender.burst(32);
            while !stop.load(Relaxed) {
                sender.fill(&mut burst, 32, 60, LONG).unwrap();
                _ = sender.send(&mut burst, LONG).unwrap();
            }
        });
        let wrong = (0..count).map(|_| port.snapshot()).find(is_wrong);
        stop.store(true, Relaxed);
        wrong
    })
}

#[test]
fn snapshot_adds_up_while_a_sender_sends() {
    let port = Port::open("null", Direction::Send).unwrap();
    let is_wrong = |now: &Snapshot| now.accepted != now.sent + now.failed + now.returned + now.inside;
    assert_eq!(wrong_one_of(&port, 3000, is_wrong), None);
}

#[test]
fn handler_of_a_device_of_its_own_takes_a_snapshot_of_its_port() {
    within_a_minute(|| {
        let port = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Receive).unwrap();
        let address = port.name().trim_start_matches("udp:").trim_end_matches(",dest=frame").to_string();
        let (counted, counts) = mpsc::channel();
        let own = port.clone();
        let handler = move |_: &mut _| {
            _ = counted.send(own.snapshot().received);
            Rest::Free
        };
        port.on_receive(handler).unwrap();
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"hello", &address).unwrap();
        counts.recv().unwrap();
        port.close(LONG);
        assert_eq!(port.snapshot().received, 1);
    });
}

#[test]
fn port_that_is_dropped_lets_go_of_a_device_that_a_handler_has() {
    let port = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Receive).unwrap();
    let (pool, address) = (port.pool().clone(), port.name().trim_start_matches("udp:").to_string());
    let queue = port.on_receive(|_| Rest::Free).unwrap();
    drop(port);
    eventually(LONG, || pool.audit().out() == 0 && queue.has_ended());
    eventually(LONG, || std::net::UdpSocket::bind(address.trim_end_matches(",dest=frame")).is_ok());
}

#[test]
fn handler_drops_the_last_handle_of_its_own_port() {
    within_a_minute(|| {
        for is_virtual in [false, true] {
            let time = Virtual::new();
            let port =
                if is_virtual { time.port("wire") } else { Port::open("wire", Direction::Both) }.unwrap();
            let far_end = port.far_end().unwrap();
            let (done, is_done) = mpsc::channel();
            let own = std::sync::Arc::new(std::sync::Mutex::new(None));
            let taken = own.clone();
            let handler = move |_: &mut _| {
                drop(taken.lock().unwrap().take());
                _ = done.send(());
                Rest::Free
            };
            drop(far_end.on_receive(handler).unwrap());
            *own.lock().unwrap() = Some(far_end);
            let mut sender = port.sender("test").unwrap();
            let packet = sender.packet(60, LONG).unwrap();
            _ = sender.send_packet(packet, LONG).unwrap();
            if is_virtual {
                time.run(Duration::from_secs(1));
            }
            is_done.recv().unwrap();
            drop(sender);
            port.close(Duration::ZERO);
        }
    });
}

#[test]
fn losses_by_reason_add_up_while_a_device_fails_packets() {
    let spec = FaultSpec::parse("error=1/2").unwrap();
    let wrap = move |device| wrap_device!(device, |inner| Fault::new(inner, &spec));
    let port = Port::builder("null", Direction::Send).wrap(wrap).build().unwrap();
    let is_wrong = |now: &Snapshot| now.drops.values().sum::<u64>() != now.failed;
    assert_eq!(wrong_one_of(&port, 20_000, is_wrong), None);
    assert!(assert_adds_up(&port, 0).failed > 0);
}
