//! Receive sides whose device goes, or whose port is closed.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use wharf::device::{AnyDevice, Batch, Cache, Device, DeviceError, Frame, Kind, Notify, Opened, Region};
use wharf::device::{DeviceSpec, Opening};
use wharf::device::{Registry, RxDevice, TxDevice, delegate};
use wharf::net::UdpHeaders;
use wharf::queue::Rest;
use wharf::{Burst, Direction, Event, OnGone, Port, SendError, Sender, Wait};
use wharf_devices::null::Null;
use wharf_testkit::free_udp;
use wharf_testkit::threads::{eventually, spawn_waiting, within_a_minute};

/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);
/// The devices of `last` go once this is true. One test uses it.
static GOES: AtomicBool = AtomicBool::new(false);
/// Instances of `slow`, and its openings.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static OPENINGS: AtomicUsize = AtomicUsize::new(0);

fn gone() -> DeviceError {
    let source = std::io::Error::other("the test says so");
    DeviceError::Gone { device: "last".into(), what: "removed".into(), source }
}

/// A device that gives five packets, and has gone, in one call.
#[derive(Default)]
struct Last {
    has_gone: bool,
}

impl Notify for Last {}

impl Device for Last {
    fn name(&self) -> String {
        "last".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Last {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if budget == 0 || self.has_gone || !GOES.load(SeqCst) {
            return Ok(0);
        }
        self.has_gone = true;
        assert_eq!(cache.take(to, 5, 64).unwrap(), 5);
        Err(gone())
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        Some(1_000_000)
    }
}

static LAST: Kind = Kind::new("last", "last:NAME", "a device of the test's own", |_, _| {
    if GOES.load(SeqCst) { Err(gone()) } else { Ok(vec![Opened::new(AnyDevice::rx(Last::default()))]) }
})
.interface("NAME")
.receive_only();

#[test]
fn packets_that_come_with_an_error_then_they_count_and_their_receiver_wakes() {
    within_a_minute(|| {
        for on_gone in [OnGone::Fail, OnGone::Wait, OnGone::Reopen] {
            GOES.store(false, SeqCst);
            let registry = Registry::default().with(&LAST).unwrap();
            let builder = Port::builder("last:one", Direction::Receive).registry(registry);
            let port = builder.on_gone(on_gone).build().unwrap();
            let mut receiver = port.served_receiver().unwrap();
            let mut burst = port.burst(64);
            let waiting = spawn_waiting(move || {
                let result = receiver.recv(&mut burst, Wait::Forever);
                (result, burst.len())
            });
            GOES.store(true, SeqCst);
            let (result, came) = waiting.join().unwrap();
            assert_eq!(came, 5, "{on_gone:?}: {result:?}");
            assert_eq!(port.snapshot().received, 5, "{on_gone:?}");
            port.close(LONG);
        }
    });
}

/// A receive side that has gone.
struct Lost;

impl Notify for Lost {}

impl Device for Lost {
    fn name(&self) -> String {
        "lost".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Lost {
    fn receive(&mut self, _: &mut Cache, _: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if budget == 0 { Ok(0) } else { Err(gone()) }
    }
}

#[test]
fn receive_side_that_goes_then_its_receiver_ends_the_senders_of_the_port() {
    within_a_minute(|| {
        let device = Opened { receiving: Some(Box::new(Lost)), ..Opened::tx(Null::default()) };
        let builder = Port::builder_over(vec![device], Direction::Both).on_gone(OnGone::Fail);
        let port = builder.build().unwrap();
        let (mut sender, mut receiver) = (port.sender("test").unwrap(), port.receiver().unwrap());
        let mut burst = port.burst(1);
        assert!(receiver.recv(&mut burst, Wait::Never).is_err());
        // Its own polls look at the device first.
        _ = receiver.recv(&mut burst, Wait::Never);
        let began = Instant::now();
        loop {
            match sender.packet(64, Wait::Never).and_then(|packet| sender.send_packet(packet, Wait::Never)) {
                Err(SendError::Ended { .. }) => break,
                Err(other) => panic!("{other}"),
                Ok(_) => assert!(began.elapsed() < LONG, "sending goes on"),
            }
        }
    });
}

/// A device of which one instance counts while it lives.
struct Slow {
    inner: Null,
}

impl Drop for Slow {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, SeqCst);
    }
}

impl Notify for Slow {}

impl Device for Slow {
    delegate!(inner: name, mode, mode_reason, facts, set_line, attach, visit, close, link);
}

impl TxDevice for Slow {
    delegate!(inner: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

static SLOW: Kind = Kind::new("slow", "slow:NAME", "a device of the test's own", |_, _| {
    LIVE.fetch_add(1, SeqCst);
    let device = Slow { inner: Null::default() };
    if OPENINGS.fetch_add(1, SeqCst) > 0 {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(vec![Opened::new(AnyDevice::tx(device))])
})
.interface("NAME");

#[test]
fn close_while_the_device_is_being_opened_again_then_none_lives_behind_it() {
    within_a_minute(|| {
        let registry = Registry::default().with(&SLOW).unwrap();
        let port = Port::builder("slow:one", Direction::Send).registry(registry).build().unwrap();
        port.reopen().unwrap();
        eventually(LONG, || OPENINGS.load(SeqCst) >= 2);
        port.close(LONG);
        assert_eq!(LIVE.load(SeqCst), 0);
        assert_eq!(port.snapshot().reopened, 0);
    });
}

#[test]
fn close_with_packets_that_found_no_room_then_each_is_taken_or_counts() {
    within_a_minute(|| {
        for takes_first in [0, 32, 200] {
            let near = Port::open("wire", Direction::Send).unwrap();
            let far = near.far_end().unwrap();
            let (mut sender, mut receiver) = (near.sender("test").unwrap(), far.served_receiver().unwrap());
            let (mut burst, mut came) = (sender.burst(200), far.burst(256));
            for _ in 0..2 {
                assert_eq!(sender.fill(&mut burst, 200, 64, LONG).unwrap(), 200);
                _ = sender.send(&mut burst, LONG).unwrap();
            }
            eventually(LONG, || far.snapshot().received > 256);
            let mut taken = 0;
            if takes_first > 0 {
                taken += receiver.recv(&mut far.burst(takes_first), LONG).unwrap();
            }
            far.close(LONG);
            while let Ok(count) = receiver.recv(&mut came, LONG) {
                taken += count;
                came.clear();
            }
            let snapshot = far.snapshot();
            let dropped: u64 = snapshot.drops.values().sum();
            assert_eq!(taken as u64 + dropped, snapshot.received, "{snapshot:?}");
        }
    });
}

/// Sends a packet by `sender`.
fn send(sender: &mut Sender) {
    let mut packet = sender.packet(60, LONG).unwrap();
    let headers = UdpHeaders::between("127.0.0.1:9".parse().unwrap(), "127.0.0.1:9".parse().unwrap());
    _ = headers.unwrap().put(&mut packet);
    _ = sender.send_packet(packet, LONG).unwrap();
}

/// Opens `port` again, and waits until it is.
fn reopen(port: &Port) {
    let mut events = port.events().unwrap();
    port.reopen().unwrap();
    while !matches!(events.wait(LONG), Some(Event::Reopened { .. })) {}
}

#[test]
fn udp_that_is_reset_then_datagrams_that_did_not_arrive_count() {
    within_a_minute(|| {
        for sends_again in [true, false] {
            let refused = || {
                // A port that nothing listens at.
                let port = Port::open(&format!("udp:{}", free_udp("127.0.0.1")), Direction::Send).unwrap();
                let mut sender = port.sender("test").unwrap();
                send(&mut sender);
                assert!(port.drain(LONG));
                reopen(&port);
                if sends_again {
                    send(&mut sender);
                    assert!(port.drain(LONG));
                }
                port.close(LONG);
                port.snapshot().drops.get("connection-refused").copied().unwrap_or(0)
            };
            // The kernel answers so many a second, those of other programs too (`icmp_msgs_per_sec`).
            eventually(LONG, || refused() == 1 + u64::from(sends_again));
        }
    });
}

#[test]
fn udp_whose_port_the_kernel_chose_then_it_is_the_same_after_a_reset() {
    within_a_minute(|| {
        let port = Port::open("udp:127.0.0.1:0", Direction::Receive).unwrap();
        let mut receiver = port.served_receiver().unwrap();
        reopen(&port);
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"hello", port.name().strip_prefix("udp:").unwrap()).unwrap();
        assert_eq!(receiver.recv(&mut port.burst(1), LONG).unwrap(), 1, "{}", port.name());
    });
}

#[test]
fn two_receivers_that_leave_at_once_then_the_counts_of_both_stay() {
    within_a_minute(|| {
        let near = Port::open("wire", Direction::Send).unwrap();
        let far = near.far_end().unwrap();
        let ((begins, begun), (ends, end)) = (channel(), channel::<()>());
        let by = move |_: &[u8]| {
            _ = begins.send(());
            _ = end.recv();
            0
        };
        let first = far.receivers(1, by).unwrap();
        let mut sender = near.sender("test").unwrap();
        send(&mut sender);
        begun.recv().unwrap();
        // Its thread is in a call of `by`, and waits.
        let leaving = std::thread::spawn(move || drop(first));
        eventually(LONG, || far.served_receiver().is_ok());
        drop(ends);
        leaving.join().unwrap();
        assert_eq!(far.snapshot().received, 1);
    });
}

/// Runs `body` in a process of its own, the test `name`, as far as it is that.
fn in_own_process(name: &str, body: impl FnOnce()) {
    if std::env::var("WHARF_GONE_CHILD").is_ok() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args([name, "--exact", "--nocapture"]).env("WHARF_GONE_CHILD", "1");
    assert!(child.status().unwrap().success());
}

/// Runs `body` with a limit of no descriptors.
fn without_descriptors<T>(body: impl FnOnce() -> T) -> T {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let set = |limit: libc::rlimit| {
        // SAFETY: the kernel reads a structure that lives as long as the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    // SAFETY: the kernel writes a structure that lives as long as the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, 0);
    set(libc::rlimit { rlim_cur: 0, ..before });
    let result = body();
    set(before);
    result
}

#[test]
fn no_descriptor_for_a_handlers_poller_then_the_next_handler_is_called() {
    in_own_process("gone::no_descriptor_for_a_handlers_poller_then_the_next_handler_is_called", || {
        let near = Port::open("wire", Direction::Send).unwrap();
        let far = near.far_end().unwrap();
        assert!(without_descriptors(|| far.on_receive(|_| Rest::Free)).is_err());
        let (comes, came) = channel();
        let queue = far.on_receive(move |_| {
            _ = comes.send(());
            Rest::Free
        });
        assert!(queue.is_ok(), "{queue:?}");
        send(&mut near.sender("test").unwrap());
        came.recv_timeout(LONG).unwrap();
    });
}

/// Wires side by side.
static WIRES: Kind =
    Kind::new("wires", "wires", "wires side by side", |spec: &DeviceSpec, opening: Opening| {
        (0..spec.devices(opening.queues))
            .map(|_| Registry::default().open("wire", opening.direction))
            .collect()
    })
    .device_per_queue()
    .both_ways();

#[test]
fn no_descriptor_when_a_port_leaves_its_poller_then_the_other_handlers_are_called() {
    in_own_process(
        "gone::no_descriptor_when_a_port_leaves_its_poller_then_the_other_handlers_are_called",
        || {
            let registry = Registry::default().with(&WIRES).unwrap();
            let builder = Port::builder("wires", Direction::Both).registry(registry).one_poller(true);
            let ports = builder.build_queues(2, |queue, _| queue).unwrap();
            let peer = ports[0].far_end().unwrap();
            let (comes, came) = channel();
            let handler = move |_: &mut Burst| {
                _ = comes.send(());
                Rest::Free
            };
            ports[0].on_receive(handler).unwrap();
            ports[1].on_receive(|_| Rest::Free).unwrap();
            let mut sender = peer.sender("test").unwrap();
            without_descriptors(|| ports[1].close(LONG));
            send(&mut sender);
            came.recv_timeout(LONG).unwrap();
        },
    );
}
