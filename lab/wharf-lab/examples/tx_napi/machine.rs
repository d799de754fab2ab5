//! One run: a virtual machine's queue over `virtio-user`, a device over `vhost-user`, a poller for each.

use super::counts::{Counts, StopGuard};
use super::flows::{Application, Flows};
use super::load::{Load, Work};
use super::message::Protocol;
use serde::Deserialize;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wharf_core::device::AnyDevice;
use wharf_core::host::Clock;
use wharf_core::poller::{self, Mode};
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Handler, RxQueue};
use wharf_devices::host::{HostClock, HostPark, PollerThread, cpu_seconds, pin, processors};
use wharf_devices::open::{Direction, open};
use wharf_lab::experiment::Parameters;
use wharf_tools::traffic::Latency;

/// Any error of a run.
pub(super) type AnyError = Box<dyn Error>;

/// Distance of frames in bytes: a long message fits into one.
const FRAME_BYTES: u32 = 5120;

/// The longest time for draining at the end of a run.
const DRAIN_NS: u64 = 10_000_000_000;

/// Time between two samples of the messages in flight.
const SAMPLE_EVERY: Duration = Duration::from_millis(1);

/// The longest time without progress: a machine under load may keep a thread waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Measurement {
    pub(super) seconds: f64,
    /// Messages that came out of the device.
    pub(super) messages: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    /// Processor time of both sides.
    pub(super) cpu_seconds: f64,
    /// Mean number of messages between application and device.
    pub(super) in_flight: f64,
    /// Figures of the whole run.
    pub(super) whole: WholeRun,
}

/// Figures known once a run is over: reading them earlier would delay the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WholeRun {
    pub(super) messages: u64,
    /// Notifications of the virtual machine, and of the device.
    pub(super) interrupts: u64,
    pub(super) kicks: u64,
    /// Packets freed in a poll to receive.
    pub(super) cleaned_from_receive: u64,
}

/// The settings of all runs, and the memory of both sides.
pub(super) struct Rig {
    guest_pool: PagePool,
    far_pool: PagePool,
    poller: poller::Settings,
    pub(super) settings: Settings,
}

/// The parameters of all runs.
#[derive(Deserialize)]
pub(super) struct Settings {
    pool_frames: u32,
    spin: bool,
    ring: u64,
    pin: bool,
    pub(super) window_bytes: u64,
    pub(super) window_packets: u64,
    pub(super) burst_packets: usize,
    pub(super) rounds: u64,
    pub(super) long_bytes: u32,
    settle_ms: u64,
    measure_ms: u64,
    pub(super) only_load: usize,
}

impl Measurement {
    pub(super) fn per_second(&self) -> f64 {
        self.messages as f64 / self.seconds
    }
}

/// Both sides, running.
struct Machine {
    guest: Side,
    far: Side,
    seen: Arc<Counts>,
    _socket: Socket,
}

/// One side; without a poller once that has stopped.
struct Side {
    queue: TxQueue,
    receiver: RxQueue,
    poller: Option<PollerThread>,
}

/// The counters at one moment.
struct Snapshot {
    at: Instant,
    arrived: u64,
    cpu_seconds: f64,
}

/// A directory of this run's own with a socket.
struct Socket(PathBuf);

