//! World host: the comparison of 2007 on a path of this machine's, over any device: batching off, on, and on when the queue
//! wakes, each with several numbers of senders, and on beside errors of the driver.
//!
//! In the mode `woken` several packets share a call only if the call before had found the ring full, as in 2007 in a softirq that
//! went on with a queue that had been stopped. The modes take turns in each round; each figure is the median of the rounds.

use crate::experiment::host::{self, DRAIN_NS, Failed, StopGuard, Via, fault};
use crate::experiment::row::median;
use crate::experiment::{Bench, LabError, Row, RowKind};
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use wharf::testing::{Chance, Fault, FaultSpec};
use wharf_core::device::{AnyDevice, DeviceError, Signals, Transmitted, TxDevice, TxSide};
use wharf_core::engine::Batching;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_devices::host::{HostClock, HostPark, PollerThread, cpu_seconds};
use wharf_devices::registry::Registry;
use wharf_devices::spec::{DeviceSpec, Direction};
use wharf_mem::Batch;
use wharf_mem::batch::BATCH_FRAMES_MAX;

/// Numbers of senders by default.
const SENDERS: [u32; 3] = [1, 4, 16];
/// The device by default.
const DEVICE: &str = "null";
/// Distance of frames in bytes.
const FRAME_BYTES: u32 = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    On,
    /// On when the queue wakes.
    Woken,
    /// On, with errors of the driver.
    Errors,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Off, Self::On, Self::Woken, Self::Errors];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Woken => "woken",
            Self::Errors => "on+errors",
        }
    }
}

#[derive(Debug, Deserialize)]
struct Settings {
    rounds: u64,
    frame_bytes: u32,
    burst: usize,
    pool_frames: u32,
    error_millionths: u32,
    settle_ms: u64,
}

/// The counts of a run, or of a part of it.
#[derive(Debug, Clone, Copy)]
struct Counts {
    seconds: f64,
    cpu_seconds: f64,
    packets: u64,
    failed: u64,
    doorbells: u64,
    requeues: u64,
    /// `None` if the device counts none.
    interrupts: Option<u64>,
}

impl Counts {
    /// Returns the counts so far; `doorbells` of a device that counts its own.
    fn of(queue: &TxQueue, doorbells: Option<&AtomicU64>, began: Instant) -> Self {
        let (counters, (user, kernel)) = (queue.counters(), cpu_seconds());
        Self {
            seconds: began.elapsed().as_secs_f64(),
            cpu_seconds: user + kernel,
            packets: counters.sent.get(),
            failed: counters.failed.get(),
            doorbells: doorbells.map_or_else(|| counters.doorbells.get(), |own| own.load(Relaxed)),
            requeues: counters.requeues.get(),
            interrupts: queue.signals().map(|signals: Signals| signals.interrupts),
        }
    }

    fn since(self, before: Self) -> Self {
        let interrupts = self.interrupts.zip(before.interrupts).map(|(now, was)| now - was);
        Self {
            seconds: self.seconds - before.seconds,
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            packets: self.packets - before.packets,
            failed: self.failed - before.failed,
            doorbells: self.doorbells - before.doorbells,
            requeues: self.requeues - before.requeues,
            interrupts,
        }
    }

