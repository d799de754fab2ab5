//! Settings of a port: how many packets its receivers hold, its clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use wharf::queue::{Clock, HostClock, Park, Wake};
use wharf::testing::Virtual;
use wharf::{Direction, OpenErrorKind, PagePool, Port, Receiver, SendError};
use wharf_devices::host::HostPark;

/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);
const PACKETS: u32 = 1200;

/// A port in virtual time, and its other end, whose receivers hold so many packets.
fn ends(inbox_packets: Option<u32>) -> (Virtual, Port, Port) {
    let time = Virtual::new();
    let port = time.port("wire").unwrap();
    let builder = port.far_end_builder(Direction::Both).unwrap();
    let builder = inbox_packets.into_iter().fold(builder, wharf::PortBuilder::inbox_packets);
    let far_end = builder.build().unwrap();
    (time, port, far_end)
}

/// Sends `count` numbered packets.
fn send(port: &Port, count: u32) {
    let mut sender = port.sender("test").unwrap();
    for number in 0..count {
        let mut packet = sender.packet(60, LONG).unwrap();
        packet.bytes_mut()[20..24].copy_from_slice(&number.to_be_bytes());
        assert_eq!(sender.send_packet(packet, LONG).unwrap().accepted, 1);
    }
}

/// Receives what there is. Asserts that these are the first packets, in order, and returns their number.
fn receive_all(receiver: &mut Receiver, far_end: &Port) -> u32 {
    let (mut received, mut next) = (far_end.burst(100), 0_u32);
    while receiver.recv(&mut received, LONG).unwrap() > 0 {
        for bytes in received.iter() {
            assert_eq!(bytes[20..24], next.to_be_bytes());
            next += 1;
        }
        received.clear();
    }
    next
}

#[test]
fn one_of_several_receivers_holds_as_many_packets_as_are_asked_for_and_drops_the_others() {
    // At most its share of the pool: half of 4096 frames, for two.
    for (asked, held) in
        [(None, 256), (Some(1), 1), (Some(300), 300), (Some(1000), 1000), (Some(60_000), 1024)]
    {
        let (time, port, far_end) = ends(asked);
        let mut receivers = far_end.receivers(2, |_| 0).unwrap();
        send(&port, PACKETS);
        time.run(Duration::from_secs(1));
        let now = far_end.snapshot();
        let dropped = now.drops.get("inbox-full").copied().unwrap_or_default();
        assert_eq!((now.waiting, dropped), (held, u64::from(PACKETS) - held), "{asked:?}: {now:?}");
        assert_eq!(u64::from(receive_all(&mut receivers[0], &far_end)), held, "{asked:?}");
        drop(receivers);
        assert_eq!(far_end.close(LONG).out(), 0, "{asked:?}");
    }
}

#[test]
fn one_of_several_receivers_holds_super_packets_of_its_share_of_the_memory() {
    // Half of 4096 frames of 1,536 bytes, for two: 26 of 60,000 bytes.
    for (asked, held) in [(None, 20), (Some(1), 1)] {
        let time = Virtual::new();
        let port = time.builder("wire").takes_chains(true).build().unwrap();
        let builder = port.far_end_builder(Direction::Both).unwrap().takes_chains(true);
        let far_end = asked.into_iter().fold(builder, wharf::PortBuilder::inbox_packets).build().unwrap();
        let receivers = far_end.receivers(2, |_| 0).unwrap();
        let mut sender = port.sender("test").unwrap();
        for _ in 0..20 {
            let mut packet = sender.packet(1500, LONG).unwrap();
            (1..40).for_each(|_| packet.append(sender.packet(1500, LONG).unwrap()).unwrap());
            assert_eq!(sender.send_packet(packet, LONG).unwrap().accepted, 1);
            time.run(Duration::from_millis(1));
        }
        let now = far_end.snapshot();
        assert_eq!((now.waiting, now.received_drops), (held, 20 - held), "{asked:?}: {now:?}");
        drop((receivers, sender));
        assert_eq!([port.close(LONG).out(), far_end.close(LONG).out()], [0, 0]);
    }
}

#[test]
fn a_port_in_virtual_time_keeps_that_whatever_clock_is_set() {
    let (time, own) = (Virtual::new(), Arc::new(Own::default()));
    let port = time.builder("wire").clock(own.clone(), own.clone()).build().unwrap();
    let far_end = port.far_end().unwrap();
    let _receiver = far_end.served_receiver().unwrap();
    send(&port, 10);
    time.run(Duration::from_secs(1));
    assert_eq!(far_end.snapshot().received, 10);
    assert_eq!((own.readings.load(SeqCst), own.parks.load(SeqCst)), (0, 0));
}

#[test]
fn receiver_alone_loses_none_however_few_packets_it_holds() {
    // As many as the discipline holds, with few more.
    for asked in [None, Some(1), Some(1000)] {
        let (time, port, far_end) = ends(asked);
        let mut receiver = far_end.served_receiver().unwrap();
        send(&port, 1000);
        time.run(Duration::from_secs(1));
        assert_eq!(receive_all(&mut receiver, &far_end), 1000, "{asked:?}");
    }
}

#[test]
fn packets_that_a_receiver_holds_are_freed_with_it() {
    let (time, port, far_end) = ends(Some(1000));
    let receivers = far_end.receivers(1, |_| 0).unwrap();
    send(&port, PACKETS);
    time.run(Duration::from_secs(1));
    drop(receivers);
    let now = far_end.snapshot();
    assert_eq!((now.waiting, now.drops["receiver-gone"]), (0, 1000), "{now:?}");
    assert_eq!(far_end.close(LONG).out(), 0);
}

#[test]
fn inbox_that_cannot_be_is_refused() {
    for packets in [0, 65_537] {
        let error = Port::builder("null", Direction::Send).inbox_packets(packets).build().unwrap_err();
        assert_eq!(error.kind(), OpenErrorKind::Setting, "{error}");
        assert!(error.to_string().contains("1 to 65536"), "{error}");
    }
}

/// The host's clock, an hour late, and its threads: both count how often they are asked.
#[derive(Debug, Default)]
struct Own {
    readings: AtomicU64,
    parks: AtomicU64,
}

impl Clock for Own {
    fn now_ns(&self) -> u64 {
        self.readings.fetch_add(1, SeqCst);
        HostClock.exact_ns() + 3_600_000_000_000
    }
}

impl Park for Own {
    fn waker(&self) -> Arc<dyn Wake> {
        HostPark.waker()
    }

    fn park(&self, timeout_ns: u64) {
        self.parks.fetch_add(1, SeqCst);
        HostPark.park(timeout_ns);
    }
}

#[test]
fn senders_wait_by_the_clock_and_the_threads_of_the_program() {
    let (own, pool) = (Arc::new(Own::default()), PagePool::builder().frames(64).build().unwrap());
    let builder = Port::builder("null", Direction::Send).pool(&pool).clock(own.clone(), own.clone());
    let port = builder.build().unwrap();
    let (mut sender, mut held) = (port.sender("test").unwrap(), Vec::new());
    let end = loop {
        // Long enough that a sender on a busy machine parks before the time is over.
        match sender.packet(60, Duration::from_millis(50)) {
            Ok(packet) => held.push(packet),
            Err(end) => break end,
        }
    };
    assert!(matches!(end, SendError::NoMemory { .. }), "{end}");
    assert!(own.readings.load(SeqCst) > 0 && own.parks.load(SeqCst) > 0, "{own:?}");
    drop((held, sender));
    assert_eq!(port.close(LONG).out(), 0);
}
