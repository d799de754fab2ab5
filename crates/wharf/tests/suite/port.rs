use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use wharf::Owners;
use wharf::qdisc::{Fifo, FifoLimit};
use wharf::queue::{QueueError, Rest, RxQueue};
use wharf::{Direction, Port, RecvError, SendError, Sender, Wait};
use wharf_devices::host::{PollerThread, processors};
use wharf_testkit::threads::{eventually, spawn_waiting};

const HOUR: Duration = Duration::from_secs(3600);
/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);

fn wire(spec: &str) -> (Port, Port) {
    let path = Port::open(spec, Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    assert!(path.far_end().is_err(), "there is one");
    (path, far_end)
}

fn send(sender: &mut Sender, packets: usize) {
    let mut burst = sender.burst(packets);
    assert_eq!(sender.fill(&mut burst, packets, 64, LONG).unwrap(), packets);
    for (number, packet) in burst.iter_mut().enumerate() {
        packet.fill(number as u8);
    }
    _ = sender.send(&mut burst, LONG).unwrap();
}

fn close(path: &Port, packets: u64) {
    let audit = path.close(LONG);
    assert_eq!(audit.out(), 0, "{audit}");
    let counters = path.queue().unwrap().counters();
    assert_eq!((counters.accepted.get(), counters.sent.get()), (packets, packets));
}

#[test]
fn packets_arrive_on_the_callers_thread_in_order() {
    let (path, far_end) = wire("wire");
    let mut receiver = far_end.receiver().unwrap();
    let mut received = far_end.burst(8);
    assert_eq!(receiver.recv(&mut received, Wait::Never).unwrap(), 0, "nothing has been sent");
    send(&mut path.sender("test").unwrap(), 32);
    let mut numbers = Vec::new();
    while numbers.len() < 32 {
        assert!(receiver.recv(&mut received, LONG).unwrap() > 0);
        numbers.extend(received.iter_mut().map(|packet| packet[0]));
        received.clear();
    }
    assert_eq!(numbers, (0..32).collect::<Vec<u8>>());
    close(&path, 32);
}

#[test]
fn a_receiver_without_packets_waits_for_its_time() {
    for served in [false, true] {
        let (_path, far_end) = wire("wire");
        let mut receiver = if served { far_end.served_receiver() } else { far_end.receiver() }.unwrap();
        let began = Instant::now();
        let mut received = far_end.burst(8);
        assert_eq!(receiver.recv(&mut received, Duration::from_millis(30)).unwrap(), 0);
        assert!(began.elapsed() >= Duration::from_millis(30), "served {served}: {:?}", began.elapsed());
    }
}

#[test]
fn a_served_receiver_takes_what_the_poller_received() {
    let (path, far_end) = wire("wire");
    let mut receiver = far_end.served_receiver().unwrap();
    let sending = thread::spawn({
        let path = path.clone();
        move || {
            let mut sender = path.sender("test").unwrap();
            (0..40).for_each(|_| send(&mut sender, 32));
        }
    });
    let (mut received, mut packets) = (far_end.burst(64), 0);
    while packets < 40 * 32 {
        packets += receiver.recv(&mut received, LONG).unwrap();
        received.clear();
    }
    sending.join().unwrap();
    close(&path, 40 * 32);
    drop((receiver, received));
    let audit = far_end.close(LONG);
    assert_eq!(audit.out(), 0, "{audit}");
}

#[test]
fn a_handler_gets_packets_while_other_threads_send() {
    let (path, far_end) = wire("wire");
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    far_end
        .on_receive(move |burst| {
            seen.fetch_add(burst.len(), SeqCst);
            Rest::Free
        })
        .unwrap();
    assert!(far_end.receiver().is_err(), "its receive side is in use");
    send(&mut path.sender("test").unwrap(), 32);
    while count.load(SeqCst) < 32 {
        thread::yield_now();
    }
    close(&path, 32);
}

#[test]
fn a_full_path_ends_a_send_by_its_time_or_by_another_thread() {
    // Nothing takes packets from the wire: 16 in its ring, 4 in the discipline, the rest in the lane.
    let fifo = Fifo::new(FifoLimit::Packets(4));
    let path = Port::builder("wire:ring=16", Direction::Send).qdisc(fifo).build().unwrap();
    let mut sender = path.sender("test").unwrap();
    let mut burst = sender.burst(256);
    let left = loop {
        sender.fill(&mut burst, 256, 64, Wait::Never).unwrap();
        let sent = sender.send(&mut burst, Duration::from_millis(20)).unwrap();
        if sent.left > 0 {
            break sent.left;
        }
    };
    assert_eq!(burst.len(), left, "unsent packets are still in the burst");
    let canceller = sender.canceller();
    let cancelling = thread::spawn(move || canceller.cancel());
    assert!(matches!(sender.send(&mut burst, Wait::Forever), Err(SendError::Cancelled)));
    cancelling.join().unwrap();
    burst.clear();
    drop(sender);
    let audit = path.close(Duration::ZERO);
    let counters = path.queue().unwrap().counters();
    assert_eq!(counters.accepted.get(), counters.gone() + audit.out() as u64, "{audit}");
}

#[test]
fn owners_that_are_not_senders_send_and_receive_all() {
    let busy = Owners::Busy { cpu: processors()[0] };
    for owners in [Owners::Poller { cpu: None }, busy, Owners::Auto] {
        let path = Port::builder("wire", Direction::Send).owners(owners).build().unwrap();
        let far_end = path.far_end().unwrap();
        let mut receiver = far_end.receiver().unwrap();
        let mut senders = [path.sender("one").unwrap(), path.sender("two").unwrap()];
        senders.iter_mut().for_each(|sender| send(sender, 32));
        let (mut received, mut packets) = (far_end.burst(64), 0);
        while packets < 64 {
            packets += receiver.recv(&mut received, LONG).unwrap();
            received.clear();
        }
        assert!(path.drain(LONG));
        let drained = senders.iter().map(|sender| sender.counters().drained_packets.get()).sum::<u64>();
        assert_eq!(drained, 0, "{owners:?}: the poller has sent them");
        drop(senders);
        close(&path, 64);
    }
}

#[test]
fn a_sole_sender_runs_the_queue_itself() {
    let (path, far_end) = wire("wire");
    let mut receiver = far_end.receiver().unwrap();
    let mut received = far_end.burst(64);
    let mut send_and_receive = |sender: &mut Sender| {
        send(sender, 32);
        let mut packets = 0;
        while packets < 32 {
            packets += receiver.recv(&mut received, LONG).unwrap();
            received.clear();
        }
        sender.counters().drained_packets.get()
    };
    let (mut sender, other) = (path.sender("one").unwrap(), path.sender("two").unwrap());
    assert_eq!(send_and_receive(&mut sender), 0, "the poller has sent them");
    drop(other);
    // The poller may be at work just when the sender sends.
    assert!((0..100).any(|_| send_and_receive(&mut sender) > 0));
}

#[test]
fn errors_say_what_the_path_is() {
    let error = Port::open("wir", Direction::Send).unwrap_err().to_string();
    assert!(error.contains("unknown kind of device"), "{error}");
    let error = Port::open("null", Direction::Both).unwrap_err().to_string();
    assert_eq!(error, "null: it cannot send and receive at once");
    let path = Port::open("null", Direction::Send).unwrap();
    assert_eq!(path.receiver().unwrap_err().to_string(), "null: it was opened to send");
    let nowhere = Owners::Busy { cpu: 4095 };
    let error = Port::builder("null", Direction::Send).owners(nowhere).build().unwrap_err();
    assert_eq!(error.to_string(), "null: no processor 4095 for this process");
}

#[test]
fn poller_of_a_port_that_only_receives_keeps_to_its_processor() {
    // A thread that is pinned to none is not on the last alone.
    let [_, .., last] = processors()[..] else { return };
    let spec = "udp:127.0.0.1:0,dest=frame";
    let port = Port::builder(spec, Direction::Receive).poller_cpu(last).build().unwrap();
    let (told, hears) = std::sync::mpsc::channel();
    let handler = move |_: &mut _| {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        _ = told.send(allowed.unwrap().to_string());
        Rest::Free
    };
    port.on_receive(handler).unwrap();
    let address = port.name().trim_start_matches("udp:").trim_end_matches(",dest=frame").to_string();
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"hello", address).unwrap();
    assert_eq!(hears.recv_timeout(LONG).unwrap(), last.to_string());
}

