//! A scenario on this machine: a thread for each sender, over `null`, or over a line in this process.

use super::line::Line;
use super::model::pool_frames;
use super::stamps::Stamps;
use super::{Figures, Link, Owner, SPIN_NS, Scenario, Sender as Group};
use crate::comparators::histogram::Histogram;
use crate::experiment::host::{self, DRAIN_NS, Failed, StopGuard, fault};
use crate::experiment::{LabError, Row, RowKind};
use crate::models::wharf_path::set_up;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf_core::counters::SenderCounters;
use wharf_core::device::TxDevice;
use wharf_core::host::Clock;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_devices::host::{ExactClock, HostClock, HostPark, PollerThread};
use wharf_devices::null::Null;
use wharf_sim::flows::arrivals::{Arrivals, Schedule};

/// Distance of frames in bytes.
const FRAME_BYTES: u32 = 2048;
/// The longest sleep: the run may end.
const SLEEP_MAX: Duration = Duration::from_millis(5);
const SETTLE: Duration = Duration::from_millis(50);

/// Runs `scenario` on this machine, and measures it for `time`. Asks `goes_on` several times a second.
///
/// # Errors
/// [`LabError::Interrupted`], [`LabError::Host`].
pub fn measure(
    scenario: &Scenario, seed: u64, time: Duration, goes_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<Row>, LabError> {
    Ok(figures(scenario, seed, time, goes_on)?.rows(scenario, RowKind::Measured))
}

/// Returns the figures of a run.
pub(super) fn figures(
    scenario: &Scenario, seed: u64, time: Duration, goes_on: &mut dyn FnMut() -> bool,
) -> Result<Figures, LabError> {
    let frames = pool_frames(scenario);
    let pool = host::pool(PagePool::builder().frame_bytes(FRAME_BYTES).frames(frames))?;
    let stamps = scenario.link.map(|_| Arc::new(Stamps::new(scenario, frames)));
    let mut run = Run { scenario, pool, seed, time, stamps: stamps.clone(), goes_on };
    let device: Box<dyn TxDevice> = match (scenario.link, stamps.clone()) {
        (Some(link), Some(stamps)) => Box::new(Line::new(link.bits_per_second, link.ring_frames, stamps)),
        _ => Box::new(Null::default()),
    };
    let figures = run.over(device)?;
    let delays = stamps.map_or(Vec::new(), |stamps| scenario.by_group(&stamps.delays));
    Ok(Figures { delays, ..figures })
}

/// A run.
struct Run<'a> {
    scenario: &'a Scenario,
    pool: PagePool,
    seed: u64,
    time: Duration,
    /// Counts packets and their delays, if there is a line.
    stamps: Option<Arc<Stamps>>,
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl Run<'_> {
    fn over(&mut self, device: Box<dyn TxDevice>) -> Result<Figures, LabError> {
        let Scenario { file, policy, byte_limits, small_queues, .. } = self.scenario;
        let builder = TxQueue::builder(&self.pool, device, Arc::new(HostClock), Arc::new(HostPark))
            .qdisc(self.scenario.build_qdisc())
            .policy(*policy)
            .byte_limits(*byte_limits);
        let builder = match small_queues {
            Some(most) => builder.small_queues(*most),
            None => builder,
        };
        let queue = builder.build().map_err(|error| fault(file, &error))?;
        let poller = self.scenario.is_polled().then(|| PollerThread::start(&queue)).transpose();
        let _poller = poller.map_err(|error| fault(file, &error))?;
        let figures = self.senders(&queue)?;
        let audit = queue.shutdown_until(HostClock.now_ns() + DRAIN_NS);
        let entered: u64 = queue.senders().iter().map(|sender| sender.packets.get()).sum();
        let left = queue.counters().gone();
        if entered != left || audit.out() != 0 {
            return Err(fault(file, &format_args!("{entered} frames went in and {left} left; {audit}")));
        }
        Ok(figures)
    }

    /// Runs the senders' threads.
    fn senders(&mut self, queue: &TxQueue) -> Result<Figures, LabError> {
        let file = &self.scenario.file;
        let failed = Failed::default();
        let senders: Result<Vec<Sender>, _> = (0..self.scenario.sender_count())
            .map(|number| queue.sender(&format!("sender {number}")))
            .collect();
        let senders = senders.map_err(|error| fault(file, &error))?;
        let seen: Vec<Arc<SenderCounters>> = senders.iter().map(|sender| sender.counters().clone()).collect();
        let dedicated_stop = AtomicBool::new(false);
        let figures = std::thread::scope(|scope| {
            let (serving, stopping) = (StopGuard(&dedicated_stop), StopGuard(&failed.stop));
            if self.scenario.owner == Owner::Dedicated {
                let mut dedicated = queue.dedicate().map_err(|error| fault(file, &error))?;
                let stop = &dedicated_stop;
                host::start(scope, file, move || {
                    while !stop.load(Relaxed) {
                        dedicated.poll();
                    }
                })?;
            }
            let mut threads = Vec::new();
            for (number, (sender, group)) in senders.into_iter().zip(self.scenario.each_sender()).enumerate()
            {
                let schedule = Schedule::new(group.arrivals.clone(), group.burst, self.seed, number);
                let stamps = self.stamps.clone();
                let prepare = move |burst: &mut Burst| {
                    set_up(burst, number, group.band);
                    stamps.iter().for_each(|stamps| stamps.make(burst));
                };
                let failed = &failed;
                let send = move || failed.note(send(sender, group, schedule, &prepare, &failed.stop));
                threads.push(host::start(scope, file, send)?);
            }
            let figures = self.window(queue, &seen, &failed.stop);
            drop(stopping);
            let panicked = threads.into_iter().filter_map(|thread| thread.join().err()).count();
            drop(serving);
            if panicked == 0 {
                figures
            } else {
                Err(fault(file, &format_args!("{panicked} threads panicked")))
            }
        })?;
        failed.check(file)?;
        Ok(figures)
    }

    /// Measures the senders.
    fn window(
        &mut self, queue: &TxQueue, seen: &[Arc<SenderCounters>], stop: &AtomicBool,
    ) -> Result<Figures, LabError> {
        host::wait(SETTLE, stop, self.goes_on)?;
        let counts = || -> Vec<u64> { seen.iter().map(|sender| sender.packets.get()).collect() };
        let counters = queue.counters();
        let calls = || (counters.doorbells.get(), counters.packets.get());
        let measures = |measuring: bool| {
            self.stamps.iter().for_each(|stamps| stamps.measuring.store(measuring, Relaxed));
        };
        measures(true);
        let (began, before, calls_before) = (Instant::now(), counts(), calls());
        host::wait(self.time, stop, self.goes_on)?;
        measures(false);
        let (ns, after, calls_after) = (began.elapsed().as_nanos() as u64, counts(), calls());
        // Without a line, packets leave as they enter.
        let by_sender: Vec<u64> = match &self.stamps {
            Some(stamps) => stamps.delays.iter().map(Histogram::count).collect(),
            None => before.iter().zip(&after).map(|(before, after)| after - before).collect(),
        };
        let bytes = self.scenario.each_sender().map(|group| Link::wire_bytes(group.bytes));
        Ok(Figures {
            wire_bytes: by_sender.iter().zip(bytes).map(|(packets, bytes)| packets * bytes).sum(),
            by_sender,
            measured_ns: ns,
            doorbells: calls_after.0 - calls_before.0,
            packets_given: calls_after.1 - calls_before.1,
            limit_bytes: counters.bql_limit_bytes.get(),
            delays: Vec::new(),
        })
    }
}