    fn per_cpu_second(&self) -> f64 {
        self.packets as f64 / self.cpu_seconds.max(f64::MIN_POSITIVE)
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let settings: Settings = bench.parameters.read_into()?;
    let usual = Registry::default().parse(DEVICE).map_err(|error| fault(DEVICE, &error))?;
    let device = bench.device.unwrap_or(&usual);
    let time = host::measure_time(bench)?;
    let senders = if bench.threads.is_empty() { SENDERS.to_vec() } else { bench.threads.to_vec() };
    for senders in senders {
        let label = |mode: Mode| format!("{device}/senders={senders}/batch={}", mode.name());
        let mut ran = Mode::ALL.map(|_| Vec::new());
        for round in 0..settings.rounds {
            for (mode, ran) in Mode::ALL.into_iter().zip(&mut ran) {
                let name = format!("{}, round {} of {}", label(mode), round + 1, settings.rounds);
                let one = One { device, mode, senders, settings: &settings, time, seed: bench.seed };
                ran.push(one.measure(bench, &name)?);
            }
        }
        for (mode, counts) in Mode::ALL.into_iter().zip(&ran) {
            bench.packets += counts.iter().map(|counts| counts.packets).sum::<u64>();
            bench.rows.extend(rows(&label(mode), mode, counts, &ran[0]));
        }
    }
    Ok(())
}

/// Returns the medians of the rounds, and the gain over `off` of the same rounds.
fn rows(label: &str, mode: Mode, ran: &[Counts], off: &[Counts]) -> Vec<Row> {
    let middle = |figures: Vec<f64>| (median(figures) * 1e6) as i64;
    let row = |what, figure: &dyn Fn(&Counts) -> f64| {
        Row::new(label, what, middle(ran.iter().map(figure).collect()), RowKind::Measured)
    };
    let per = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    let mut rows = vec![
        row(("mpps", "Mpps"), &|ran| ran.packets as f64 / ran.seconds / 1e6),
        row(("cpu", "ns per packet"), &|ran| 1e9 / ran.per_cpu_second().max(1.0)),
        row(("packets_per_doorbell", "packets"), &|ran| per(ran.packets, ran.doorbells)),
        row(("requeues", "per thousand packets"), &|ran| 1e3 * per(ran.requeues, ran.packets)),
        row(("failed", "per million packets"), &|ran| 1e6 * per(ran.failed, ran.packets + ran.failed)),
    ];
    if ran.iter().all(|ran| ran.interrupts.is_some()) {
        let per_interrupt = |ran: &Counts| per(ran.packets, ran.interrupts.unwrap_or_default());
        let row = row(("packets_per_interrupt", "packets"), &per_interrupt);
        let is_silent = ran.iter().all(|ran| ran.interrupts == Some(0));
        rows.push(if is_silent {
            row.saying("no interrupt came: senders and poller looked before")
        } else {
            row
        });
    }
    if mode != Mode::Off {
        let gains = ran.iter().zip(off).map(|(on, off)| on.per_cpu_second() / off.per_cpu_second().max(1.0));
        let what = ("packets_per_cpu_second_of_off", "times");
        rows.push(Row::new(label, what, middle(gains.collect()), RowKind::Measured));
    }
    rows
}

/// One run of one mode.
struct One<'a> {
    device: &'a DeviceSpec,
    mode: Mode,
    senders: u32,
    settings: &'a Settings,
    time: Duration,
    seed: u64,
}

impl One<'_> {
    fn measure(&self, bench: &mut Bench<'_>, name: &str) -> Result<Counts, LabError> {
        let pool = PagePool::builder().frames(self.settings.pool_frames).frame_bytes(FRAME_BYTES);
        let doorbells = (self.mode == Mode::Woken).then(Arc::<AtomicU64>::default);
        let queue = self.queue(&host::pool(pool)?, doorbells.clone()).map_err(|what| fault(name, &what))?;
        let poller = PollerThread::start(&queue).map_err(|error| fault(name, &error))?;
        let counts = self.senders((&queue, doorbells.as_deref()), bench, name)?;
        drop(poller);
        let audit = queue.shutdown_until(HostClock.now_ns() + DRAIN_NS);
        let entered: u64 = queue.senders().iter().map(|sender| sender.packets.get()).sum();
        let left = queue.counters().sent.get() + queue.counters().failed.get();
        if entered != left || audit.out() != 0 {
            return Err(fault(name, &format_args!("{entered} packets went in and {left} left; {audit}")));
        }
        Ok(counts)
    }

    /// Opens the device, and makes the queue before it.
    fn queue(&self, pool: &PagePool, doorbells: Option<Arc<AtomicU64>>) -> Result<TxQueue, String> {
        let opened = self.device.open(Direction::Send).map_err(|error| error.to_string())?;
        let opened = opened.into_iter().next().ok_or("it has no queue")?;
        if opened.far_end.is_some() {
            return Err(
                "nothing receives at its far end here: name a device that leads out of this process".into()
            );
        }
        let side: TxSide = opened.device.try_into().map_err(|error: DeviceError| error.to_string())?;
        let device: Box<dyn TxDevice> = match side {
            TxSide::Tx(device) => device,
            TxSide::Duplex(device) => Box::new(device),
        };
        let errors = Chance::Millionths(self.settings.error_millionths);
        let device = match (self.mode, doorbells) {
            (Mode::Woken, Some(doorbells)) => AnyDevice::tx(when_woken(device, doorbells)),
            (Mode::Errors, _) => {
                let spec = FaultSpec { seed: self.seed, error: errors, ..FaultSpec::default() };
                AnyDevice::tx(Fault::new(device, &spec))
            }
            _ => AnyDevice::Tx(device),
        };
        let batching = if self.mode == Mode::Off { Batching::Off } else { Batching::On };
        let builder = TxQueue::builder_of(pool, device, Arc::new(HostClock), Arc::new(HostPark));
        let builder = builder.map_err(|error| error.to_string())?.batching(batching);
        builder.build().map_err(|error| error.to_string())
    }

    fn senders(
        &self, (queue, doorbells): (&TxQueue, Option<&AtomicU64>), bench: &mut Bench<'_>, name: &str,
    ) -> Result<Counts, LabError> {
        let failed = Failed::default();
        let counts = std::thread::scope(|scope| {
            let stopping = StopGuard(&failed.stop);
            for number in 0..self.senders {
                let sender =
                    queue.sender(&format!("sender {number}")).map_err(|error| fault(name, &error))?;
                let (failed, settings) = (&failed, self.settings);
                host::start(scope, name, move || failed.note(send(sender, settings, &failed.stop)))?;
            }
            host::wait(Duration::from_millis(self.settings.settle_ms), &failed.stop, &mut || {
                bench.goes_on(name)
            })?;
            let began = Instant::now();
            let before = Counts::of(queue, doorbells, began);
            host::wait(self.time, &failed.stop, &mut || bench.goes_on(name))?;
            let counts = Counts::of(queue, doorbells, began).since(before);
            drop(stopping);
            Ok(counts)
        })?;
        failed.check(name)?;
        Ok(counts)
    }
}

