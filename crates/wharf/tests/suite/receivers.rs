//! Several receivers of a path, paths of several queues, and handlers that are called again.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use wharf::device::{AnyDevice, DeviceError, DeviceSpec, Kind, Opened, Opening, Registry};
use wharf::qdisc::{Fifo, FifoLimit};
use wharf::queue::{Rest, Spread};
use wharf::{Direction, Packet, Port, Receiver, RecvError, Sender, Wait, net, queue::select};
use wharf_testkit::threads::{ThreadState, spawn_waiting};

const HOUR: Duration = Duration::from_secs(3600);
/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);

/// Sends `packets` packets of flow `flow`, numbered from `first` on.
fn send(sender: &mut Sender, flow: u8, first: u64, packets: usize) {
    let mut burst = sender.burst(packets);
    assert_eq!(sender.fill(&mut burst, packets, 64, LONG).unwrap(), packets);
    for (number, packet) in (first..).zip(burst.iter_mut()) {
        packet[..14].fill(flow);
        packet[20..28].copy_from_slice(&number.to_be_bytes());
    }
    _ = sender.send(&mut burst, LONG).unwrap();
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[20..28].try_into().unwrap())
}

/// Receives `packets` packets of flow `flow`, numbered from `first` on.
fn receive(receiver: &mut Receiver, path: &Port, flow: u8, first: u64, packets: usize) {
    let (mut burst, mut numbers) = (path.burst(256), Vec::new());
    while numbers.len() < packets {
        assert!(receiver.recv(&mut burst, LONG).unwrap() > 0, "{} came", numbers.len());
        assert!(burst.iter_mut().all(|bytes| bytes[0] == flow), "another receiver's");
        numbers.extend(burst.iter_mut().map(|bytes| number(bytes)));
        burst.clear();
    }
    assert!(numbers.iter().copied().eq(first..first + packets as u64), "{numbers:?}");
}

fn first_byte(bytes: &[u8]) -> u64 {
    bytes[0].into()
}

/// Sums up the metrics of `receiver` that are called `name`, or have it as their reason.
fn metric(path: &Port, name: &str, receiver: usize) -> u64 {
    let mut sum = 0;
    path.metrics().each(&mut |metric| {
        let is_of = metric.labels.contains(&("receiver", &receiver.to_string()));
        if is_of && (metric.name == name || metric.labels.contains(&("reason", name))) {
            sum += metric.value;
        }
    });
    sum
}

#[test]
fn a_slow_receiver_holds_up_only_itself() {
    const ROUNDS: u64 = 200;
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    let mut receivers = far_end.receivers(4, first_byte).unwrap();
    assert!(far_end.receiver().is_err(), "its receive side is in use");
    let mut sender = path.sender("test").unwrap();
    for round in 0..ROUNDS {
        for (flow, receiver) in receivers.iter_mut().enumerate() {
            send(&mut sender, flow as u8, 32 * round, 32);
            if flow > 0 {
                receive(receiver, &far_end, flow as u8, 32 * round, 32);
            }
        }
    }
    // It has the first packets; the rest counts as dropped.
    assert_eq!(metric(&far_end, "inbox-full", 0), 32 * ROUNDS - 256);
    receive(&mut receivers[0], &far_end, 0, 0, 256);
    assert_eq!(metric(&far_end, "wharf_receiver_taken", 3), 32 * ROUNDS);
    send(&mut sender, 0, 7, 32);
    receive(&mut receivers[0], &far_end, 0, 7, 32);

    // Packets for a receiver that is gone are dropped, the others receive on.
    drop(receivers.remove(1));
    send(&mut sender, 1, 0, 32);
    for (flow, receiver) in [0, 2, 3].into_iter().zip(&mut receivers) {
        send(&mut sender, flow, 7, 32);
        receive(receiver, &far_end, flow, 7, 32);
    }
    assert_eq!(metric(&far_end, "receiver-gone", 1), 32);

    // The last one gives the receive side back.
    drop((receivers, sender));
    drop(far_end.receiver().unwrap());
    assert_eq!((path.close(LONG).out(), far_end.close(LONG).out()), (0, 0));
}

