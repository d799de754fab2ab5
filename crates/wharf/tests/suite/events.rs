//! Events and the state of a path: stalls of a device of the test's own, lines that go down, up and away, panics.

use std::future::Future;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wharf::device::{AnyDevice, Device, DeviceError, Kind, Opened, Registry, TxDevice, delegate};
use wharf::queue::Rest;
use wharf::{Direction, Event, Port, SendError, Sender, Sent, Wait};
use wharf::{Events, Owners, PortBuilder, State};
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{eventually, within_a_minute};

/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);
const UP: u8 = 0;
const DOWN: u8 = 1;
const GONE: u8 = 2;

/// A [`Gate`] with a line.
struct Lined {
    gate: Gate,
    line: Arc<AtomicU8>,
}

impl wharf::device::Notify for Lined {}

#[deny(clippy::missing_trait_methods)]
impl Device for Lined {
    delegate!(gate: name, mode, mode_reason, facts, set_line, attach, visit, close);

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        let (device, source) = (self.name(), std::io::Error::other("the test says so"));
        Some(match self.line.load(SeqCst) {
            UP => Ok(()),
            DOWN => Err(DeviceError::Down { device, what: "unplugged".into(), source }),
            _ => Err(DeviceError::Gone { device, what: "removed".into(), source }),
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl TxDevice for Lined {
    delegate!(gate: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

/// The controls of the device opened last, under a lock so that tests of one process take turns to open.
static OPENED: Mutex<Option<(Arc<Control>, Arc<AtomicU8>)>> = Mutex::new(None);
static OPENING: Mutex<()> = Mutex::new(());
static GATE: Kind = Kind::new("gate", "gate", "a device of the test's own", |_, _| {
    let (gate, control) = Gate::new(64);
    let line = Arc::new(AtomicU8::new(UP));
    *OPENED.lock().unwrap() = Some((control, line.clone()));
    Ok(vec![Opened::new(AnyDevice::tx(Lined { gate, line }))])
});

fn gate(build: impl FnOnce(PortBuilder) -> PortBuilder) -> (Port, Arc<Control>, Arc<AtomicU8>) {
    let _turn = OPENING.lock().unwrap();
    let registry = Registry::default().with(&GATE).unwrap();
    let path = build(Port::builder("gate", Direction::Send).registry(registry)).build().unwrap();
    let (control, line) = OPENED.lock().unwrap().take().unwrap();
    (path, control, line)
}

fn send(sender: &mut Sender, packets: usize) -> Result<Sent, SendError> {
    let mut burst = sender.burst(packets);
    if sender.fill(&mut burst, packets, 64, LONG)? == 0 {
        return Ok(Sent::default());
    }
    burst.iter_mut().for_each(|packet| packet.fill(0));
    let sent = sender.send(&mut burst, Duration::from_millis(50));
    burst.clear();
    sent
}

fn is_readable(events: &Events, within: Duration) -> bool {
    let fd = events.as_fd().as_raw_fd();
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives as long as the call.
    unsafe { libc::poll(&raw mut polled, 1, within.as_millis() as i32) == 1 }
}

fn next(events: &mut Events) -> Event {
    events.wait(LONG).expect("an event")
}

/// Frames in the device are never completed: told while it lasts, and when it is over.
fn stall(owners: Owners, stall_after: Option<Duration>) {
    // A busy poller reads the clock once a turn: the stall may begin in one that began before the first packet.
    let began = Instant::now();
    let (path, control, _) = gate(|path| match stall_after {
        Some(time) => path.owners(owners).stall_after(time),
        None => path.owners(owners),
    });
    let (mut events, mut others) = (path.events().unwrap(), path.events().unwrap());
    assert!(path.state() == State::Up && !is_readable(&events, Duration::ZERO), "{owners:?}");
    let (mut sender, mut second) = (path.sender("first").unwrap(), path.sender("second").unwrap());
    // The byte limit lets one frame through; a sender with a deadline has its error all the same.
    let times_out = |sender: &mut Sender| (0..100).any(|_| send(sender, 32).unwrap().accepted < 32);
    assert!(times_out(&mut sender), "{owners:?}");
    assert!(is_readable(&events, LONG), "{owners:?}");
    let Event::Stalled { since, why } = next(&mut events) else { panic!("{owners:?}: it stalls") };
    assert!(since >= began && why.contains("none of"), "{owners:?}: {why}");
    assert!(!is_readable(&events, Duration::ZERO), "{owners:?}: all are read");
    assert_eq!(path.state(), State::Stalled { since, why });
    assert!(times_out(&mut second), "{owners:?}: it stalls still");
    assert_eq!(events.try_next(), None, "{owners:?}: told once");
    control.allowed.store(usize::MAX / 2, SeqCst);
    let Event::Resumed { after } = next(&mut events) else { panic!("{owners:?}: it resumes") };
    assert!(after >= stall_after.unwrap_or_default(), "{owners:?}: {after:?}");
    assert_eq!(path.state(), State::Up, "{owners:?}");
    assert!(matches!(others.next(), Some(Event::Stalled { .. })), "{owners:?}: each has all events");
    assert!(matches!(others.next(), Some(Event::Resumed { .. })), "{owners:?}");
    assert!(path.drain(LONG), "{owners:?}");
    drop((sender, second));
    let audit = path.close(LONG);
    assert_eq!((audit.out(), others.next(), others.missed()), (0, None, 0), "{owners:?}: {audit}");
    let counters = path.queue().unwrap().counters();
    assert_eq!(counters.accepted.get(), counters.sent.get(), "{owners:?}");
    let longest = Duration::from_nanos(counters.longest_stall_ns.get());
    assert_eq!((counters.stalls.get(), longest), (1, after), "{owners:?}");
}

#[test]
fn a_device_that_completes_nothing_is_told_while_it_lasts() {
    within_a_minute(|| {
        let cpu = wharf_devices::host::processors()[0];
        for owners in [Owners::Auto, Owners::Senders, Owners::Poller { cpu: None }, Owners::Busy { cpu }] {
            stall(owners, Some(Duration::from_millis(30)));
            stall(owners, None);
        }
    });
}

#[test]
fn a_line_that_flaps_is_no_news_before_it_is_down_for_as_long_as_is_asked_for() {
    let (path, _, line) = gate(|path| path.down_after(Duration::from_secs(3600)));
    let mut events = path.events().unwrap();
    for (state, is_it) in [(DOWN, false), (UP, true), (DOWN, false)] {
        line.store(state, SeqCst);
        eventually(LONG, || (path.state() == State::Up) == is_it);
    }
    assert_eq!(events.try_next(), None);
    line.store(GONE, SeqCst);
    assert!(matches!(next(&mut events), Event::Gone { .. }));

    let after = Duration::from_millis(20);
    let (path, _, line) = gate(|path| path.down_after(after));
    let mut events = path.events().unwrap();
    line.store(DOWN, SeqCst);
    let event = next(&mut events);
    assert!(matches!(&event, Event::Down { since, .. } if since.elapsed() >= after), "{event:?}");
    line.store(UP, SeqCst);
    assert_eq!(next(&mut events), Event::Up);
}

#[test]
fn a_line_is_down_and_up_again_and_gone() {
    let (path, _, line) = gate(|path| path);
    let mut events = path.events().unwrap();
    line.store(DOWN, SeqCst);
    let Event::Down { since, why } = next(&mut events) else { panic!("it is down") };
    assert!(why.contains("unplugged"), "{why}");
    assert_eq!(path.state(), State::Down { since, why });
    line.store(UP, SeqCst);
    assert_eq!((next(&mut events), path.state()), (Event::Up, State::Up));
    for line_is in [DOWN, UP].into_iter().cycle().take(300) {
        line.store(line_is, SeqCst);
        path.state();
    }
    assert!(next(&mut events) == Event::Up || events.missed() == 44, "{}", events.missed());
    let unread = std::iter::from_fn(|| events.try_next()).count();
    assert_eq!((unread as u64 + 1 + events.missed(), events.missed()), (300, 44), "the oldest are dropped");
    line.store(GONE, SeqCst);
    // Without a wait: who asks for the state has the device asked.
    let State::Gone { since, why } = path.state() else { panic!("it is gone") };
    assert_eq!(next(&mut events), Event::Gone { since, why });
    line.store(UP, SeqCst);
    assert!(matches!(path.state(), State::Gone { .. }), "for good");
    assert_eq!(path.close(LONG).out(), 0);
}

#[test]
fn a_handler_that_panics_is_told_to_a_task() {
    let near = Port::open("wire", Direction::Send).unwrap();
    let path = near.far_end().unwrap();
    let mut events = path.events().unwrap();
    let mut next = Box::pin(events.next_async());
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    path.on_receive(|_| -> Rest { panic!("the test's handler") }).unwrap();
    _ = send(&mut near.sender("test").unwrap(), 1).unwrap();
    let began = Instant::now();
    let event = loop {
        match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => break event,
            Poll::Pending => assert!(began.elapsed() < LONG),
        }
        std::thread::yield_now();
    };
    assert!(matches!(&event, Some(Event::Panicked { why }) if why.contains("handler")), "{event:?}");
    assert_eq!(path.state(), State::Up, "it can send");
}

#[test]
fn a_device_that_panics_is_told_and_its_queue_is_gone() {
    let (path, control, _) = gate(|path| path.owners(Owners::Poller { cpu: None }));
    let mut events = path.events().unwrap();
    control.bomb.store(1, SeqCst);
    let mut sender = path.sender("test").unwrap();
    while send(&mut sender, 1).is_ok() {}
    assert!(matches!(next(&mut events), Event::Panicked { .. }));
    assert!(matches!(next(&mut events), Event::Gone { .. }));
    assert!(matches!(path.state(), State::Gone { .. }));
}

fn ip(arguments: &str) {
    let status = std::process::Command::new("ip").args(arguments.split(' ')).status().expect("wants `ip`");
    assert!(status.success(), "ip {arguments}");
}

/// Takes the line away, in three ways, from a path that is idle or sends.
fn lose(kind: &str, direction: Direction, sends: bool) {
    let what = format!("{kind}, {direction:?}, sends: {sends}");
    ip("link add va type veth peer name vb");
    ip("link set va up");
    ip("link set vb up");
    let path = Port::open(&format!("{kind}:va"), direction).unwrap();
    let mut events = path.events().unwrap();
    let mut sender = path.sender("test").ok().filter(|_| sends);
    let mut receiver = (direction != Direction::Send).then(|| path.served_receiver().unwrap());
    let mut next = || {
        let began = Instant::now();
        loop {
            sender.iter_mut().for_each(|sender| _ = send(sender, 4));
            receiver.iter_mut().for_each(|receiver| _ = receiver.recv(&mut path.burst(8), Wait::Never));
            if let Some(event) = events.wait(Duration::from_millis(10)) {
                return event;
            }
            assert!(began.elapsed() < LONG, "{what}: {:?}", path.state());
        }
    };
    for interface in ["va", "vb"] {
        // A side that only receives has no carrier to lose.
        if interface == "vb" && direction == Direction::Receive {
            continue;
        }
        ip(&format!("link set {interface} down"));
        let Event::Down { since, why } = next() else { panic!("{what}: it is down") };
        assert_eq!(path.state(), State::Down { since, why }, "{what}");
        ip(&format!("link set {interface} up"));
        assert_eq!((next(), path.state()), (Event::Up, State::Up), "{what}");
        let told = path.queue().ok().and_then(|queue| queue.counters().last_error());
        assert!(told.is_none(), "{what}: {told:?}");
    }
    ip("link del va");
    let gone = next();
    let gone = if let Event::Down { .. } = gone { next() } else { gone };
    let Event::Gone { since, why } = gone else { panic!("{what}: {gone:?}") };
    assert_eq!(path.state(), State::Gone { since, why }, "{what}");
    drop((sender, receiver));
    assert_eq!(path.close(LONG).out(), 0, "{what}");
}

#[test]
#[ignore = "wants root"]
fn interfaces_go_down_and_up_and_away() {
    within_a_minute(|| {
        wharf_sys::namespace::enter_new_network().expect("wants root");
        for kind in ["packet", "xdp"] {
            for sends in [false, true] {
                lose(kind, Direction::Send, sends);
            }
            lose(kind, Direction::Receive, false);
        }
        lose("xdp", Direction::Both, true);
    });
}