#[test]
fn a_device_that_sends_and_receives_is_never_deaf() {
    // Its socket is one descriptor: the poller's thread watches it in one place.
    let path = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Both).unwrap();
    let address = path.name().strip_prefix("udp:").unwrap().to_owned();
    let mut receiver = path.served_receiver().unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut received = path.burst(8);
    for _ in 0..50 {
        socket.send_to(b"datagram", &address).unwrap();
        assert_eq!(receiver.recv(&mut received, LONG).unwrap(), 1);
        received.clear();
    }
}

#[test]
fn close_ends_every_wait() {
    for served in [false, true] {
        let (_path, far_end) = wire("wire");
        let mut receiver = if served { far_end.served_receiver() } else { far_end.receiver() }.unwrap();
        let mut received = far_end.burst(8);
        let waiting = spawn_waiting(move || receiver.recv(&mut received, HOUR));
        assert_eq!(far_end.close(LONG).out(), 0);
        let ended = waiting.join().unwrap();
        assert!(matches!(ended, Err(RecvError::Closed)), "served {served}: {ended:?}");
    }
}

#[test]
fn a_task_learns_of_the_end() {
    let (_path, far_end) = wire("wire");
    let mut receiver = far_end.served_receiver().unwrap();
    let mut received = far_end.burst(8);
    let woken = Arc::new(Unparks(thread::current()));
    let waker = std::task::Waker::from(woken);
    let mut receiving = std::pin::pin!(receiver.recv_async(&mut received));
    let mut poll = || receiving.as_mut().poll(&mut std::task::Context::from_waker(&waker));
    assert!(poll().is_pending());
    let closing = thread::spawn({
        let far_end = far_end.clone();
        move || far_end.close(LONG)
    });
    let ended = loop {
        thread::park();
        if let std::task::Poll::Ready(ended) = poll() {
            break ended;
        }
    };
    assert!(matches!(ended, Err(RecvError::Closed)), "{ended:?}");
    closing.join().unwrap();
}

