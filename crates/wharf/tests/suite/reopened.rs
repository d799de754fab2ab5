//! Paths whose device is opened anew under live senders: after completions that never come, and after it has gone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wharf::device::{AnyDevice, Device, DeviceError, Kind, Opened, Registry, TxDevice, delegate};
use wharf::{Direction, Event, Port, SendError, Sender, Wait};
use wharf::{Events, OnGone, OnStall, Owners, PortBuilder, State};
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::stalls::{Late, Stalls, run_delay};
use wharf_testkit::threads::{eventually, within_a_minute};

const SECOND: Duration = Duration::from_secs(1);
/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);
/// The time that a sender gives to each of its calls.
const TIME: Duration = Duration::from_millis(20);
/// Frames that the device has room for.
const RING: usize = 64;
const SENDERS: usize = 8;

/// The place of a test's device.
#[derive(Default)]
struct World {
    is_gone: AtomicBool,
    /// Attempts to open it that panic.
    panics: AtomicUsize,
    /// Attempts to open it.
    attempts: AtomicUsize,
    /// Devices opened, and their controls.
    opened: AtomicUsize,
    controls: Mutex<Vec<Arc<Control>>>,
}

impl World {
    /// Waits for further attempts to open it.
    fn await_attempts(&self, count: usize) {
        let before = self.attempts.load(SeqCst);
        eventually(LONG, || self.attempts.load(SeqCst) >= before + count);
    }
}

/// A [`Gate`] at a place. The first one completes nothing.
struct Placed {
    gate: Gate,
    world: Arc<World>,
}

fn gone() -> DeviceError {
    let source = std::io::Error::other("the test says so");
    DeviceError::Gone { device: "gate".into(), what: "removed".into(), source }
}

impl wharf::device::Notify for Placed {}

#[deny(clippy::missing_trait_methods)]
impl Device for Placed {
    delegate!(gate: name, mode, mode_reason, facts, set_line, attach, visit);

    /// What it holds has not left.
    fn close(&mut self) -> Result<(), DeviceError> {
        self.gate.control.failures.store(RING, SeqCst);
        self.gate.close()
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        Some(if self.world.is_gone.load(SeqCst) { Err(gone()) } else { Ok(()) })
    }
}

#[deny(clippy::missing_trait_methods)]
impl TxDevice for Placed {
    delegate!(gate: info, transmit, flush, outstanding, next_completion_ns, set_patience);

    fn reap(
        &mut self, budget: usize, urgent: bool, into: &mut wharf::device::Completions,
    ) -> Result<(), DeviceError> {
        self.gate.reap(budget, urgent, into)?;
        if self.world.is_gone.load(SeqCst) { Err(gone()) } else { Ok(()) }
    }
}

/// The world of the next path that is built, under a lock so that tests of one process take turns.
static WORLDS: Mutex<Vec<(String, Arc<World>)>> = Mutex::new(Vec::new());
static PLACED: Kind = Kind::new("placed", "placed:NAME", "a device of the test's own", |spec, _| {
    let worlds = WORLDS.lock().unwrap();
    let (_, world) = worlds.iter().find(|(name, _)| name == spec.place()).expect("a world");
    let world = world.clone();
    drop(worlds);
    #[allow(
        deprecated,
        reason = "its other name, `try_update`, is younger than the oldest Rust that builds this"
    )]
    if world.panics.fetch_update(SeqCst, SeqCst, |panics| panics.checked_sub(1)).is_ok() {
        panic!("the test says so");
    }
    world.attempts.fetch_add(1, SeqCst);
    if world.is_gone.load(SeqCst) {
        return Err(gone());
    }
    let is_first = world.opened.fetch_add(1, SeqCst) == 0;
    let (gate, control) = if is_first { Gate::new(RING) } else { Gate::open(RING) };
    world.controls.lock().unwrap().push(control);
    Ok(vec![Opened::new(AnyDevice::tx(Placed { gate, world: world.clone() }))])
})
.interface("NAME");

