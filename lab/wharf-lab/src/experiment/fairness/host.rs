//! World host: threads send as fast as they can, for a while with each discipline and policy.
//!
//! All send through the same devices from the same pool, by default one packet at a time, as the kernel's
//! disciplines do. After a drop a thread yields, as those of 2011 did; with lanes it waits. Threads rotate
//! over the processors (`rotate_ms`). Otherwise the kernel's scheduler, and the machine's owner, would decide
//! their shares.

use super::super::host::{self, DRAIN_NS, Failed, FarEnd, StopGuard, fault};
use super::measured::{Measurement, Point, Runs, counts};
use super::metrics::{Dedicated, POLICIES, QuotaAndTime, SWEEP};
use super::paths::{FastSender, Seen, Shared};
use super::processor::Task;
use super::rounds::Rounds;
use crate::comparators::locked_queue::{self, BusyLock, Discipline, LockedQueue, LocklessList, RootLock};
use crate::comparators::run_log::RunLogs;
use crate::experiment::{Bench, LabError};
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf_core::device::TxDevice;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_devices::host::{ExactClock, HostClock, HostPark, PollerThread, ticks};
use wharf_devices::null::Null;

/// Distance of frames in bytes; short ones are sent.
const FRAME_BYTES: u32 = 2048;
/// Numbers of threads by default.
const THREADS: [u32; 4] = [1, 2, 4, 16];

/// The settings of all runs.
struct Rig {
    pool: PagePool,
    far_end: FarEnd,
    settings: Settings,
    clock: Arc<TickClock>,
    measure: Duration,
}

/// The parameters of all runs.
#[derive(Deserialize)]
struct Settings {
    pool_frames: u32,
    wire_mbit: u64,
    burst: usize,
    frame_bytes: u32,
    qdisc_packets: usize,
    poller: bool,
    only_default: bool,
    rotate_ms: u64,
    settle_ms: u64,
}

const LANES: &str = "lanes";
const DISCIPLINES: [&str; 4] = [LANES, RootLock::NAME, BusyLock::NAME, LocklessList::NAME];

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let rig = Rig::new(bench)?;
    let threads = if bench.threads.is_empty() { &THREADS } else { bench.threads };
    let points = points(threads, rig.settings.only_default);
    let wire = format!("wire:rate={}mbit", rig.settings.wire_mbit);
    for (done, point) in points.iter().enumerate() {
        let device = if point.on_wire { &wire } else { "null" };
        let name = format!("{} of {}: {} by {device}", done + 1, points.len(), point.label());
        let measured = match point.discipline {
            RootLock::NAME => rig.locked::<RootLock>(point, bench, &name),
            BusyLock::NAME => rig.locked::<BusyLock>(point, bench, &name),
            LocklessList::NAME => rig.locked::<LocklessList>(point, bench, &name),
            _ => rig.lanes(point, bench, &name),
        };
        bench.rows.extend(measured?.rows(point, device));
    }
    Ok(())
}

/// Returns all runs.
fn points(threads: &[u32], only_default: bool) -> Vec<Point> {
    let mut points = Vec::new();
    let mut add = |discipline, policy, on_wire, least: u32| {
        let threads = threads.iter().filter(|&&threads| threads >= least);
        points.extend(threads.map(|&threads| Point { discipline, policy, threads, on_wire }));
    };
    for on_wire in [false, true] {
        for discipline in DISCIPLINES {
            for policy in POLICIES {
                if !only_default || (discipline, policy) == (LANES, QuotaAndTime) {
                    add(discipline, policy, on_wire, 1);
                }
            }
        }
    }
    if !only_default {
        // One sender has no other to hand over to.
        SWEEP.into_iter().for_each(|policy| add(LANES, policy, false, 2));
    }
    points
}

impl Rig {
    fn new(bench: &Bench<'_>) -> Result<Self, LabError> {
        let settings: Settings = bench.parameters.read_into()?;
        let memory = || PagePool::builder().frame_bytes(FRAME_BYTES);
        Ok(Self {
            pool: host::pool(memory().frames(settings.pool_frames))?,
            far_end: FarEnd::new(memory(), settings.wire_mbit * 1_000_000)?,
            settings,
            clock: Arc::new(TickClock::new()),
            measure: host::measure_time(bench)?,
        })
    }

    fn qdisc(&self) -> Box<Fifo> {
        Box::new(Fifo::new(FifoLimit::Packets(self.settings.qdisc_packets)))
    }

    fn logs(&self, point: &Point) -> Arc<RunLogs> {
        Arc::new(RunLogs::new(self.clock.clone(), point.threads as usize))
    }

    fn lanes(&self, point: &Point, bench: &mut Bench<'_>, name: &str) -> Result<Measurement, LabError> {
        self.on_device(point, |device| {
            let logs = self.logs(point);
            let built = TxQueue::builder(&self.pool, device, Arc::new(HostClock), Arc::new(HostPark))
                .qdisc(self.qdisc())
                .policy(point.policy.policy())
                .observe_runs(logs.clone())
                .build();
            let queue = built.map_err(|error| fault(name, &error))?;
            let is_polled = self.settings.poller && point.policy != Dedicated;
            let poller = is_polled.then(|| PollerThread::start(&queue)).transpose();
            let _poller = poller.map_err(|error| fault(name, &error))?;
            self.measure(queue.clone(), &logs, point, bench, name)
        })
    }

