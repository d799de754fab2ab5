//! The common parts of experiments on this machine: memory, a wire with a receiver at its far end, a device with other
//! calls, threads that send, fail and are stopped.

use super::{Bench, LabError};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use wharf_core::delegate;
use wharf_core::device::{Device, Notify, RxDevice, Transmitted, TxDevice};
use wharf_core::host::Clock;
use wharf_core::pool::{Burst, PagePool, PoolBuilder};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::ExactClock;
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::Batch;

/// The longest time for draining at the end of a run.
pub(crate) const DRAIN_NS: u64 = 10_000_000_000;
/// The interval at which a run asks whether to go on.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// The sleep of a far end that received nothing.
const FAR_NAP: Duration = Duration::from_micros(50);
/// Memory of the far end.
const FAR_FRAMES: u32 = 4096;

/// Creates the pool of `builder`, on this machine's clock.
pub(crate) fn pool(builder: PoolBuilder) -> Result<PagePool, LabError> {
    builder.build().map_err(|error| fault("memory", &error))
}

/// A wire, and the resources of its far end.
pub(crate) struct FarEnd {
    pool: PagePool,
    spec: WireSpec,
}

impl FarEnd {
    /// Creates a wire with this rate, and the far end's memory by `builder`.
    pub(crate) fn new(builder: PoolBuilder, bits_per_second: u64) -> Result<Self, LabError> {
        let spec = WireSpec::default().rate(bits_per_second);
        Ok(Self { pool: pool(builder.frames(FAR_FRAMES))?, spec })
    }

    /// Calls `run` with the near end of a new wire; the far end receives meanwhile.
    pub(crate) fn receiving<R>(
        &self, run: impl FnOnce(Box<dyn TxDevice>) -> Result<R, LabError>,
    ) -> Result<R, LabError> {
        let (near, far) = wire(&self.spec);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stopping = StopGuard(&stop);
            start(scope, "far end", || self.receive(far, &stop))?;
            run(Box::new(near))
        })
    }

    /// Receives all packets.
    fn receive(&self, mut far: Wire, stop: &AtomicBool) {
        let Ok(mut cache) = self.pool.cache("far end") else { return };
        let mut frames = Batch::new(64);
        let mut attached = far.attach(self.pool.region().clone()).is_ok();
        while attached && !stop.load(Relaxed) {
            match far.receive(&mut cache, &mut frames, 64) {
                Ok(0) => std::thread::sleep(FAR_NAP),
                Ok(_) => attached = cache.give(&mut frames).is_ok(),
                Err(_) => attached = false,
            }
        }
    }
}

/// A device whose frames are handed over by a function of ours.
pub(crate) struct Via<D, F> {
    pub(crate) inner: D,
    pub(crate) transmit: F,
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice, F: Send> Notify for Via<D, F> {
    delegate!(inner: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice, F: Send> Device for Via<D, F> {
    delegate!(inner: name, mode, mode_reason, facts, set_line, link, attach, visit, close);
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice, F: FnMut(&mut D, &mut Batch, bool) -> Transmitted + Send> TxDevice for Via<D, F> {
    delegate!(inner: info, flush, reap, outstanding, next_completion_ns, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        (self.transmit)(&mut self.inner, batch, more)
    }
}

/// Makes up to `count` packets, calls `prepare` with them, and sends them.
pub(crate) fn send(
    sender: &mut Sender, burst: &mut Burst, count: usize, len_bytes: u32, prepare: &dyn Fn(&mut Burst),
) -> Result<(), String> {
    sender.fill(burst, count, len_bytes, Wait::Forever).map_err(|error| error.to_string())?;
    prepare(burst);
    sender.send(burst, Wait::Forever).map(drop).map_err(|error| error.to_string())
}

/// The first fault of a thread, and the flag that stops all.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    pub(crate) stop: AtomicBool,
    what: Mutex<Option<String>>,
}

impl Failed {
    /// Notes the end of a thread. A fault stops all.
    pub(crate) fn note(&self, done: Result<(), String>) {
        if let Err(what) = done {
            wharf_mem::lock(&self.what).get_or_insert(what);
            self.stop.store(true, Relaxed);
        }
    }

    /// Returns the fault as that of `run`.
    pub(crate) fn check(self, run: &str) -> Result<(), LabError> {
        let what = self.what.into_inner().unwrap_or_else(PoisonError::into_inner);
        what.map_or(Ok(()), |what| Err(fault(run, &what)))
    }
}

/// Lets threads send for `time`, unless they stop by themselves. Asks `goes_on` now and then.
///
/// # Errors
/// [`LabError::Interrupted`]: `goes_on` returned false.
pub(crate) fn wait(
    time: Duration, stop: &AtomicBool, goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), LabError> {
    let began = Instant::now();
    while !stop.load(Relaxed) {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(ASK_EVERY));
        if !goes_on() {
            return Err(LabError::Interrupted);
        }
    }
    Ok(())
}

/// Returns the time to measure: the one asked for, or the parameter's.
pub(super) fn measure_time(bench: &Bench<'_>) -> Result<Duration, LabError> {
    let asked = bench.duration_ns.map(Duration::from_nanos);
    asked.map_or_else(|| bench.parameters.get("measure_ms").map(Duration::from_millis), Ok)
}

/// Spins for `ns`.
pub(super) fn spin(ns: u64) {
    let began_ns = ExactClock.now_ns();
    while ExactClock.now_ns().saturating_sub(began_ns) < ns {
        std::hint::spin_loop();
    }
}

/// Sets the flag when it is dropped, for any reason; ordered with all that is [`SeqCst`].
pub(crate) struct StopGuard<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Starts a thread of `run`.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>, run: &str, work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, LabError> {
    let started = Builder::new().spawn_scoped(scope, work);
    started.map_err(|error| fault(run, &format_args!("cannot start a thread: {error}")))
}

pub(crate) fn fault(run: &str, error: &dyn std::fmt::Display) -> LabError {
    LabError::Host { run: run.into(), what: error.to_string() }
}