fn placed(name: &str, build: impl FnOnce(PortBuilder) -> PortBuilder) -> (Port, Arc<World>) {
    let world = Arc::new(World::default());
    WORLDS.lock().unwrap().push((name.into(), world.clone()));
    let registry = Registry::default().with(&PLACED).unwrap();
    let builder = Port::builder(&format!("placed:{name}"), Direction::Send).registry(registry);
    (build(builder).build().unwrap(), world)
}

/// Has another device go and come back: what opens devices by itself has had its time.
fn until_another_is_open_again(name: &str) {
    let (path, world) = placed(name, |path| path);
    let mut events = path.events().unwrap();
    world.is_gone.store(true, SeqCst);
    world.await_attempts(3);
    world.is_gone.store(false, SeqCst);
    reopened(&mut events);
}

fn next(events: &mut Events) -> Event {
    events.wait(LONG).expect("an event")
}

fn reopened(events: &mut Events) -> Duration {
    loop {
        if let Event::Reopened { after } = next(events) {
            return after;
        }
    }
}

/// Runs a call that is to end within [`TIME`], and notes whether it does.
fn timed<R>(late: &Mutex<Late>, call: impl FnOnce() -> R) -> R {
    let (delay, deadline) = (run_delay(), Instant::now() + TIME);
    let result = call();
    late.lock().unwrap().note(deadline, run_delay() - delay);
    result
}

/// Sends bursts of 32 until `stop`. Returns the packets accepted.
fn run(mut sender: Sender, stop: &AtomicBool, late: &Mutex<Late>) -> u64 {
    let mut accepted = 0;
    let mut burst = sender.burst(32);
    while !stop.load(SeqCst) {
        if timed(late, || sender.fill(&mut burst, 32, 64, TIME)).is_ok_and(|filled| filled > 0) {
            burst.iter_mut().for_each(|packet| packet.fill(0));
            accepted += timed(late, || sender.send(&mut burst, TIME)).unwrap().accepted as u64;
        }
        burst.clear();
    }
    accepted
}

/// Runs [`SENDERS`] senders over `path` while `disturb` runs, and closes the path. Prints how late their calls ended: 10 ms are promised,
/// and a test is not to measure the machine.
fn under_senders(path: &Port, disturb: impl FnOnce()) {
    let (stop, late) = (AtomicBool::new(false), Mutex::new(Late::default()));
    let stalls = Stalls::watch();
    let accepted: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|at| path.sender(&format!("sender {at}")).unwrap()).collect();
        let threads: Vec<_> =
            senders.into_iter().map(|sender| scope.spawn(|| run(sender, &stop, &late))).collect();
        disturb();
        stop.store(true, SeqCst);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    late.into_inner().unwrap().rest(&stalls.end());
    let audit = path.close(SECOND);
    let counters = path.queue().unwrap().counters();
    let ends = (counters.sent.get(), counters.failed.get(), counters.returned.get());
    assert_eq!(ends.0 + ends.1 + ends.2, accepted, "{ends:?}");
    assert_eq!((counters.accepted.get(), audit.out()), (accepted, 0), "{audit}");
}

#[test]
fn completions_lost_for_ever_and_a_reset_then_traffic_goes_on() {
    for owners in [Owners::Auto, Owners::Senders, Owners::Poller { cpu: None }] {
        let stall_after = Duration::from_millis(100);
        let build = |path: PortBuilder| path.owners(owners).on_stall(OnStall::Reset).stall_after(stall_after);
        let (path, world) = placed(&format!("stalls-{owners:?}"), build);
        within_a_minute(move || {
            let mut events = path.events().unwrap();
            let counters = || path.queue().unwrap().counters();
            under_senders(&path, || {
                assert!(matches!(next(&mut events), Event::Stalled { .. }), "{owners:?}");
                eprintln!("{owners:?}: open again after {:?}", reopened(&mut events));
                eventually(LONG, || counters().sent.get() >= 10_000);
            });
            let failures = counters().failures();
            let (reason, lost) = failures[0];
            // A machine that stands still may be another stall.
            let resets = world.opened.load(SeqCst) - 1;
            assert!(resets >= 1 && failures.len() == 1 && reason == "lost", "{owners:?}: {failures:?}");
            assert!(lost <= (RING * resets) as u64, "{owners:?}: {failures:?} in {resets} resets");
        });
    }
}

