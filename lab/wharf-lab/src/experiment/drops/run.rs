//! One run: threads send for a while, by one policy, into one device.

use super::super::host::{self, DRAIN_NS, FarEnd, StopGuard, Via, fault};
use super::super::row::scaled;
use super::super::{Bench, LabError};
use super::{Device, Policy};
use crate::comparators::histogram::Histogram;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf_core::device::TxDevice;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::sender::{SendError, Sender};
use wharf_core::wait;
use wharf_devices::host::{ExactClock, HostClock, HostPark, PollerThread};
use wharf_devices::null::Null;
use wharf_mem::Batch;
use wharf_tools::traffic::Submit;

/// The settings of all runs.
pub(super) struct Rig {
    pool: PagePool,
    far_end: FarEnd,
    pub(super) settings: Settings,
    measure: Duration,
}

/// The parameters of all runs.
#[derive(Deserialize)]
pub(super) struct Settings {
    pool_frames: u32,
    wire_mbit: u64,
    burst: usize,
    frame_bytes: u32,
    qdisc_packets: usize,
    yields: bool,
    /// Times of a packet in 2011, for its sender and for its drainer.
    make_ns: u64,
    drain_ns: u64,
    pub(super) rounds: u64,
    settle_ms: u64,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Measurement {
    window: Window,
    /// Counts of the whole run.
    offered: u64,
    pub(super) dropped: u64,
    /// Times of sends that waited, nanoseconds.
    pub(super) waits: Histogram,
    pub(super) overtakes: u64,
}

/// The measured time, and the packets that left within it.
#[derive(Debug, Clone, Copy)]
struct Window {
    delivered: u64,
    ns: u64,
}

impl Measurement {
    /// Returns packets per second.
    pub(super) fn per_second(&self) -> i64 {
        scaled(self.window.delivered, 1_000_000_000, self.window.ns)
    }

    /// Returns packets per second that were delivered or dropped.
    pub(super) fn offered_per_second(&self) -> i64 {
        let taken = self.offered.saturating_sub(self.dropped).max(1);
        (i128::from(self.per_second()) * i128::from(self.offered) / i128::from(taken)) as i64
    }

    /// Returns the share of offered packets that were dropped, in millionths of a percent.
    pub(super) fn drop_ppm(&self) -> i64 {
        scaled(self.dropped, 100_000_000, self.offered)
    }
}

impl Rig {
    pub(super) fn new(bench: &Bench<'_>) -> Result<Self, LabError> {
        let settings: Settings = bench.parameters.read_into()?;
        Ok(Self {
            pool: host::pool(PagePool::builder().frames(settings.pool_frames))?,
            far_end: FarEnd::new(PagePool::builder(), settings.wire_mbit * 1_000_000)?,
            settings,
            measure: host::measure_time(bench)?,
        })
    }

    pub(super) fn run(
        &self, device: Device, policy: Policy, threads: u32, bench: &mut Bench<'_>, name: &str,
    ) -> Result<Measurement, LabError> {
        let run = (device, policy);
        match device {
            Device::Null => self.run_on(Box::new(Null::default()), run, threads, bench, name),
            Device::Wire => self.far_end.receiving(|near| self.run_on(near, run, threads, bench, name)),
            Device::As2011 => self.run_on(drain(self.settings.drain_ns), run, threads, bench, name),
        }
    }

    fn queue(&self, device: Box<dyn TxDevice>, policy: Policy) -> Result<TxQueue, QueueError> {
        let qdisc = Fifo::new(FifoLimit::Packets(self.settings.qdisc_packets));
        let builder = TxQueue::builder(&self.pool, device, Arc::new(HostClock), Arc::new(HostPark));
        let builder = builder.qdisc(Box::new(qdisc));
        if policy == Policy::WaitSmallQueues { builder.build() } else { builder.small_queues(None).build() }
    }

