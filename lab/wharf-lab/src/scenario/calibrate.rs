//! Measuring a machine's costs, in less than a minute: the path with one sender and with two, one packet at a time and
//! in bursts. The costs are then chosen so that the model comes to the same figures.
//!
//! They are of the path as a whole: a step's share of them is assumed, and their sum is measured. Scenarios of other
//! senders, rates and limits are predictions.

use super::{Folder, Machine, Scenario, host, model};
use crate::experiment::{LabError, host as host_threads};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};
use wharf_core::host::{Clock, PollerWait};
use wharf_devices::host::{ExactClock, HostWait};

/// Packets of a burst where many share a call.
const BURST: u64 = 32;
/// Rounds measured of each setting: the median counts.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(250);
/// Passes over the two settings that decide two costs each.
const PASSES: usize = 2;
/// A search tries powers of two below this one, in nanoseconds.
const COST_LOG2: u32 = 13;
/// Most steps between two of them.
const STEPS_MAX: usize = 32;
const SEED: u64 = 1;

/// A calibrated machine, and the measurements that it comes from.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The machine.
    pub machine: Machine,
    /// Each setting with its measured and its modelled rate, in Mpps.
    pub points: Vec<(String, f64, f64)>,
    /// The byte limit of a slow wire, measured and modelled; `None` without a wire: its costs are then assumed.
    pub limit_bytes: Option<[u64; 2]>,
}

/// A setting: senders, packets of a burst, true over a wire, and true beside a dedicated owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    senders: u64,
    burst: u64,
    wire: bool,
    dedicated: bool,
}

const ALONE: Point = Point { senders: 1, burst: 1, wire: false, dedicated: false };
const ALONE_BURSTS: Point = Point { burst: BURST, ..ALONE };
const TWO: Point = Point { senders: 2, ..ALONE };
const TWO_BURSTS: Point = Point { senders: 2, ..ALONE_BURSTS };
const SERVED: Point = Point { dedicated: true, ..ALONE };
const WIRE: Point = Point { wire: true, ..ALONE_BURSTS };
const TWO_WIRE: Point = Point { wire: true, ..TWO_BURSTS };
/// A wire so slow that its senders wait, and only its poller looks at completions.
const SLOW: &str =
    "settle = \"100ms\"\nmeasure = \"300ms\"\n[link]\nrate = \"100mbit\"\n[[sender]]\nbytes = 1514\n";
const SLOW_ROUND: Duration = Duration::from_secs(1);
/// Lines that go from a sender to a dedicated owner for a burst.
const LANE_LINES: u64 = 3;
/// Pauses, sleeps and wake-ups measured by themselves, and the length of such a sleep.
const PAUSES: u64 = 10_000;
const REPEATS: usize = 501;
const SLEEP: Duration = Duration::from_micros(20);

impl Point {
    fn scenario(self, machine: Machine) -> Result<Scenario, LabError> {
        let Self { senders, burst, wire, dedicated } = self;
        let link = if wire { "[link]\nrate = \"1tbit\"\n" } else { "" };
        let queue = if dedicated { "[queue]\nowner = \"dedicated\"\n" } else { "" };
        let text = format!(
            "settle = \"200us\"\nmeasure = \"2ms\"\n{link}{queue}[[sender]]\ncount = {senders}\nburst = {burst}\n"
        );
        let scenario = Scenario::parse("calibration", &text, &Folder("".into()))?;
        Ok(Scenario { machine, ..scenario })
    }

    fn name(self) -> String {
        let device = if self.wire { "wire" } else { "null" };
        let owner = if self.dedicated { ", dedicated owner" } else { "" };
        format!("{device}, {} sender(s), bursts of {}{owner}", self.senders, self.burst)
    }

    /// Measures the rate, in packets a second.
    fn measure(self, goes_on: &mut dyn FnMut() -> bool) -> Result<u64, LabError> {
        let scenario = self.scenario(Machine::assumed()?)?;
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            let figures = host::figures(&scenario, round as u64, ROUND, goes_on)?;
            rates.push(figures.packets_per_second());
        }
        rates.sort_unstable();
        Ok(rates[ROUNDS / 2].max(1))
    }

    /// Returns the time of a packet in the model, in picoseconds.
    fn modelled_ps(self, machine: Machine, goes_on: &mut dyn FnMut() -> bool) -> Result<u64, LabError> {
        let figures = model::figures(&self.scenario(machine)?, SEED, goes_on)?;
        Ok(PS / figures.packets_per_second().max(1))
    }
}

