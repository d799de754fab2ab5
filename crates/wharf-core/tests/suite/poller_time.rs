//! A poller in virtual time, without a thread: waits move the clock, and each look at the clock takes time.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use wharf_core::device::{
    AnyDevice, CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice,
    TxInfo,
};
use wharf_core::host::{Clock, PollerWait, Wake};
use wharf_core::poller::{Mode, Poller, PollerStop, Settings};
use wharf_core::pool::{Burst, Cache};
use wharf_core::qdisc::{Fifo, FifoLimit, Rate, Tbf};
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_mem::{Batch, Frame, Region};
use wharf_testkit::threads::{NoWake, TestClock, TestPark};
use wharf_testkit::{assert_conserved, pool};

/// Time of a look at the clock, and so of a step of the poller, ns.
const STEP_NS: u64 = 200;
/// Time from transmission to completion, ns.
const WIRE_NS: u64 = 30_000;

/// A device: frames arrive at given times and complete some time after transmission. It notifies while unmasked.
#[derive(Default)]
struct Line {
    arrivals: VecDeque<u64>,
    leaving: VecDeque<(Frame, u64)>,
    latencies_ns: Vec<u64>,
    unmaskings: u32,
    unmasked: bool,
    /// Time of the last transmission.
    taken_ns: u64,
    /// Time up to which events were notified.
    told_ns: u64,
}

struct End(Arc<TestClock>, Arc<Mutex<Line>>);

impl Notify for End {
    fn arm(&mut self) -> bool {
        let now_ns = self.0.now_ns();
        self.1.lock().unwrap().arrivals.front().is_none_or(|&at_ns| at_ns > now_ns)
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(0)
    }
}

impl Device for End {
    fn name(&self) -> String {
        "line".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.1.lock().unwrap().leaving.iter().for_each(|(frame, _)| see(frame));
    }
}

impl TxDevice for End {
    fn info(&self) -> TxInfo {
        TxInfo { ring_frames: Some(64), completions: CompletionMode::Real, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        let (mut line, leaves_ns) = (self.1.lock().unwrap(), self.0.now_ns() + WIRE_NS);
        let doorbell = !batch.is_empty();
        line.taken_ns = leaves_ns - WIRE_NS;
        line.leaving.extend(std::iter::from_fn(|| batch.pop()).map(|frame| (frame, leaves_ns)));
        Transmitted { doorbell, stopped: false }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let (mut line, now_ns) = (self.1.lock().unwrap(), self.0.now_ns());
        for _ in 0..budget {
            if line.leaving.front().is_none_or(|(_, leaves_ns)| *leaves_ns > now_ns) {
                break;
            }
            into.sent.push(line.leaving.pop_front().unwrap().0).unwrap();
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.1.lock().unwrap().leaving.len()
    }
}

impl RxDevice for End {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let (mut line, now_ns) = (self.1.lock().unwrap(), self.0.now_ns());
        let count = line.arrivals.iter().take(budget).take_while(|&&at_ns| at_ns <= now_ns).count();
        let count = if count == 0 { 0 } else { cache.take(to, count, 64).unwrap_or(0) };
        let latencies: Vec<u64> = line.arrivals.drain(..count).map(|at_ns| now_ns - at_ns).collect();
        line.latencies_ns.extend(latencies);
        Ok(count)
    }
}

/// Waits in virtual time, and stops the poller when it would sleep for good.
struct VirtualWait {
    clock: Arc<TestClock>,
    line: Arc<Mutex<Line>>,
    stop: Arc<Mutex<Option<PollerStop>>>,
}

impl std::fmt::Debug for VirtualWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VirtualWait")
    }
}

