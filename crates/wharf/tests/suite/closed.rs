//! A closed path lets go of its device, whatever handles of it live: the same specification is opened again,
//! fifty times in a row.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use wharf::queue::{QueueError, Rest};
use wharf::{Direction, PagePool, Port, Receiver, RecvError, SendError, Sender, Wait, net};
use wharf::{Events, OnGone, Owners};
use wharf_testkit::free_udp;
use wharf_testkit::threads::{eventually, within_a_minute, within_ten_minutes};

/// Time for packets inside to leave: those of a wire whose far end does not receive never do.
const MOMENT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(20);
const TIMES: usize = 50;
/// Closed paths whose handles are kept. Each has its own pool.
const KEPT: usize = 6;
const PACKETS: usize = 16;

/// The handles of one path.
struct Handles {
    path: Port,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    events: Events,
}

fn open(spec: &str, direction: Direction, owners: Owners, on_gone: OnGone) -> Port {
    let pool = PagePool::builder().frames(512).huge_pages(false).build().unwrap();
    let path = Port::builder(spec, direction).pool(&pool).owners(owners).on_gone(on_gone);
    let opened = path.takes_chains(true).build();
    opened.unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// Opens a path and takes all kinds of handles of it; packets are on their way when it returns.
fn handles(spec: &str, direction: Direction, round: usize) -> Handles {
    let owners = [Owners::Auto, Owners::Senders, Owners::Poller { cpu: None }][round % 3];
    let on_gone = if round % 4 == 3 { OnGone::Fail } else { OnGone::Reopen };
    let path = open(spec, direction, owners, on_gone);
    let has = |side| direction == side || direction == Direction::Both;
    let served = round.is_multiple_of(2) || matches!(owners, Owners::Poller { .. });
    let receive = || if served { path.served_receiver() } else { path.receiver() };
    let receiver = has(Direction::Receive).then(|| receive().unwrap());
    let mut sender = has(Direction::Send).then(|| path.sender("test").unwrap());
    if let Some(sender) = &mut sender {
        let mut burst = sender.burst(PACKETS);
        sender.fill(&mut burst, PACKETS, 100, LONG).unwrap();
        burst.iter_mut().for_each(write);
        // What has no room stays in the burst.
        _ = sender.send(&mut burst, Duration::from_millis(1));
    }
    let events = path.events().unwrap();
    Handles { path, sender, receiver, events }
}

/// Writes a UDP datagram from a port of this host to its discard port.
fn write(bytes: &mut [u8]) {
    bytes.fill(0);
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    bytes[14..24].copy_from_slice(&[0x45, 0, 0, 86, 0, 0, 0, 0, 64, net::UDP]);
    bytes[26..34].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
    bytes[36..40].copy_from_slice(&[0, 9, 0, 66]);
}

impl Handles {
    /// Closes the path, and checks that each call says so. Packets that had arrived are the receiver's.
    fn close(&mut self, what: &str) {
        let audit = self.path.clone().close(MOMENT);
        let is_closed = |error: Option<QueueError>| {
            assert!(matches!(error, Some(QueueError::Closed)), "{what}: {error:?}");
        };
        let mut burst = self.path.burst(PACKETS);
        let mut taken = 0;
        if let Some(receiver) = &mut self.receiver {
            while let Ok(count) = receiver.recv(&mut burst, LONG) {
                assert!(count > 0, "{what}: its end is not told");
                taken += count;
                burst.clear();
            }
            let ended = receiver.recv(&mut burst, Wait::Never);
            assert!(matches!(ended, Err(RecvError::Closed)), "{what}: {ended:?}");
        }
        let device = audit.held.iter().filter(|held| held.place.is_some()).count();
        assert!(audit.out() <= taken + device, "{what}: {audit}");
        if let Some(sender) = &mut self.sender {
            sender.fill(&mut burst, 1, 64, LONG).unwrap();
            let ended = sender.send(&mut burst, LONG);
            assert!(matches!(ended, Err(SendError::Closed)), "{what}: {ended:?}");
            is_closed(self.path.sender("late").err());
        }
        is_closed(self.path.receiver().err());
        is_closed(self.path.on_receive(|_| Rest::Free).err());
        is_closed(self.path.reopen().err());
        is_closed(self.path.far_end().err());
        assert!(self.events.wait(LONG).is_none() || self.events.by_ref().count() < 256, "{what}");
        self.path.close(MOMENT);
    }
}

/// Opens `spec`, closes it and opens it again, with the handles of those before still there.
fn opens_again(spec: &str, direction: Direction) {
    let mut kept = VecDeque::new();
    for round in 0..TIMES {
        let what = format!("{spec}, round {round}");
        let mut handles = handles(spec, direction, round);
        handles.close(&what);
        kept.push_back(handles);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

/// Closes `spec` while a handler runs, which holds a handle of the path, and opens it again.
fn closes_beside_a_handler(spec: &str, mut arrive: impl FnMut()) {
    let mut kept = Vec::new();
    for _ in 0..3 {
        let path = open(spec, Direction::Both, Owners::Auto, OnGone::Reopen);
        let (runs, own) = (Arc::new(AtomicBool::new(false)), path.clone());
        let started = runs.clone();
        let handler = move |_: &mut wharf::Burst| {
            started.store(true, SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            _ = own.name();
            Rest::Free
        };
        let queue = path.on_receive(handler).unwrap();
        eventually(LONG, || {
            arrive();
            runs.load(SeqCst)
        });
        let audit = path.close(LONG);
        assert_eq!((audit.out(), queue.has_ended()), (0, true), "{spec}: {audit}");
        kept.push((path, queue));
    }
}

/// Tells that it is dropped, and then waits for a moment, or until the other end goes on.
struct Dropped(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        _ = self.1.recv_timeout(10 * MOMENT);
    }
}

/// The device is with the thread that drops the receiver as the port is closed: a closure of the receiver's is
/// dropped just then.
#[test]
fn port_whose_receiver_goes_meanwhile_is_closed_when_close_returns() {
    within_a_minute(|| {
        let address = free_udp("127.0.0.1");
        for spec in [format!("udp:{address}"), format!("udp:{address},dest=frame")] {
            let direction = if spec.ends_with("frame") { Direction::Both } else { Direction::Receive };
            let path = open(&spec, direction, Owners::Auto, OnGone::Reopen);
            let ((tell, is_dropped), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
            let dropped = Dropped(tell, wait);
            let by = move |_: &[u8]| {
                let Dropped(..) = &dropped;
                0
            };
            let receivers = path.receivers(1, by).unwrap();
            let goes = std::thread::spawn(|| drop(receivers));
            is_dropped.recv().unwrap();
            path.close(MOMENT);
            let again = open(&spec, direction, Owners::Auto, OnGone::Reopen);
            _ = go_on.send(());
            goes.join().unwrap();
            again.close(MOMENT);
        }
    });
}

#[test]
fn closed_udp_port_is_opened_again() {
    within_a_minute(|| {
        let address = free_udp("127.0.0.1");
        let spec = format!("udp:{address},dest=frame");
        opens_again(&spec, Direction::Both);
        opens_again(&format!("udp:{address}"), Direction::Receive);
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        closes_beside_a_handler(&spec, || _ = peer.send_to(&[1], address));
    });
}

#[test]
fn closed_path_without_a_place_says_so() {
    within_a_minute(|| {
        for spec in ["null", "wire", "wire,delay=10ms,rate=1mbit"] {
            opens_again(spec, Direction::Send);
        }
        opens_again("wire", Direction::Both);
    });
}

#[test]
fn closed_capture_is_whole_and_is_opened_again() {
    within_a_minute(|| {
        let file = std::env::temp_dir().join(format!("wharf-closed-{}.pcap", std::process::id()));
        let spec = format!("pcap:{}", file.display());
        opens_again(&spec, Direction::Send);
        let bytes = std::fs::metadata(&file).unwrap().len();
        opens_again(&spec, Direction::Receive);
        std::fs::remove_file(&file).unwrap();
        assert!(bytes > (PACKETS * 100) as u64, "{bytes} B");
    });
}

#[cfg(feature = "vhost")]
#[test]
fn closed_sockets_of_a_guest_are_opened_again() {
    within_a_minute(|| {
        let socket = std::env::temp_dir().join(format!("wharf-closed-{}.sock", std::process::id()));
        let place = socket.display();
        let kept = Mutex::new(Vec::new());
        for round in 0..TIMES {
            let mut back = handles(&format!("vhost-user:{place}"), Direction::Both, round);
            let mut front = handles(&format!("virtio-user:{place}"), Direction::Both, round + 1);
            front.close(&format!("virtio-user, round {round}"));
            back.close(&format!("vhost-user, round {round}"));
            let mut kept = kept.lock().unwrap();
            kept.push((back, front));
            if kept.len() > KEPT {
                kept.remove(0);
            }
        }
        _ = std::fs::remove_file(&socket);
    });
}

#[test]
#[ignore = "wants root"]
fn closed_interface_is_opened_again() {
    within_ten_minutes(|| {
        super::interfaces::enter_with_pair();
        for direction in [Direction::Both, Direction::Send, Direction::Receive] {
            for spec in ["xdp:va", "packet:va", "tap:tclosed"] {
                opens_again(spec, direction);
            }
        }
        let mut far = handles("packet:vb", Direction::Send, 0);
        let sender = far.sender.as_mut().unwrap();
        let arrive = || {
            let mut packet = sender.packet(100, Wait::Never).unwrap();
            write(packet.bytes_mut());
            _ = sender.send_packet(packet, Wait::Forever).unwrap();
        };
        let arrive = Mutex::new(arrive);
        for spec in ["xdp:va", "packet:va"] {
            closes_beside_a_handler(spec, || (arrive.lock().unwrap())());
        }
    });
}

#[test]
fn the_account_at_the_end_names_the_device_that_holds_packets() {
    let Handles { path, sender, .. } = handles("wire", Direction::Send, 1);
    let far_end = path.far_end().unwrap();
    drop(sender);
    let audit = path.close(MOMENT);
    assert!(audit.out() > 0 && audit.to_string().contains("with device (taken by test)"), "{audit}");
    drop(far_end);
    assert_eq!(path.close(MOMENT).out(), 0);
}