/// Picoseconds of a second.
const PS: u64 = 1_000_000_000_000;

/// Measures this machine over `null` and, if `wire`, over a wire. Asks `goes_on` several times a second.
///
/// # Errors
/// [`LabError::Interrupted`], [`LabError::Host`].
pub fn calibrate(wire: bool, goes_on: &mut dyn FnMut() -> bool) -> Result<Calibration, LabError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let points: &[Point] =
        if cpus > 1 { &[ALONE, ALONE_BURSTS, TWO, TWO_BURSTS, SERVED] } else { &[ALONE, ALONE_BURSTS] };
    let wires: &[Point] = match (wire, cpus) {
        (false, _) => &[],
        (true, 1) => &[WIRE],
        (true, _) => &[WIRE, TWO_WIRE],
    };
    let points: Vec<Point> = points.iter().copied().chain(wires.iter().copied()).collect();
    let mut rates = Vec::new();
    for point in &points {
        rates.push((*point, point.measure(goes_on)?));
    }
    let of = |point: Point| rates.iter().find(|rate| rate.0 == point).map(|rate| PS / rate.1);
    let mut limit_bytes = None;
    let mut machine = by_itself(Machine { cpus, ..Machine::assumed()? })?;
    if let Some((alone, bursts)) = of(ALONE).zip(of(ALONE_BURSTS)) {
        machine = one_sender(machine, alone, bursts, goes_on)?;
    }
    for _ in 0..PASSES {
        if let Some(ps) = of(TWO_BURSTS) {
            machine = search(machine, TWO_BURSTS, ps, |machine| &mut machine.remote_ns, goes_on)?;
        }
        if let Some(ps) = of(TWO) {
            machine = search(machine, TWO, ps, |machine| &mut machine.transfer_ns, goes_on)?;
        }
    }
    // The frames, the lane's index, and the return ring's.
    machine.lane_ns = LANE_LINES * machine.transfer_ns;
    if let Some(ps) = of(TWO_WIRE).or(of(WIRE)) {
        let point = if cpus > 1 { TWO_WIRE } else { WIRE };
        machine = search(machine, point, ps, |machine| &mut machine.wire_driver_ns, goes_on)?;
    }
    if let Some(ps) = of(WIRE) {
        machine = search(machine, WIRE, ps, |machine| &mut machine.wire_alone_ns, goes_on)?;
        limit_bytes = Some(limits_of_slow(machine, goes_on)?);
    }
    let mut shown = Vec::new();
    for (point, rate) in rates {
        let modelled = PS / point.modelled_ps(machine, goes_on)?.max(1);
        shown.push((point.name(), rate as f64 / 1e6, modelled as f64 / 1e6));
    }
    Ok(Calibration { machine, points: shown, limit_bytes })
}

/// Returns the machine with the costs of a packet and of a call, by the times of a packet alone and in a burst.
fn one_sender(
    machine: Machine, alone_ps: u64, bursts_ps: u64, goes_on: &mut dyn FnMut() -> bool,
) -> Result<Machine, LabError> {
    let call_ps = alone_ps.saturating_sub(bursts_ps) * BURST / (BURST - 1);
    let (call_ns, packet_ns) = (call_ps / 1000, alone_ps.saturating_sub(call_ps) / 1000);
    // A step's share is assumed.
    let share = |percent: u64| packet_ns * percent / 100;
    let mut machine = Machine {
        make_ns: share(40).max(1),
        stage_ns: share(15),
        pull_ns: share(15),
        driver_ns: share(15),
        reclaim_ns: share(15),
        hit_ns: call_ns / 6,
        call_ns: call_ns / 2,
        ..machine
    };
    for _ in 0..PASSES {
        machine = search(machine, ALONE_BURSTS, bursts_ps, |machine| &mut machine.make_ns, goes_on)?;
        machine = search(machine, ALONE, alone_ps, |machine| &mut machine.call_ns, goes_on)?;
    }
    Ok(machine)
}

/// Returns the byte limits of a slow wire: measured, modelled.
fn limits_of_slow(machine: Machine, goes_on: &mut dyn FnMut() -> bool) -> Result<[u64; 2], LabError> {
    let scenario = Scenario::parse("calibration", SLOW, &Folder("".into()))?;
    let mut limits = Vec::new();
    for round in 0..ROUNDS {
        limits.push(host::figures(&scenario, round as u64, SLOW_ROUND, goes_on)?.limit_bytes);
    }
    limits.sort_unstable();
    let modelled = model::figures(&Scenario { machine, ..scenario }, SEED, goes_on)?.limit_bytes;
    Ok([limits[ROUNDS / 2], modelled])
}