impl PollerWait for VirtualWait {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(NoWake)
    }

    fn now_ns(&self) -> u64 {
        self.clock.0.fetch_add(STEP_NS, SeqCst)
    }

    fn watch(&mut self, _at: usize, _fd: RawFd) -> bool {
        true
    }

    fn unmask(&mut self, _at: usize) {
        let mut line = self.line.lock().unwrap();
        (line.unmasked, line.told_ns) = (true, self.clock.now_ns());
        line.unmaskings += 1;
    }

    fn mask(&mut self, _at: usize) {
        self.line.lock().unwrap().unmasked = false;
    }

    fn wait(&mut self, timeout_ns: u64, told: &mut dyn FnMut(usize)) {
        let mut line = self.line.lock().unwrap();
        let began_ns = self.clock.now_ns();
        let ends_ns = began_ns.saturating_add(timeout_ns);
        let after = |at_ns: &&u64| **at_ns > line.told_ns;
        let events = line.arrivals.iter().chain(line.leaving.iter().map(|(_, at_ns)| at_ns));
        let next_ns = events.filter(after).min().copied().filter(|_| line.unmasked);
        match next_ns.filter(|&at_ns| at_ns <= ends_ns) {
            Some(at_ns) => {
                line.told_ns = at_ns;
                self.clock.0.fetch_max(at_ns, SeqCst);
                told(0);
            }
            None if ends_ns == u64::MAX => self.stop.lock().unwrap().iter().for_each(PollerStop::stop),
            None => {
                self.clock.0.fetch_max(ends_ns, SeqCst);
            }
        }
    }
}

/// Forwards frames that arrive at these times. Returns latencies, the number of unmaskings, and the time of the end.
fn run(mode: Mode, arrivals: impl IntoIterator<Item = u64>) -> (Vec<u64>, u32, u64) {
    let (clock, line) = (Arc::new(TestClock::default()), Arc::new(Mutex::new(Line::default())));
    line.lock().unwrap().arrivals.extend(arrivals);
    let count = line.lock().unwrap().arrivals.len();
    let pool = pool(512);
    let end = AnyDevice::duplex(End(clock.clone(), line.clone()));
    let queue = TxQueue::builder_of(&pool, end, clock.clone(), Arc::new(TestPark)).unwrap().build().unwrap();
    let mut sender = queue.sender("forwards").unwrap();
    let handler = Box::new(move |burst: &mut Burst| {
        _ = sender.send(burst, Wait::Never).unwrap();
        Rest::Again
    });
    let receiver = RxQueue::of(&queue, handler).unwrap();
    let stop = Arc::new(Mutex::new(None));
    let wait = VirtualWait { clock: clock.clone(), line: line.clone(), stop: stop.clone() };
    let mut poller = Poller::new(Box::new(wait), Settings { mode, ..Settings::default() });
    poller.add_receiver(&receiver);
    *stop.lock().unwrap() = Some(poller.stopper());
    poller.run();
    assert_eq!((receiver.received(), queue.counters().sent.get()), (count as u64, count as u64), "{mode:?}");
    drop(receiver);
    assert_conserved(&queue);
    let line = line.lock().unwrap();
    (line.latencies_ns.clone(), line.unmaskings, clock.now_ns())
}

#[test]
fn all_frames_are_received_and_completed_before_the_poller_sleeps() {
    for apart_ns in [0, 500, 7_000, 20_000, 130_000, 3_000_000] {
        for mode in [Mode::Adaptive, Mode::Sleeping] {
            let arrivals = || (0..300u64).map(|n| 1_000 + n * apart_ns + n % 7 * 100);
            let (latencies_ns, unmaskings, end_ns) = run(mode, arrivals());
            let last_ns = arrivals().next_back().unwrap();
            assert!(end_ns < last_ns + 12_000_000, "{mode:?}, {apart_ns} ns apart: until {end_ns}");
            // Woken at once: the time of a few steps; in a crowd, of those before it.
            let worst_ns = latencies_ns.iter().max().copied().unwrap();
            assert!(worst_ns < 20_000, "{mode:?}, {apart_ns} ns apart: {worst_ns} ns late");
            let again = run(mode, arrivals());
            assert_eq!(again, (latencies_ns, unmaskings, end_ns), "same parameters, same result");
        }
    }
}

