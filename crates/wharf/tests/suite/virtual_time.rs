//! Ports in virtual time: the same run twice is the same to the packet, and a wait takes none of the machine's time.

use std::time::{Duration, Instant};
use wharf::queue::select;
use wharf::testing::Virtual;
use wharf::{Event, Owners, Sent, Wait};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(10);

/// Sends 200 packets in bursts over a slow wire that fails as `faults` say. Returns the time at which each arrived.
fn arrivals(faults: &str) -> Vec<(u8, Duration)> {
    let time = Virtual::new();
    let (port, counts) = time.port_with_faults("wire:rate=1mbit,delay=3ms,ring=16", faults).unwrap();
    let far_end = port.far_end().unwrap();
    let (mut receiver, mut sender) = (far_end.receiver().unwrap(), port.sender("test").unwrap());
    let (mut burst, mut received, mut arrived) = (sender.burst(8), far_end.burst(8), Vec::new());
    for number in 0..25 {
        sender.fill(&mut burst, 8, 200, SECOND).unwrap();
        burst.iter_mut().for_each(|packet| packet.fill(number));
        _ = sender.send(&mut burst, LONG).unwrap();
        while receiver.recv(&mut received, Wait::Never).unwrap() > 0 {
            arrived.extend(received.iter_mut().map(|packet| (packet[0], time.now())));
            received.clear();
        }
    }
    while receiver.recv(&mut received, SECOND).unwrap() > 0 {
        arrived.extend(received.iter_mut().map(|packet| (packet[0], time.now())));
        received.clear();
    }
    drop(sender);
    let audit = port.close(SECOND);
    assert_eq!(audit.out(), 0, "{audit}");
    assert_eq!(arrived.len() as u64 + counts.of("error"), 200);
    arrived
}