    fn locked<D: Discipline>(
        &self, point: &Point, bench: &mut Bench<'_>, name: &str,
    ) -> Result<Measurement, LabError> {
        self.on_device(point, |device| {
            let logs = self.logs(point);
            let queue = LockedQueue::<D>::new(locked_queue::Setup {
                pool: self.pool.clone(),
                device,
                qdisc: self.qdisc(),
                clock: Arc::new(HostClock),
                park: Arc::new(HostPark),
                policy: point.policy.policy(),
                observer: Some(logs.clone()),
            });
            self.measure(queue.map_err(|error| fault(name, &error))?, &logs, point, bench, name)
        })
    }

    /// Calls `run` with the point's device; the far end of a wire receives meanwhile.
    fn on_device<R>(
        &self, point: &Point, run: impl FnOnce(Box<dyn TxDevice>) -> Result<R, LabError>,
    ) -> Result<R, LabError> {
        if !point.on_wire {
            return run(Box::new(Null::default()));
        }
        self.far_end.receiving(run)
    }

    fn measure<Q: Shared>(
        &self, queue: Q, logs: &RunLogs, point: &Point, bench: &mut Bench<'_>, name: &str,
    ) -> Result<Measurement, LabError> {
        let failed = Failed::default();
        let window = self.with_threads(&queue, logs, point, bench, name, &failed)?;
        failed.check(name)?;
        let (audit, entered, left) = queue.finish(HostClock.now_ns() + DRAIN_NS);
        if entered != left || audit.out() != 0 {
            let what = format!("{entered} frames went in and {left} left; {audit}");
            return Err(LabError::Host { run: name.into(), what });
        }
        Ok(window)
    }

    /// Lets the threads send, and measures them. All have ended when it returns.
    fn with_threads<Q: Shared>(
        &self, queue: &Q, logs: &RunLogs, point: &Point, bench: &mut Bench<'_>, name: &str, failed: &Failed,
    ) -> Result<Measurement, LabError> {
        let made = (0..point.threads).map(|number| queue.sender(&format!("sender {number}")));
        let senders = made.collect::<Result<Vec<_>, String>>().map_err(|what| fault(name, &what))?;
        let seen: Vec<_> = senders.iter().map(FastSender::seen).collect();
        let tasks: Vec<_> = seen.iter().map(|_| Task::default()).collect();
        let rounds = &Rounds::new(tasks.len(), Duration::from_millis(self.settings.rotate_ms));
        let server_stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (serving, stopping) = (StopGuard(&server_stop), StopGuard(&failed.stop));
            let serve = || host::start(scope, name, || failed.note(queue.serve(&server_stop)));
            let server = (point.policy == Dedicated).then(serve).transpose()?;
            host::start(scope, name, || rounds.run(&failed.stop))?;
            let mut threads = Vec::new();
            let started =
                senders.into_iter().zip(&tasks).enumerate().try_for_each(|(number, (sender, task))| {
                    let send =
                        move || failed.note(self.send_on(sender, task, (number, rounds), &failed.stop));
                    host::start(scope, name, send).map(|thread| threads.push(thread))
                });
            let window = started.and_then(|()| self.window((&seen, &tasks, logs), &failed.stop, bench, name));
            drop(stopping);
            // A sender in the middle of a send waits for the server, so that one ends last.
            let panicked = threads.into_iter().filter_map(|thread| thread.join().err()).count();
            drop(serving);
            let panicked = panicked + server.and_then(|server| server.join().err()).iter().count();
            if panicked == 0 { window } else { Err(fault(name, &format!("{panicked} threads panicked"))) }
        })
    }

    fn send_on(
        &self, mut sender: impl FastSender, task: &Task, (number, rounds): (usize, &Rounds),
        stop: &AtomicBool,
    ) -> Result<(), String> {
        task.begin();
        let mut burst = sender.burst(self.settings.burst);
        let mut turn = usize::MAX;
        while !stop.load(Relaxed) {
            if rounds.turn() != turn {
                turn = rounds.turn();
                rounds.go(number, turn);
            }
            sender.send(&mut burst, self.settings.burst, self.settings.frame_bytes)?;
        }
        Ok(())
    }

    /// Measures the senders.
    fn window(
        &self, (seen, tasks, logs): (&[Seen], &[Task], &RunLogs), stop: &AtomicBool, bench: &mut Bench<'_>,
        name: &str,
    ) -> Result<Measurement, LabError> {
        host::wait(Duration::from_millis(self.settings.settle_ms), stop, &mut || bench.goes_on(name))?;
        let (began, before) = (Instant::now(), counts(seen, tasks, logs));
        host::wait(self.measure, stop, &mut || bench.goes_on(name))?;
        let (ns, after) = (began.elapsed().as_nanos() as u64, counts(seen, tasks, logs));
        let threads = before.iter().zip(&after).map(|(before, after)| after.since(before)).collect();
        Ok(Measurement { threads, ns, runs: Runs::of(logs) })
    }
}

/// A clock by the processor's own counter: two readings per run must not be what is measured.
#[derive(Debug)]
struct TickClock {
    ns_per_tick: f64,
}

impl TickClock {
    /// Calibrates the clock in a few milliseconds.
    fn new() -> Self {
        let (began_ticks, began_ns) = (ticks(), ExactClock.now_ns());
        std::thread::sleep(Duration::from_millis(5));
        let (ended_ticks, ended_ns) = (ticks(), ExactClock.now_ns());
        Self {
            ns_per_tick: (ended_ns - began_ns) as f64 / ended_ticks.saturating_sub(began_ticks).max(1) as f64,
        }
    }
}

impl Clock for TickClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        (ticks() as f64 * self.ns_per_tick) as u64
    }
}