#[test]
fn threads_and_tasks_receive_their_flows() {
    const PACKETS: usize = 5000;
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    let receivers = far_end.receivers(4, net::flow_hash).unwrap();
    // A flow is that of the MAC addresses.
    let threads = receivers.into_iter().enumerate().map(|(at, mut receiver)| {
        let mut burst = far_end.burst(64);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut flows: std::collections::BTreeMap<u8, u64> = Default::default();
            loop {
                let received = match at % 2 {
                    0 => receiver.recv(&mut burst, HOUR),
                    _ => runtime.block_on(receiver.recv_async(&mut burst)),
                };
                match received {
                    Ok(_) => {}
                    Err(RecvError::Closed) => return flows,
                    Err(error) => panic!("{error}"),
                }
                for bytes in burst.iter_mut() {
                    // A gap is a drop; the order is kept.
                    let next = flows.entry(bytes[0]).or_default();
                    assert!(number(bytes) >= *next, "flow {}", bytes[0]);
                    *next = number(bytes) + 1;
                }
                burst.clear();
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    let mut sender = path.sender("test").unwrap();
    for first in (0..PACKETS as u64).step_by(50) {
        (0..20).for_each(|flow| send(&mut sender, flow, first, 50));
    }
    drop(sender);
    assert!(path.drain(LONG));
    let arrived = || {
        let mut sum = 0;
        far_end.metrics().each(&mut |metric| {
            if ["wharf_receiver_taken", "wharf_receiver_drops"].contains(&metric.name) {
                sum += metric.value;
            }
        });
        sum
    };
    while arrived() < 20 * PACKETS as u64 {
        thread::yield_now();
    }
    far_end.close(LONG);
    let mut flows: Vec<u8> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap().into_keys()).collect();
    flows.sort_unstable();
    assert!(flows.into_iter().eq(0..20), "each flow is one receiver's");
    assert_eq!((path.close(LONG).out(), far_end.close(LONG).out()), (0, 0));
}

#[test]
fn the_receive_side_changes_hands_under_traffic() {
    let path = Port::open("wire:ring=64", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    let stop = Arc::new(AtomicU64::new(0));
    let sending = thread::spawn({
        let (path, stop) = (path.clone(), stop.clone());
        move || {
            let mut sender = path.sender("test").unwrap();
            let mut burst = sender.burst(64);
            while stop.load(SeqCst) == 0 {
                sender.fill(&mut burst, 64, 64, LONG).unwrap();
                burst.iter_mut().enumerate().for_each(|(flow, bytes)| bytes.fill(flow as u8));
                _ = sender.send(&mut burst, Duration::from_millis(5)).unwrap();
                burst.clear();
            }
        }
    });
    let mut received = far_end.burst(256);
    for turn in 0..150 {
        let mut receivers = match turn % 3 {
            0 => vec![far_end.receiver().unwrap()],
            1 => vec![far_end.served_receiver().unwrap()],
            _ => far_end.receivers(1 + turn % 8, net::flow_hash).unwrap(),
        };
        while !receivers.is_empty() {
            // They go in turn; packets for those that have gone are dropped.
            let mut receiver = receivers.swap_remove(turn % receivers.len());
            if turn % 2 == 0 {
                receiver.recv(&mut received, Duration::from_millis(20)).unwrap();
                received.clear();
            }
        }
    }
    stop.store(1, SeqCst);
    sending.join().unwrap();
    // What is in the wire stays there.
    let audit = path.close(Duration::from_millis(10));
    let counters = path.queue().unwrap().counters();
    assert_eq!(counters.accepted.get(), counters.gone() + audit.out() as u64, "{audit}");
    assert_eq!(far_end.close(LONG).out(), 0);
}

#[test]
fn close_ends_the_wait_of_each_receiver() {
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    let waiting = far_end.receivers(4, net::flow_hash).unwrap().into_iter().map(|mut receiver| {
        let mut burst = far_end.burst(8);
        spawn_waiting(move || receiver.recv(&mut burst, HOUR))
    });
    let waiting: Vec<_> = waiting.collect();
    assert_eq!(far_end.close(LONG).out(), 0);
    for ended in waiting.into_iter().map(|thread| thread.join().unwrap()) {
        assert!(ended.is_err_and(|error| matches!(error, RecvError::Closed) && error.is_end()));
    }
}

#[test]
fn a_panic_of_the_users_function_is_told_and_ends_each_wait() {
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    let receivers = far_end.receivers(3, |_: &[u8]| panic!("as the test wants")).unwrap();
    let waiting = receivers.into_iter().map(|mut receiver| {
        let mut burst = far_end.burst(8);
        thread::spawn(move || receiver.recv(&mut burst, HOUR).unwrap_err().to_string())
    });
    let waiting: Vec<_> = waiting.collect();
    send(&mut path.sender("test").unwrap(), 0, 0, 1);
    let told: Vec<String> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(told.iter().filter(|told| told.contains("panicked")).count(), 1, "{told:?}");
    assert_eq!(far_end.close(LONG).out(), 0);
}

#[test]
fn a_wrong_count_leaves_the_receive_side() {
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    for count in [0, 257] {
        let error = far_end.receivers(count, net::flow_hash).unwrap_err();
        assert!(error.to_string().contains("1 to 256"), "{error}");
    }
    assert_eq!(far_end.receivers(256, net::flow_hash).unwrap().len(), 256);
}

#[test]
fn a_handler_that_leaves_packets_is_called_again() {
    const PACKETS: u64 = 20_000;
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    // At most 8 packets wait for the task.
    let (to_task, packets) = mpsc::channel::<Packet>();
    let inside = Arc::new(AtomicU64::new(0));
    let counted = inside.clone();
    let queue = far_end.on_receive(move |burst| {
        while counted.load(SeqCst) < 8
            && let Some(packet) = burst.pop()
        {
            counted.fetch_add(1, SeqCst);
            to_task.send(packet).unwrap();
        }
        Rest::Again
    });
    let queue = queue.unwrap();
    let taking = thread::spawn(move || {
        for wanted in 0..PACKETS {
            assert_eq!(number(packets.recv().unwrap().bytes()), wanted, "in order");
            inside.fetch_sub(1, SeqCst);
            queue.resume();
        }
        packets
    });
    let mut sender = path.sender("test").unwrap();
    (0..PACKETS).step_by(50).for_each(|first| send(&mut sender, 0, first, 50));
    drop((taking.join().unwrap(), sender));
    assert_eq!((path.close(LONG).out(), far_end.close(LONG).out()), (0, 0));
}

/// Wires side by side.
static WIRES: Kind =
    Kind::new("wires", "wires", "wires side by side", |spec: &DeviceSpec, opening: Opening| {
        (0..spec.devices(opening.queues))
            .map(|_| Registry::default().open("wire", opening.direction))
            .collect()
    })
    .device_per_queue();

/// A device with pairs of queues inside.
static PAIRS: Kind = Kind::new("pairs", "pairs", "pairs inside", |_: &DeviceSpec, opening: Opening| {
    assert_eq!(opening.queues, 4);
    Ok::<_, DeviceError>(vec![Opened::new(AnyDevice::tx(wharf_devices::null::Null::default()))])
})
.queue_pairs();

#[test]
fn each_queue_of_a_device_is_a_path_of_one_pool() {
    let registry = Registry::default().with(&WIRES).unwrap().with(&PAIRS).unwrap();
    let builder = |spec| Port::builder(spec, Direction::Send).registry(registry.clone());
    let mut numbers = Vec::new();
    let paths = builder("wires").build_queues(4, |queue, number| {
        numbers.push(number);
        queue.qdisc(Fifo::new(FifoLimit::Packets(100)))
    });
    let paths = paths.unwrap();
    assert_eq!((numbers, paths[0].pool().frames()), (vec![0, 1, 2, 3], 4 * 4096));
    let mut names: Vec<_> = paths.iter().map(Port::name).collect();
    names.dedup();
    assert!(names.len() == 4 && names[3].ends_with("#3"), "{names:?}");
    let far_ends: Vec<_> = paths.iter().map(|path| path.far_end().unwrap()).collect();
    let mut receivers: Vec<_> = far_ends.iter().map(|far_end| far_end.served_receiver().unwrap()).collect();
    let senders: Result<_, _> = paths.iter().map(|path| path.sender("test")).collect();
    let mut spread = Spread::new(senders.unwrap()).unwrap();
    let mut burst = paths[3].burst(200);
    spread.fill(&mut burst, 200, 64, Wait::Never).unwrap();
    burst.iter_mut().enumerate().for_each(|(flow, bytes)| bytes.fill(flow as u8));
    _ = spread.send(&mut burst, LONG).unwrap();
    let mut received = [0; 4];
    while received.iter().sum::<usize>() < 200 {
        for ((receiver, far_end), count) in receivers.iter_mut().zip(&far_ends).zip(&mut received) {
            *count += receiver.recv(&mut far_end.burst(256), Wait::Never).unwrap();
        }
    }
    assert!(received.iter().all(|&count| count > 20), "{received:?}");
    drop(spread);
    assert!(paths.iter().all(|path| path.drain(LONG)));
    assert_eq!(paths.iter().map(|path| path.close(LONG).out()).next_back(), Some(0));

    assert_eq!(builder("pairs").build_queues(4, |queue, _| queue).unwrap().len(), 1);
    let error = builder("wire").build_queues(2, |queue, _| queue).unwrap_err().to_string();
    assert!(error.ends_with("it cannot have 2 queues"), "{error}");
    let fifo = Fifo::new(FifoLimit::Packets(1));
    let error = builder("wires").qdisc(fifo).build_queues(2, |queue, _| queue).unwrap_err().to_string();
    assert!(error.ends_with("each queue has a qdisc of its own"), "{error}");
}

#[test]
fn a_polled_receiver_wakes_its_task_when_a_packet_comes() {
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let path = Port::open("wire", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    let mut receiver = far_end.served_receiver().unwrap();
    let mut received = far_end.burst(8);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let context = &mut Context::from_waker(&waker);
    assert!(receiver.poll_recv(context, &mut received).is_pending());
    let mut sender = path.sender("test").unwrap();
    let packet = sender.packet(64, Wait::Never).unwrap();
    _ = sender.send_packet(packet, Wait::Forever).unwrap();
    let count = loop {
        match receiver.poll_recv(context, &mut received) {
            Poll::Ready(count) => break count.unwrap(),
            Poll::Pending => thread::park(),
        }
    };
    assert_eq!(count, 1);
}

#[test]
fn several_receivers_are_waited_for_at_once_and_each_has_its_turn() {
    let near = Port::open("wire", Direction::Send).unwrap();
    let far = near.far_end().unwrap();
    let mut receivers = far.receivers(3, first_byte).unwrap();
    let mut sender = near.sender("test").unwrap();
    let mut burst = far.burst(4);
    assert_eq!(select(&mut receivers, &mut burst, Duration::from_millis(1)).unwrap(), (0, 0));
    for flow in 0..3 {
        send(&mut sender, flow, 0, 12);
    }
    while (0..3).any(|at| metric(&far, "wharf_receiver_backlog_packets", at) < 12) {
        thread::yield_now();
    }
    let mut turns = Vec::new();
    while turns.len() < 9 {
        let (at, packets) = select(&mut receivers, &mut burst, LONG).unwrap();
        assert!(packets > 0 && burst.iter_mut().all(|bytes| usize::from(bytes[0]) == at));
        turns.push(at);
        burst.clear();
    }
    let each = [0, 1, 2].map(|at| turns.iter().filter(|&&turn| turn == at).count());
    assert_eq!(each, [3; 3], "{turns:?}");
    let selecting = ThreadState::current();
    let sending = thread::spawn(move || {
        selecting.await_asleep();
        send(&mut sender, 1, 12, 4);
    });
    let late = std::iter::repeat_with(|| select(&mut receivers, &mut burst, LONG).unwrap().0);
    assert!(late.take(2).any(|at| at == 1), "a packet ends the wait");
    sending.join().unwrap();
    near.close(LONG);
    far.close(LONG);
    let ended = std::iter::repeat_with(|| {
        burst.clear();
        select(&mut receivers, &mut burst, LONG)
    });
    assert!(ended.take(50).any(|ended| matches!(ended, Err(RecvError::Closed))));
}

#[test]
fn a_receiver_that_polls_in_its_own_calls_may_be_selected() {
    let near = Port::open("wire", Direction::Send).unwrap();
    let far = near.far_end().unwrap();
    let mut receivers = [far.receiver().unwrap()];
    let mut burst = far.burst(8);
    assert_eq!(select(&mut receivers, &mut burst, Duration::from_millis(1)).unwrap(), (0, 0));
    let mut sender = near.sender("test").unwrap();
    let sending = thread::spawn(move || send(&mut sender, 1, 0, 8));
    assert!(select(&mut receivers, &mut burst, LONG).unwrap().1 > 0);
    sending.join().unwrap();
}
