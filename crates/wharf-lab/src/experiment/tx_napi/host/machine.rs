//! One run: a virtual machine's queue over `virtio-user`, a device over `vhost-user`, a poller for each.

use super::super::super::host::{self, DRAIN_NS, StopGuard, fault};
use super::Rig;
use super::application::Application;
use super::counts::Counts;
use super::guest::Guest;
use super::load::{Load, Work};
use super::message::Protocol;
use crate::experiment::{Bench, LabError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf_core::device::AnyDevice;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Handler, RxQueue};
use wharf_devices::host::{HostClock, HostPark, PollerThread, cpu_seconds, pin, processors};
use wharf_devices::open::{Direction, open};
use wharf_tools::traffic::Latency;

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
    /// Runs `load` with `napi` for a while.
    pub(super) fn run(
        &self, load: &Load, napi: &str, bench: &mut Bench<'_>, name: &str,
    ) -> Result<Measurement, LabError> {
        let (machine, application) = self.start(load, napi).map_err(|error| fault(name, &*error))?;
        let seen = machine.seen.clone();
        let ran = std::thread::scope(|scope| {
            // It is woken once it is to stop.
            let _closing = application.as_ref().map(Application::closes);
            let _stopping = StopGuard(&seen.stop);
            if let Some(mut application) = application {
                host::start(scope, name, move || {
                    self.pin_to(0);
                    application.run(load.work);
                })?;
            }
            self.measure(&machine, bench, name)
        })?;
        Ok(Measurement { whole: machine.end(name)?, ..ran })
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
        let mut flows = Guest::new(&queue, load.flows, load.sends(self), &seen)?;
        let (handler, application) = match load.protocol {
            Protocol::Tcp => {
                flows.pump(false);
                (flows.hearing(load.work == Work::RoundTrip), None)
            }
            Protocol::Udp => {
                let application = Application::new(flows);
                (application.hearing(), Some(application))
            }
        };
        let guest = self.side(queue, handler, 0)?;
        Ok((Machine { guest, far, seen, _socket: socket }, application))
    }

    fn measure(&self, machine: &Machine, bench: &mut Bench<'_>, name: &str) -> Result<Measurement, LabError> {
        let seen = &*machine.seen;
        host::wait(Duration::from_millis(self.settings.settle_ms), &seen.stop, bench, name)?;
        *seen.times() = Latency::default();
        let before = machine.look();
        let (mut samples, mut in_flight) = (0u64, 0u64);
        let is_over = || {
            // A message has arrived, and an answer was heard.
            let has_begun = seen.arrived.load(Relaxed) > before.arrived && seen.times().packets() > 0;
            before.at.elapsed() >= if has_begun { self.measure } else { self.measure.max(PATIENCE) }
        };
        while !is_over() {
            std::thread::sleep(SAMPLE_EVERY);
            let arrived = seen.arrived.load(Relaxed);
            in_flight += seen.sent.load(Relaxed).saturating_sub(arrived);
            samples += 1;
            if samples.is_multiple_of(32) && !bench.goes_on(name) {
                return Err(LabError::Interrupted);
            }
        }
        let after = machine.look();
        let mut times = seen.times().clone();
        if after.arrived == before.arrived || times.packets() == 0 {
            let what = format!("nothing came out of the device any more: {}", machine.account());
            return Err(fault(name, &what));
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

/// Any error of the set-up.
type AnyError = Box<dyn std::error::Error>;

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
    fn end(self, name: &str) -> Result<WholeRun, LabError> {
        let (seen, deadline_ns) = (self.seen.clone(), HostClock.now_ns() + DRAIN_NS);
        while !seen.is_over() {
            if HostClock.now_ns() >= deadline_ns {
                let what = format!("not every message came out: {}", self.account());
                return Err(fault(name, &what));
            }
            std::thread::sleep(SAMPLE_EVERY);
        }
        let Self { guest, mut far, seen, _socket } = self;
        // The answering side stops first; the answers are heard as long as the other side runs.
        far.poller = None;
        let _ = far.queue.drain_until(deadline_ns);
        let (queue, signals) = (guest.queue.clone(), guest.queue.signals().unwrap_or_default());
        let _ = queue.drain_until(deadline_ns);
        guest.end("the virtual machine", name, deadline_ns)?;
        far.end("the device", name, deadline_ns)?;
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
    fn end(self, side: &str, name: &str, deadline_ns: u64) -> Result<(), LabError> {
        let Self { queue, receiver, poller } = self;
        drop(poller);
        receiver.close().map_err(|error| fault(name, &error))?;
        drop(receiver);
        let audit = queue.shutdown_until(deadline_ns);
        let counters = queue.counters();
        let (entered, left) = (counters.accepted.get(), counters.gone());
        if audit.out() != 0 || entered != left || counters.failed.get() > 0 {
            let failures = counters.failures();
            let what = format!("{side}: {entered} frames went in and {left} left; {audit}; {failures:?}");
            return Err(fault(name, &what));
        }
        Ok(())
    }
}