/// Returns the machine with what is measured by itself: a pause, a look, a sleep's lateness, a wake-up.
fn by_itself(machine: Machine) -> Result<Machine, LabError> {
    let (pause_ns, clock_ns) = (pause_ns(), clock_ns());
    let (late_ns, wake_ns) = (late_ns()?, wake_ns()?);
    Ok(Machine { pause_ns, clock_ns, look_ns: pause_ns, late_ns, wake_ns, ..machine })
}

/// Returns the time of `spin_loop`, at least 1.
fn pause_ns() -> u64 {
    time_of(std::hint::spin_loop).max(1)
}

/// Returns the time of a read of the exact clock.
fn clock_ns() -> u64 {
    time_of(|| _ = std::hint::black_box(ExactClock.now_ns()))
}

/// Returns the time of `work`, the least of some means.
fn time_of(work: impl Fn()) -> u64 {
    let mean = |_| {
        let began = Instant::now();
        (0..PAUSES).for_each(|_| work());
        began.elapsed().as_nanos() as u64 / PAUSES
    };
    (0..ROUNDS).map(mean).min().unwrap_or(0)
}

/// Returns the time by which a poller's sleep is too long, the median. A poller's thread has exact timers.
fn late_ns() -> Result<u64, LabError> {
    let mut wait = HostWait::new().map_err(|error| host_threads::fault("calibration", &error))?;
    let mut late = move |_| {
        let began = Instant::now();
        wait.wait(SLEEP.as_nanos() as u64, &mut |_| ());
        began.elapsed().saturating_sub(SLEEP).as_nanos() as u64
    };
    let measure = move || {
        wharf_sys::timer::precise_sleeps();
        let mut all: Vec<u64> = (0..REPEATS).map(&mut late).collect();
        all.sort_unstable();
        all[REPEATS / 2]
    };
    std::thread::scope(|scope| {
        let thread = host_threads::start(scope, "calibration", measure)?;
        thread.join().map_err(|_| host_threads::fault("calibration", &"a thread panicked"))
    })
}

/// Returns the time from a wake-up until the thread that slept runs: half of a round between two threads.
fn wake_ns() -> Result<u64, LabError> {
    let turn = AtomicUsize::new(0);
    let here = std::thread::current();
    std::thread::scope(|scope| {
        let other = host_threads::start(scope, "calibration", || take_turns(&turn, 1, &here))?;
        let began = Instant::now();
        take_turns(&turn, 0, other.thread());
        Ok(began.elapsed().as_nanos() as u64 / (2 * REPEATS as u64))
    })
}

/// Waits for each of its turns, and wakes `other` for the next one.
fn take_turns(turn: &AtomicUsize, first: usize, other: &Thread) {
    for at in (first..2 * REPEATS).step_by(2) {
        while turn.load(SeqCst) != at {
            std::thread::park();
        }
        turn.store(at + 1, SeqCst);
        other.unpark();
    }
}

/// Returns the machine with the cost for which the model comes nearest to `wanted_ps` for a packet at `point`. The time
/// of a packet does not only grow with a cost: an owner that is slower leaves more to one bulk. So no half is left out.
fn search(
    machine: Machine, point: Point, wanted_ps: u64, cost: fn(&mut Machine) -> &mut u64,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Machine, LabError> {
    let with = |ns: u64| {
        let mut machine = machine;
        *cost(&mut machine) = ns;
        machine
    };
    let least = u64::from(point == ALONE_BURSTS);
    let mut best = (u64::MAX, least);
    let mut nearest = |tried: &mut dyn Iterator<Item = u64>| -> Result<u64, LabError> {
        for ns in tried.filter(|&ns| ns >= least) {
            let off_ps = point.modelled_ps(with(ns), goes_on)?.abs_diff(wanted_ps);
            best = best.min((off_ps, ns));
        }
        Ok(best.1)
    };
    let powers = (0..COST_LOG2).map(|log2| 1 << log2);
    let near = nearest(&mut [0].into_iter().chain(powers))?;
    for step in [4, 16] {
        let (from, by) = (near - near / 2, (near / step).max(1));
        nearest(&mut (from..=2 * near).step_by(by as usize).take(STEPS_MAX))?;
    }
    let last = nearest(&mut std::iter::empty())?;
    Ok(with(last))
}