#[test]
fn same_run_is_the_same_in_each_packet_and_takes_no_time() {
    let began = Instant::now();
    for faults in ["error=1%", "error=10%,short=1/3,late=20%,seed=7", "stall=5%,reorder=10%,half=1/3,seed=8"]
    {
        let first = arrivals(faults);
        assert_eq!(first, arrivals(faults), "{faults}");
        assert!(first.last().unwrap().1 > Duration::from_millis(300), "200 packets of 224 bytes at 1 Mbit/s");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn wait_for_an_event_is_one_in_virtual_time() {
    let time = Virtual::new();
    let port = time.port("wire:delay=5ms").unwrap();
    let far_end = port.far_end().unwrap();
    let (mut events, mut sender) = (far_end.events().unwrap(), port.sender("test").unwrap());
    assert_eq!((events.wait(LONG), time.now()), (None, LONG));
    far_end.on_receive(|_| panic!("as the test wants")).unwrap();
    let packet = sender.packet(60, Wait::Never).unwrap();
    _ = sender.send_packet(packet, Wait::Never).unwrap();
    let event = events.wait(LONG);
    assert!(matches!(event, Some(Event::Panicked { .. })), "{event:?}");
    assert_eq!(time.now(), LONG + Duration::from_millis(5));
    far_end.close(SECOND);
    assert_eq!(events.next(), None, "the port is closed");
}

#[test]
fn wait_for_a_packet_takes_its_time_to_the_nanosecond() {
    let time = Virtual::new();
    let port = time.port("wire").unwrap();
    let far_end = port.far_end().unwrap();
    for (mut receiver, mut received) in
        [(far_end.receiver().unwrap(), far_end.burst(8)), (port.served_receiver().unwrap(), port.burst(8))]
    {
        let began = time.now();
        assert_eq!(receiver.recv(&mut received, LONG).unwrap(), 0);
        assert_eq!(time.now() - began, LONG);
        assert_eq!(select(&mut [receiver], &mut received, LONG).unwrap(), (0, 0));
        assert_eq!(time.now() - began, 2 * LONG);
    }
}

#[test]
fn full_wire_makes_a_sender_wait_until_the_time_is_up() {
    let time = Virtual::new();
    let port = time.builder("wire:ring=16").small_queues(None).build().unwrap();
    let far_end = port.far_end().unwrap();
    let mut sender = port.sender("test").unwrap();
    let mut sent = 0;
    loop {
        let mut burst = sender.burst(8);
        sender.fill(&mut burst, 8, 100, SECOND).unwrap();
        let Sent { accepted, left, .. } = sender.send(&mut burst, LONG).unwrap();
        sent += accepted;
        if left > 0 {
            break;
        }
        assert!(sent < 100_000, "nothing takes them");
    }
    assert!(time.now() >= LONG && sent > 16, "{sent} in {:?}", time.now());
    drop((sender, far_end));
    assert_eq!(port.close(SECOND).out(), 0);
}

#[test]
fn two_handlers_that_answer_each_other_for_ever_let_time_pass() {
    let time = Virtual::new();
    let port = time.port("wire").unwrap();
    let far_end = port.far_end().unwrap();
    for (here, mut back) in
        [(&port, port.sender("back").unwrap()), (&far_end, far_end.sender("back").unwrap())]
    {
        here.on_receive(move |burst| {
            _ = back.send_or_drop(burst, Wait::Never);
            wharf::queue::Rest::Free
        })
        .unwrap();
    }
    let mut sender = port.sender("test").unwrap();
    let packet = sender.packet(60, SECOND).unwrap();
    _ = sender.send_packet(packet, SECOND).unwrap();
    time.run(Duration::from_millis(10));
    assert_eq!(time.now(), Duration::from_millis(10));
    assert!(port.queue().unwrap().counters().sent.get() > 100);
}

#[test]
#[should_panic(expected = "this wait never ends")]
fn wait_that_nothing_can_end_panics() {
    let time = Virtual::new();
    let port = time.port("wire").unwrap();
    let far_end = port.far_end().unwrap();
    let mut receiver = far_end.receiver().unwrap();
    let mut received = far_end.burst(8);
    _ = receiver.recv(&mut received, Duration::MAX);
}

#[test]
fn other_kinds_are_refused() {
    let error = Virtual::new().port("udp:127.0.0.1:9").unwrap_err().to_string();
    assert!(error.contains("virtual time has the devices `wire` and `null` alone"), "{error}");
    let error = Virtual::new().port_with_faults("wire", "smoke=1").unwrap_err().to_string();
    assert!(error.contains("smoke"), "{error}");
}

#[test]
fn packet_arrives_at_its_time_by_each_kind_of_receiver_and_owner() {
    for (served, owners) in
        [(false, Owners::Auto), (true, Owners::Auto), (true, Owners::Poller { cpu: None })]
    {
        let time = Virtual::new();
        let port = time.builder("wire:delay=1ms").owners(owners).build().unwrap();
        let far_end = port.far_end().unwrap();
        let mut receiver = if served { far_end.served_receiver() } else { far_end.receiver() }.unwrap();
        let mut senders = [port.sender("a").unwrap(), port.sender("b").unwrap()];
        let mut received = far_end.burst(8);
        for (number, sender) in senders.iter_mut().enumerate() {
            let packet = sender.packet(60, SECOND).unwrap();
            _ = sender.send_packet(packet, SECOND).unwrap();
            assert_eq!(receiver.recv(&mut received, Duration::MAX).unwrap(), 1);
            let due = Duration::from_millis(number as u64 + 1);
            assert_eq!(time.now(), due, "served: {served}, {owners:?}");
            received.clear();
        }
    }
}

#[test]
fn handler_that_waits_has_time_pass() {
    let time = Virtual::new();
    let (port, full) = (time.port("wire").unwrap(), time.port("wire:ring=2").unwrap());
    let (far_end, _nobody) = (port.far_end().unwrap(), full.far_end().unwrap());
    let mut back = full.sender("back").unwrap();
    let mut left = full.burst(64);
    back.fill(&mut left, 64, 60, SECOND).unwrap();
    let handler = move |_: &mut _| {
        _ = back.send(&mut left, Duration::from_millis(10));
        wharf::queue::Rest::Free
    };
    far_end.on_receive(handler).unwrap();
    let mut sender = port.sender("test").unwrap();
    let packet = sender.packet(60, SECOND).unwrap();
    _ = sender.send_packet(packet, SECOND).unwrap();
    time.run(SECOND);
    assert_eq!(time.now(), SECOND);
}