impl Socket {
    fn new() -> std::io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wharf-tx-napi-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory)?;
        Ok(Self(directory))
    }

    fn spec(&self, kind: &str, options: &str) -> String {
        format!("{kind}:{}{options}", self.0.join("socket").display())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The rest is removed at the next reboot.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Rig {
    pub(super) fn new(parameters: &Parameters) -> Result<Self, AnyError> {
        let settings: Settings = parameters.read_into()?;
        let pool = || {
            let pool = PagePool::builder().frames(settings.pool_frames).frame_bytes(FRAME_BYTES);
            pool.build()
        };
        let mode = if settings.spin { Mode::Adaptive } else { Mode::Sleeping };
        Ok(Self {
            guest_pool: pool()?,
            far_pool: pool()?,
            poller: poller::Settings { mode, ..poller::Settings::default() },
            settings,
        })
    }

    /// Runs `load` with `napi` for a while.
    pub(super) fn run(&self, load: &Load, napi: &str) -> Result<Measurement, AnyError> {
        let (machine, application) = self.start(load, napi)?;
        let ran = thread::scope(|scope| {
            let _stopping = StopGuard(&machine.seen.stop);
            if let Some(mut application) = application {
                thread::Builder::new().spawn_scoped(scope, move || {
                    self.pin_to(0);
                    application.run(load.work);
                })?;
            }
            self.measure(&machine)
        })?;
        Ok(Measurement { whole: machine.end()?, ..ran })
    }

    fn pin_to(&self, side: usize) {
        if let Some(cpu) = self.cpu_of(side) {
            let _ = pin(cpu);
        }
    }

    fn cpu_of(&self, side: usize) -> Option<usize> {
        let all = processors();
        all.get(side % all.len().max(1)).copied().filter(|_| self.settings.pin)
    }

    fn queue(&self, pool: &PagePool, device: AnyDevice) -> Result<TxQueue, AnyError> {
        Ok(TxQueue::builder_of(pool, device, Arc::new(HostClock), Arc::new(HostPark))?.build()?)
    }

    fn side(&self, queue: TxQueue, handler: Handler, number: usize) -> Result<Side, AnyError> {
        let receiver = RxQueue::of(&queue, handler)?;
        let poller = PollerThread::builder().settings(self.poller).receiver(&receiver);
        let poller = match self.cpu_of(number) {
            Some(cpu) => poller.pin(cpu).start()?,
            None => poller.start()?,
        };
        Ok(Side { queue, receiver, poller: Some(poller) })
    }

    /// Starts the device first, then the side that connects to it. Flows that answers continue are with the
    /// poller, and have begun; others are an application's.
    fn start(&self, load: &Load, napi: &str) -> Result<(Machine, Option<Application>), AnyError> {
        let (socket, seen) = (Socket::new()?, Arc::new(Counts::default()));
        let device = open(&socket.spec("vhost-user", ""), Direction::Send)?.device;
        let queue = self.queue(&self.far_pool, device)?;
        let handler = load.answers(&queue, &seen)?;
        let far = self.side(queue, handler, 1)?;
        let options = format!(",napi={napi},size={}", self.settings.ring);
        let device = open(&socket.spec("virtio-user", &options), Direction::Send)?.device;
        let queue = self.queue(&self.guest_pool, device)?;
        let mut flows = Flows::new(&queue, load.flows, load.sends(&self.settings), &seen)?;
        let (handler, application) = match load.protocol {
            Protocol::Tcp => {
                flows.pump(false);
                (flows.hearing(load.work == Work::RoundTrip), None)
            }
            Protocol::Udp => {
                let (application, handler) = Application::new(flows);
                (handler, Some(application))
            }
        };
        let guest = self.side(queue, handler, 0)?;
        Ok((Machine { guest, far, seen, _socket: socket }, application))
    }

    fn measure(&self, machine: &Machine) -> Result<Measurement, AnyError> {
        let (seen, time) = (&*machine.seen, Duration::from_millis(self.settings.measure_ms));
        thread::sleep(Duration::from_millis(self.settings.settle_ms));
        *seen.times() = Latency::default();
        let before = machine.look();
        let (mut samples, mut in_flight) = (0u64, 0u64);
        let is_over = || {
            // A message has arrived, and an answer was heard.
            let has_begun = seen.arrived.load(Relaxed) > before.arrived && seen.times().packets() > 0;
            before.at.elapsed() >= if has_begun { time } else { time.max(PATIENCE) }
        };
        while !is_over() {
            thread::sleep(SAMPLE_EVERY);
            let arrived = seen.arrived.load(Relaxed);
            in_flight += seen.sent.load(Relaxed).saturating_sub(arrived);
            samples += 1;
        }
        let after = machine.look();
        let mut times = seen.times().clone();
        if after.arrived == before.arrived || times.packets() == 0 {
            return Err(format!("nothing came out of the device any more: {}", machine.account()).into());
        }
        Ok(Measurement {
            seconds: (after.at - before.at).as_secs_f64(),
            messages: after.arrived - before.arrived,
            p50_ns: times.quantile_ns(0.5),
            p99_ns: times.quantile_ns(0.99),
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            in_flight: in_flight as f64 / samples.max(1) as f64,
            whole: WholeRun::default(),
        })
    }
}

impl Machine {
    fn look(&self) -> Snapshot {
        let (user, system) = cpu_seconds();
        Snapshot { at: Instant::now(), arrived: self.seen.arrived.load(Relaxed), cpu_seconds: user + system }
    }

    /// Returns the places of all messages, in words.
    fn account(&self) -> String {
        let (seen, counters) = (&*self.seen, self.guest.queue.counters());
        let far = self.far.queue.counters();
        format!(
            "{} messages sent, {} arrived; queue: {} accepted, {} taken, {} completed; answers: {} accepted, {} completed",
            seen.sent.load(Relaxed),
            seen.arrived.load(Relaxed),
            counters.accepted.get(),
            counters.packets.get(),
            counters.sent.get(),
            far.accepted.get(),
            far.sent.get(),
        )
    }

    /// Waits until all messages have arrived, and accounts for them.
    fn end(self) -> Result<WholeRun, AnyError> {
        let (seen, deadline_ns) = (self.seen.clone(), HostClock.now_ns() + DRAIN_NS);
        while !seen.is_over() {
            if HostClock.now_ns() >= deadline_ns {
                return Err(format!("not every message came out: {}", self.account()).into());
            }
            thread::sleep(SAMPLE_EVERY);
        }
        let Self { guest, mut far, seen, _socket } = self;
        // The answering side stops first; the answers are heard as long as the other side runs.
        far.poller = None;
        let _ = far.queue.drain_until(deadline_ns);
        let (queue, signals) = (guest.queue.clone(), guest.queue.signals().unwrap_or_default());
        let _ = queue.drain_until(deadline_ns);
        guest.end("the virtual machine", deadline_ns)?;
        far.end("the device", deadline_ns)?;
        Ok(WholeRun {
            messages: seen.arrived.load(Relaxed),
            interrupts: signals.interrupts,
            kicks: signals.kicks,
            cleaned_from_receive: queue.counters().cleaned_from_receive.get(),
        })
    }
}

impl Side {
    /// Stops its poller, closes it, and checks that all that entered has left.
    fn end(self, side: &str, deadline_ns: u64) -> Result<(), AnyError> {
        let Self { queue, receiver, poller } = self;
        drop(poller);
        receiver.close()?;
        drop(receiver);
        let audit = queue.shutdown_until(deadline_ns);
        let counters = queue.counters();
        let (entered, left) = (counters.accepted.get(), counters.gone());
        if audit.out() != 0 || entered != left || counters.failed.get() > 0 {
            let failures = counters.failures();
            let what = format!("{side}: {entered} frames went in and {left} left; {audit}; {failures:?}");
            return Err(what.into());
        }
        Ok(())
    }
}