struct Unparks(thread::Thread);

impl std::task::Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_panic_of_a_handler_is_told() {
    let (path, far_end) = wire("wire");
    let queue = far_end.on_receive(|_| panic!("as the test wants")).unwrap();
    send(&mut path.sender("test").unwrap(), 1);
    while !queue.has_ended() {
        thread::yield_now();
    }
    let told = queue.take_error().unwrap().to_string();
    assert!(told.contains("panicked"), "{told}");
}

#[test]
fn the_receive_side_comes_back_from_a_handler_that_has_ended() {
    let (path, far_end) = wire("wire");
    let mut sender = path.sender("test").unwrap();
    let queue = far_end.on_receive(|_| panic!("as the test wants")).unwrap();
    assert!(far_end.receiver().is_err(), "its receive side is in use");
    send(&mut sender, 1);
    while !queue.has_ended() {
        thread::yield_now();
    }
    let (tells, told) = std::sync::mpsc::channel();
    let closed = far_end.on_receive(move |burst| {
        burst.clear();
        tells.send(()).unwrap();
        Rest::Free
    });
    let closed = closed.unwrap();
    send(&mut sender, 1);
    told.recv_timeout(LONG).unwrap();
    closed.close().unwrap();
    let mut receiver = far_end.receiver().unwrap();
    send(&mut sender, 1);
    assert_eq!(receiver.recv(&mut far_end.burst(8), std::time::Instant::now() + LONG).unwrap(), 1);
    drop((receiver, sender));
    path.close(LONG);
    drop(far_end);
}

#[test]
fn the_receive_side_comes_back_from_a_receiver_that_goes() {
    let (path, far_end) = wire("wire");
    let mut sender = path.sender("test").unwrap();
    for served in [true, false, true, false] {
        let mut receiver = if served { far_end.served_receiver() } else { far_end.receiver() }.unwrap();
        assert!(far_end.receiver().is_err(), "its receive side is in use");
        send(&mut sender, 8);
        let (mut received, mut packets) = (far_end.burst(64), 0);
        while packets < 8 {
            packets += receiver.recv(&mut received, LONG).unwrap();
            received.clear();
        }
    }
    drop(sender);
    close(&path, 32);
    assert_eq!(far_end.close(LONG).out(), 0);
    assert!(matches!(far_end.receiver(), Err(QueueError::Closed)));
}