#[test]
fn a_stall_is_put_up_with_for_as_long_as_asked_before_the_device_is_reset() {
    let [stall_after, remedy_after] = [50, 600].map(Duration::from_millis);
    let build =
        |path: PortBuilder| path.on_stall(OnStall::Reset).stall_after(stall_after).remedy_after(remedy_after);
    let (path, world) = placed("patient", build);
    within_a_minute(move || {
        let mut events = path.events().unwrap();
        under_senders(&path, || {
            let Event::Stalled { since, .. } = next(&mut events) else { panic!("it stalls") };
            assert_eq!(world.opened.load(SeqCst), 1);
            assert_eq!(next(&mut events), Event::Reset);
            assert!(since.elapsed() >= remedy_after, "{:?}", since.elapsed());
            reopened(&mut events);
        });
        assert!(world.opened.load(SeqCst) >= 2);
    });
}

#[test]
fn senders_with_a_deadline_return_while_a_device_completes_nothing() {
    for owners in [Owners::Auto, Owners::Senders, Owners::Poller { cpu: None }] {
        let (path, world) = placed(&format!("silent-{owners:?}"), |path| path.owners(owners));
        within_a_minute(move || {
            under_senders(&path, || std::thread::sleep(Duration::from_millis(300)));
            let counters = path.queue().unwrap().counters();
            assert_eq!((counters.sent.get(), world.opened.load(SeqCst)), (0, 1), "{owners:?}");
        });
    }
}

#[test]
fn a_device_that_has_gone_is_opened_again_when_it_is_back() {
    let (path, world) = placed("gone", |path| path);
    within_a_minute(move || {
        let mut events = path.events().unwrap();
        let counters = || path.queue().unwrap().counters();
        world.controls.lock().unwrap()[0].allowed.store(usize::MAX / 2, SeqCst);
        under_senders(&path, || {
            for _ in 0..3 {
                world.is_gone.store(true, SeqCst);
                let Event::Gone { why, .. } = next(&mut events) else { panic!("it has gone") };
                assert!(why.contains("removed"), "{why}");
                assert!(matches!(path.state(), State::Gone { .. }));
                let went = Instant::now();
                // What it had is lost, and nothing while it is away.
                world.await_attempts(2);
                let failed = counters().failed.get();
                world.await_attempts(2);
                assert_eq!(counters().failed.get(), failed);
                let away = went.elapsed();
                world.is_gone.store(false, SeqCst);
                let after = reopened(&mut events);
                assert!(after >= away, "{after:?}, not {away:?}");
                assert_eq!(path.state(), State::Up);
                let sent = counters().sent.get();
                eventually(LONG, || counters().sent.get() >= sent + 1000);
            }
        });
        assert_eq!(world.opened.load(SeqCst), 4);
    });
}

#[test]
fn senders_wait_for_a_program_that_opens_it_again() {
    let (path, world) = placed("waits", |path| path.on_gone(OnGone::Wait));
    within_a_minute(move || {
        let mut events = path.events().unwrap();
        under_senders(&path, || {
            world.is_gone.store(true, SeqCst);
            assert!(matches!(next(&mut events), Event::Gone { .. }));
            world.is_gone.store(false, SeqCst);
            until_another_is_open_again("waits-too");
            assert_eq!(events.try_next(), None);
            assert_eq!(world.attempts.load(SeqCst), 1, "no attempt by itself");
            path.reopen().unwrap();
            reopened(&mut events);
            assert!(path.drain(LONG) || path.queue().unwrap().counters().sent.get() > 0);
        });
    });
}