/// Sends the packets of one sender, each burst after `prepare`, until `stop`.
fn send(
    mut sender: Sender, group: &Group, mut schedule: Schedule, prepare: &dyn Fn(&mut Burst),
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut burst = sender.burst(group.burst);
    let began_ns = ExactClock.now_ns();
    let saturates = group.arrivals == Arrivals::Saturate;
    while !stop.load(Relaxed) {
        if !saturates && !wait_until_due(&schedule, began_ns, stop) {
            continue;
        }
        schedule.take();
        host::send(&mut sender, &mut burst, group.burst, group.bytes, prepare)?;
    }
    Ok(())
}

/// Waits for the next burst. False if it is not due yet: the caller looks whether the run has ended.
fn wait_until_due(schedule: &Schedule, began_ns: u64, stop: &AtomicBool) -> bool {
    let now_ns = || ExactClock.now_ns() - began_ns;
    let at_ns = now_ns();
    let due_ns = schedule.due_ns(at_ns);
    let left_ns = due_ns.saturating_sub(at_ns);
    if left_ns > SPIN_NS {
        std::thread::sleep(Duration::from_nanos(left_ns - SPIN_NS / 2).min(SLEEP_MAX));
        return false;
    }
    while now_ns() < due_ns && !stop.load(Relaxed) {
        std::hint::spin_loop();
    }
    true
}