    fn run_on(
        &self, device: Box<dyn TxDevice>, run: (Device, Policy), threads: u32, bench: &mut Bench<'_>,
        name: &str,
    ) -> Result<Measurement, LabError> {
        let queue = self.queue(device, run.1).map_err(|error| fault(name, &error))?;
        let poller = PollerThread::start(&queue).map_err(|error| fault(name, &error))?;
        let waits = Histogram::default();
        let window = self.window(&queue, run, threads, &waits, bench, name)?;
        let drained = queue.drain_until(HostClock.now_ns() + DRAIN_NS);
        drop(poller);
        let audit = queue.shutdown(Duration::ZERO);
        let senders = queue.sender_totals();
        let (taken, dropped) = (senders.packets.get(), senders.drops.get());
        let counters = queue.counters();
        if !drained || taken != counters.sent.get() || counters.failed.get() > 0 || audit.out() > 0 {
            let (sent, failed) = (counters.sent.get(), counters.failed.get());
            let what = format!("of {taken} packets taken {sent} were sent, and {failed} failed; {audit}");
            return Err(fault(name, &what));
        }
        let overtakes = senders.overtakes.get();
        Ok(Measurement { window, offered: taken + dropped, dropped, waits, overtakes })
    }

    /// Lets the threads send, and measures the packets that leave.
    fn window(
        &self, queue: &TxQueue, (device, policy): (Device, Policy), threads: u32, waits: &Histogram,
        bench: &mut Bench<'_>, name: &str,
    ) -> Result<Window, LabError> {
        queue.set_drop_tail(policy == Policy::DropTail);
        let made = (0..threads).map(|number| queue.sender(&format!("sender {number}")));
        let senders = made.collect::<Result<Vec<_>, _>>().map_err(|error| fault(name, &error))?;
        let (stop, is_2011) = (AtomicBool::new(false), device == Device::As2011);
        std::thread::scope(|scope| {
            let begin = |sender: Sender| host::start(scope, name, || self.send_on(sender, is_2011, &stop));
            let stopping = StopGuard(&stop);
            let running = senders.into_iter().map(begin).collect::<Result<Vec<_>, _>>()?;
            let window = self.look(queue, &stop, bench, name);
            drop(stopping);
            for thread in running {
                let done = thread.join().map_err(|_| fault(name, &"a thread panicked"))?;
                waits.add(&done.map_err(|error| fault(name, &error))?);
            }
            window
        })
    }

    /// Measures the packets that leave, after settling.
    fn look(
        &self, queue: &TxQueue, stop: &AtomicBool, bench: &mut Bench<'_>, name: &str,
    ) -> Result<Window, LabError> {
        host::wait(Duration::from_millis(self.settings.settle_ms), stop, &mut || bench.goes_on(name))?;
        let (began, before) = (Instant::now(), queue.counters().sent.get());
        host::wait(self.measure, stop, &mut || bench.goes_on(name))?;
        let delivered = queue.counters().sent.get() - before;
        Ok(Window { delivered, ns: began.elapsed().as_nanos() as u64 })
    }

    /// Sends until stopped. Returns the times of the sends that waited.
    fn send_on(&self, mut by: impl Submit, is_2011: bool, stop: &AtomicBool) -> Result<Histogram, SendError> {
        let (waits, counters) = (Histogram::default(), by.sender().counters().clone());
        let count = if is_2011 { 1 } else { self.settings.burst };
        let mut burst = by.sender().burst(count);
        while !stop.load(Relaxed) {
            if is_2011 {
                host::spin(self.settings.make_ns);
            }
            by.sender().fill(&mut burst, count, self.settings.frame_bytes, wait::Wait::Forever)?;
            let (waited, dropped) = (counters.waits.get(), counters.drops.get());
            let began_ns = ExactClock.now_ns();
            by.submit(&mut burst)?;
            if counters.waits.get() > waited {
                waits.record(ExactClock.now_ns().saturating_sub(began_ns));
            }
            if self.settings.yields && counters.drops.get() > dropped {
                std::thread::yield_now();
            }
        }
        Ok(waits)
    }
}

/// Creates a dummy device that keeps its caller busy for `drain_ns` a frame, as draining did in 2011.
fn drain(drain_ns: u64) -> Box<dyn TxDevice> {
    let transmit = move |null: &mut Null, batch: &mut Batch, more| {
        let offered = batch.len();
        let done = null.transmit(batch, more);
        host::spin(drain_ns * (offered - batch.len()) as u64);
        done
    };
    Box::new(Via { inner: Null::default(), transmit })
}