/// Sends until `stop`.
fn send(mut sender: Sender, settings: &Settings, stop: &AtomicBool) -> Result<(), String> {
    let mut burst = sender.burst(settings.burst);
    while !stop.load(Relaxed) {
        host::send(&mut sender, &mut burst, settings.burst, settings.frame_bytes, &|_| {})?;
    }
    Ok(())
}

/// Returns a device that takes one packet in each call, unless the call before had found it full. It counts its doorbells:
/// the queue counts one for each of its own calls.
fn when_woken(inner: Box<dyn TxDevice>, doorbells: Arc<AtomicU64>) -> impl TxDevice {
    let (mut is_woken, mut one, mut rest) = (false, Batch::new(1), Batch::new(BATCH_FRAMES_MAX));
    let transmit = move |inner: &mut Box<dyn TxDevice>, batch: &mut Batch, more| {
        let mut sum = Transmitted::default();
        if std::mem::take(&mut is_woken) {
            sum = inner.transmit(batch, more);
            doorbells.fetch_add(sum.doorbell.into(), Relaxed);
        } else {
            rest.append(batch, usize::MAX);
            while one.append(&mut rest, 1) > 0 && !sum.stopped {
                let done = inner.transmit(&mut one, false);
                doorbells.fetch_add(done.doorbell.into(), Relaxed);
                let stopped = done.stopped || !one.is_empty();
                sum = Transmitted { doorbell: sum.doorbell || done.doorbell, stopped };
            }
            // The packets that the device did not take, in order.
            batch.append(&mut one, 1);
            batch.append(&mut rest, usize::MAX);
        }
        is_woken = sum.stopped;
        sum
    };
    Via { inner, transmit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use wharf_core::device::{Completions, Device};
    use wharf_testkit::gate::Gate;

    #[test]
    fn several_packets_share_a_call_only_behind_a_stop() {
        let pool = PagePool::builder().frames(64).frame_bytes(2048).build().unwrap();
        let (gate, control) = Gate::new(8);
        let doorbells = Arc::<AtomicU64>::default();
        let mut device = when_woken(Box::new(gate), doorbells.clone());
        device.attach(pool.region().clone()).unwrap();
        let mut cache = pool.cache("test").unwrap();
        let (mut batch, mut done) = (Batch::new(32), Completions::new(64));
        cache.take(&mut batch, 20, 64).unwrap();
        let indices: Vec<u32> = batch.frames().iter().map(wharf_mem::Frame::index).collect();
        assert!(device.transmit(&mut batch, false).stopped);
        assert_eq!(doorbells.load(Relaxed), 8, "a call for each");
        let left: Vec<u32> = batch.frames().iter().map(wharf_mem::Frame::index).collect();
        assert_eq!(left, indices[8..], "the others stay, in order");
        control.allowed.store(8, SeqCst);
        device.reap(64, false, &mut done).unwrap();
        device.transmit(&mut batch, false);
        assert_eq!((doorbells.load(Relaxed), batch.len()), (9, 4), "one call for eight");
        control.allowed.store(64, SeqCst);
        device.reap(64, false, &mut done).unwrap();
        device.transmit(&mut batch, false);
        device.reap(64, false, &mut done).unwrap();
        let sent: Vec<u32> = done.sent.frames().iter().map(wharf_mem::Frame::index).collect();
        assert_eq!(sent, indices);
        cache.give(&mut done.sent).unwrap();
    }
}