#[test]
fn a_queue_that_fails_ends_every_wait_with_its_reason() {
    let gone: fn(PortBuilder) -> PortBuilder = |path| path.on_gone(OnGone::Fail);
    let stalled: fn(PortBuilder) -> PortBuilder =
        |path| path.on_stall(OnStall::Fail).stall_after(Duration::from_millis(30));
    for (name, build, goes, word) in [("fails", gone, true, "removed"), ("stuck", stalled, false, "none of")]
    {
        let (path, world) = placed(name, build);
        within_a_minute(move || {
            let mut sender = path.sender("test").unwrap();
            let mut burst = sender.burst(32);
            world.is_gone.store(goes, SeqCst);
            let _events = path.events().unwrap();
            let error = loop {
                if let Err(error) = sender.fill(&mut burst, 32, 64, LONG) {
                    break error;
                }
                if let Err(error) = sender.send(&mut burst, Wait::Forever) {
                    break error;
                }
            };
            let is_told = matches!(&error, SendError::Ended { why } if why.contains(word));
            assert!(is_told, "{name}: {error}");
            assert!(path.sender("late").is_err(), "{name}");
            drop((burst, sender));
            assert_eq!(path.close(Duration::ZERO).out(), 0, "{name}");
        });
    }
}

#[test]
fn a_path_without_a_place_cannot_be_opened_again() {
    let path = Port::open("null", Direction::Send).unwrap();
    assert!(path.reopen().unwrap_err().to_string().contains("cannot be opened again"));
}

#[test]
fn a_path_that_is_closed_while_its_device_is_away_ends_at_once() {
    let (path, world) = placed("closed", |path| path);
    within_a_minute(move || {
        let mut events = path.events().unwrap();
        world.is_gone.store(true, SeqCst);
        let mut sender = path.sender("test").unwrap();
        let mut burst = sender.burst(8);
        sender.fill(&mut burst, 8, 64, Wait::Never).unwrap();
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
        assert!(matches!(next(&mut events), Event::Gone { .. }));
        drop((burst, sender));
        assert_eq!(path.close(Duration::from_millis(10)).out(), 0);
        world.is_gone.store(false, SeqCst);
        until_another_is_open_again("closed-too");
        assert_eq!(world.opened.load(SeqCst), 1, "a closed path opens nothing");
    });
}

#[test]
fn resets_at_any_moment_are_each_carried_out() {
    let (path, world) = placed("resets", |path| path);
    within_a_minute(move || {
        let mut events = path.events().unwrap();
        under_senders(&path, || {
            for round in 0..30 {
                // At once upon the news, and while the device is being opened.
                path.reopen().unwrap();
                if round % 3 == 0 {
                    path.reopen().unwrap();
                }
                reopened(&mut events);
            }
            let counters = path.queue().unwrap().counters();
            let sent = counters.sent.get();
            eventually(LONG, || counters.sent.get() >= sent + 1000);
        });
        assert!(world.opened.load(SeqCst) > 30);
    });
}

#[test]
fn a_kind_that_panics_as_it_opens_is_tried_again() {
    let (path, world) = placed("panics", |path| path);
    within_a_minute(move || {
        let mut events = path.events().unwrap();
        under_senders(&path, || {
            world.panics.store(3, SeqCst);
            path.reopen().unwrap();
            reopened(&mut events);
        });
        assert_eq!(world.panics.load(SeqCst), 0);
    });
}

#[test]
fn a_device_that_goes_while_it_is_reset_fails_where_that_is_asked_for() {
    let stall_after = Duration::from_millis(30);
    let build =
        |path: PortBuilder| path.on_stall(OnStall::Reset).on_gone(OnGone::Fail).stall_after(stall_after);
    let (path, world) = placed("goes", build);
    within_a_minute(move || {
        let mut sender = path.sender("test").unwrap();
        let mut burst = sender.burst(32);
        world.is_gone.store(true, SeqCst);
        let error = loop {
            _ = sender.fill(&mut burst, 32, 64, Duration::from_millis(20));
            if let Err(error) = sender.send(&mut burst, Duration::from_millis(20)) {
                break error;
            }
        };
        assert!(matches!(&error, SendError::Ended { why } if why.contains("removed")), "{error}");
        drop((burst, sender));
        assert_eq!(path.close(Duration::ZERO).out(), 0);
    });
}