#[test]
fn device_that_only_receives_goes_to_the_next_receiver_with_what_came_meanwhile() {
    let port = Port::open("udp:127.0.0.1:0,dest=frame", Direction::Receive).unwrap();
    let address = port.name().trim_start_matches("udp:").trim_end_matches(",dest=frame").to_string();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let pool = port.pool().clone();
    let mut received = port.burst(64);
    for round in 0..4u64 {
        (0..5).for_each(|_| _ = peer.send_to(b"hello", &address).unwrap());
        let mut receiver = if round % 2 == 0 { port.served_receiver() } else { port.receiver() }.unwrap();
        assert!(port.receiver().is_err(), "it is in use");
        let mut packets = 0;
        while packets < 5 {
            let count = receiver.recv(&mut received, LONG).unwrap();
            assert!(count > 0, "round {round}: {packets} of 5");
            packets += count;
            received.clear();
        }
        drop(receiver);
        assert_eq!(port.snapshot().received, 5 * (round + 1));
    }
    drop((port, received));
    eventually(LONG, || pool.audit().out() == 0);
}

/// Packets that the device has when its path closes come back with its other end, whichever of the two goes first.
#[test]
fn packets_that_a_closed_device_kept_come_back() {
    for takes_far_end in [false, true] {
        let path = Port::open("wire", Direction::Send).unwrap();
        let pool = path.pool().clone();
        let far_end = takes_far_end.then(|| path.far_end().unwrap());
        send(&mut path.sender("test").unwrap(), 32);
        let audit = path.close(Duration::ZERO);
        assert_eq!(audit.out() > 0, takes_far_end, "{audit}");
        drop(far_end);
        drop(path);
        // A thread that polled the other end lets go of it soon after.
        eventually(LONG, || pool.audit().out() == 0);
    }
}

/// The device goes on sending for its transmit queue, and no packet that arrives is received or shown.
#[test]
fn a_closed_receive_queue_of_a_device_that_sends_receives_nothing() {
    let (path, far_end) = wire("wire");
    let (shown, seen) = std::sync::mpsc::channel();
    let handler = move |burst: &mut wharf::Burst| {
        _ = shown.send(burst.len());
        Rest::Free
    };
    let queue = RxQueue::of(far_end.queue().unwrap(), Box::new(handler)).unwrap();
    let _poller = PollerThread::builder().receiver(&queue).start().unwrap();
    let (mut near, mut far) = (path.sender("near").unwrap(), far_end.sender("far").unwrap());
    send(&mut near, 1);
    assert_eq!(seen.recv_timeout(LONG), Ok(1));
    queue.close().unwrap();
    send(&mut near, 1);
    send(&mut far, 1);
    // Nothing comes behind what must not come: the poller has no reason to poll again.
    assert!(seen.recv_timeout(Duration::from_millis(50)).is_err());
    assert_eq!((queue.received(), queue.has_ended()), (1, true));
}

#[test]
fn one_poller_serves_several_ports_until_the_last_is_closed() {
    let owners = Owners::Poller { cpu: None };
    let opened = Port::builder("null", Direction::Send).owners(owners).one_poller(true).open(3).unwrap();
    let names: Vec<String> = opened.devices().iter().map(|opened| opened.device.name()).collect();
    assert_eq!(names.len(), 3);
    let mut ports = opened.build_queues(3, |queue, _| queue).unwrap();
    ports.push(Port::builder("null", Direction::Send).owners(owners).poller_of(&ports[0]).build().unwrap());
    let mut senders: Vec<Sender> = ports.iter().map(|port| port.sender("test").unwrap()).collect();
    while let Some(port) = ports.pop() {
        // The senders run no queue: their poller sends.
        senders.iter_mut().for_each(|sender| send(sender, 8));
        assert!(port.drain(LONG));
        drop(senders.pop());
        let rounds = 4 - ports.len() as u64;
        assert_eq!(port.queue().unwrap().counters().sent.get(), 8 * rounds);
        port.close(LONG);
    }
}