#[test]
fn spinning_saves_notifications_only_for_frequent_frames() {
    let unmaskings = |mode, apart_ns: u64| run(mode, (1..=300).map(|n| n * apart_ns)).1;
    let (often, often_asleep) = (unmaskings(Mode::Adaptive, 20_000), unmaskings(Mode::Sleeping, 20_000));
    assert!(10 * often < often_asleep, "{often} and {often_asleep} at 20 us");
    let (seldom, seldom_asleep) = (unmaskings(Mode::Adaptive, 900_000), unmaskings(Mode::Sleeping, 900_000));
    assert!(seldom >= 300 && seldom <= seldom_asleep, "{seldom} and {seldom_asleep} at 900 us");
}

/// A poller comes back exactly when a discipline releases frames, also after the handler of arrivals has
/// panicked, and while nobody takes what arrives. Returns the number of unmaskings.
fn frames_leave_when_tokens_allow(mode: Mode, panics: bool, arrives: bool) -> u32 {
    let (clock, line) = (Arc::new(TestClock::default()), Arc::new(Mutex::new(Line::default())));
    line.lock().unwrap().arrivals.extend((panics || arrives).then_some(1_000));
    let pool = pool(512);
    // 64 bytes each: a frame every 64 us.
    let rate = Rate::new(8_000_000).burst(64);
    let tbf = Tbf::new(Fifo::new(FifoLimit::Packets(300)), rate);
    let end = AnyDevice::duplex(End(clock.clone(), line.clone()));
    let builder = TxQueue::builder_of(&pool, end, clock.clone(), Arc::new(TestPark)).unwrap();
    let queue = builder.qdisc(Box::new(tbf)).build().unwrap();
    let mut sender = queue.sender("sends").unwrap();
    let mut burst = sender.burst(200);
    sender.fill(&mut burst, 200, 64, Wait::Never).unwrap();
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    assert_eq!(queue.counters().packets.get(), 1);
    let stop = Arc::new(Mutex::new(None));
    let wait = VirtualWait { clock: clock.clone(), line: line.clone(), stop: stop.clone() };
    let mut poller = Poller::new(Box::new(wait), Settings { mode, ..Settings::default() });
    let receiver = RxQueue::of(&queue, Box::new(|_| panic!("the test's handler"))).unwrap();
    match panics {
        true => poller.add_receiver(&receiver),
        false => poller.add(&queue),
    }
    *stop.lock().unwrap() = Some(poller.stopper());
    poller.run();
    assert_eq!((queue.counters().sent.get(), receiver.has_ended()), (200, panics), "{mode:?}");
    // No token was lost: each frame left within what a burst of one allows, and a few steps.
    let last_ns = line.lock().unwrap().taken_ns;
    assert!((199 * 64_000..199 * 70_000).contains(&last_ns), "{mode:?}: {last_ns}");
    receiver.close().unwrap();
    drop((burst, sender, receiver));
    assert_conserved(&queue);
    line.lock().unwrap().unmaskings
}

#[test]
fn frames_held_by_a_token_bucket_leave_when_tokens_allow() {
    for mode in [Mode::Adaptive, Mode::Sleeping] {
        frames_leave_when_tokens_allow(mode, false, false);
    }
}

#[test]
fn frames_leave_by_the_poller_of_a_handler_that_has_panicked() {
    for mode in [Mode::Adaptive, Mode::Sleeping] {
        frames_leave_when_tokens_allow(mode, true, false);
    }
}

#[test]
fn arrivals_that_nobody_takes_then_the_poller_sleeps_as_without_them() {
    for mode in [Mode::Adaptive, Mode::Sleeping] {
        let [without, with] =
            [false, true].map(|arrives| frames_leave_when_tokens_allow(mode, false, arrives));
        assert!(with <= without + 2, "{mode:?}: {with} unmaskings, and {without}");
    }
}
