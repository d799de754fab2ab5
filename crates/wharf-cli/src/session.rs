//! The skeleton of `send`, `receive` and `forward`: checks, opening, the watch over a run, and its end.

use crate::log;
use crate::output::{detail, note};
use crate::progress::Progress;
use crate::report::device_text;
use crate::signals::{Signals, Waits};
use crate::usage;
use anyhow::{Context, anyhow};
use std::cell::Cell;
use std::error::Error;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use wharf::device::TxInfo;
use wharf::{OpenError, OpenErrorKind as Kind, PortBuilder};
use wharf_core::device::ModeReason;
use wharf_devices::host::{pin, processors};
use wharf_devices::spec::{DeviceSpec, Opened};

/// Longest time between two looks at the signals.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// The same while nothing passes: each wait is twice as long as the one before. A signal ends it.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// The outcome of a run.
pub(crate) struct Outcome<R> {
    pub(crate) report: R,
    /// Faults, a line each.
    pub(crate) faults: Vec<String>,
    /// A signal ended it.
    pub(crate) interrupted: bool,
}

/// Checks that this process may use each processor named.
pub(crate) fn check_cpus<'a>(cpus: impl IntoIterator<Item = &'a usize>) -> anyhow::Result<()> {
    let there = processors();
    let Some(cpu) = cpus.into_iter().find(|cpu| !there.contains(cpu)) else { return Ok(()) };
    let list: Vec<String> = there.iter().map(usize::to_string).collect();
    Err(usage(format!("--cpu {cpu}: this process may use processors {}", list.join(", "))))
}

/// Opens `queues` queues of `spec`, named by `option`, by `port`, and gives up on a peer once a signal has come, or after
/// `give_up`.
pub fn open(
    option: &str, spec: &DeviceSpec, port: PortBuilder, queues: u32, signals: &Signals,
    give_up: Option<Duration>,
) -> anyhow::Result<PortBuilder> {
    log::note_device(&spec.name());
    let opened = signals.unless_asked(&waits_for(spec).at_most(give_up), move || port.open(queues))?;
    let opened = opened.map_err(|error| match is_usage(spec, &error) {
        true => usage(format!("{option} {error}")),
        false => error.into(),
    })?;
    tell_opened(opened.devices());
    Ok(opened)
}

/// True if the error says that the specification of `spec` cannot be: a wrong use. One about a capture is none.
pub(crate) fn is_usage(spec: &DeviceSpec, error: &OpenError) -> bool {
    let is_wrong = matches!(error.kind(), Kind::BadKey | Kind::Unsupported | Kind::Setting);
    is_wrong && error.source().is_none() && spec.file().is_none()
}

/// Prints each queue of a device that was opened, with `--verbose`, and lets the log know the device.
pub(crate) fn tell_opened(opened: &[Opened]) {
    for (at, one) in opened.iter().enumerate() {
        log::note_device(&one.device.name());
        detail(|| {
            let device = &one.device;
            let mode = device.as_tx().map_or_else(|| device.as_rx().and_then(|rx| rx.mode()), |tx| tx.mode());
            let queue = if opened.len() > 1 {
                format!(", queue {} of {}", at + 1, opened.len())
            } else {
                String::new()
            };
            let name = device_text(&device.name(), mode);
            format!(
                "opened {name}{queue}: {}",
                device.as_tx().map_or_else(|| "receives".into(), |tx| abilities(&tx.info()))
            )
        });
    }
}

/// Says why device `name` works in no better mode: if its user can do something about that, or else with `--verbose`.
pub(crate) fn tell_mode(name: &str, reason: Option<&ModeReason>) {
    let Some(ModeReason { what, is_curable }) = reason else { return };
    let line = || format!("{name}: {what}");
    if *is_curable { note(&line()) } else { detail(line) }
}

/// Returns the ring and the offloads of a device that sends.
fn abilities(info: &TxInfo) -> String {
    let ring = info.ring_frames.map_or_else(
        || "sends without a ring".into(),
        |frames| format!("sends by a ring of {frames} frames"),
    );
    let completions = if info.has_real_completions() { "" } else { ", completes frames at once" };
    let segmentation = match () {
        () if info.segmentation => ", segments super-packets",
        () if info.tcp_segmentation => ", segments super-packets of TCP",
        () => "",
    };
    let checksum = if info.checksum { ", fills in checksums" } else { "" };
    format!("{ring}{completions}{segmentation}{checksum}")
}

/// Returns what the opening of a device may wait for.
pub(crate) fn waits_for(spec: &DeviceSpec) -> Waits {
    Waits::new(format!("{}: waiting {}", spec.name(), spec.kind().waits))
}

/// Starts a thread. The processor was there when it was checked. If it has gone since, the thread runs on any.
pub(crate) fn start<T: Send + 'static>(
    name: &str, cpu: Option<usize>, run: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    let pinned = move || {
        let _ = cpu.map(pin);
        run()
    };
    Builder::new().name(name.into()).spawn(pinned).context("cannot start a thread")
}

pub(crate) fn joined<T>(thread: JoinHandle<T>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked: this is a bug in wharf"))
}

/// The watch over a run: its time, the signals, and its progress.
pub(crate) struct Watch<'a> {
    signals: &'a Signals,
    began: Instant,
    time: Option<Duration>,
    progress: Progress,
    /// Packets that had passed, and the time between two looks since.
    passed: Cell<(u64, Duration)>,
    /// Time at which the run is cut off; none before its end was asked for.
    overdue: Cell<Option<Instant>>,
}

impl<'a> Watch<'a> {
    /// Begins the watch over a run of `time`, or without a bound.
    pub(crate) fn new(signals: &'a Signals, time: Option<Duration>) -> Self {
        let (began, passed) = (Instant::now(), Cell::new((0, LOOK)));
        Self { signals, began, time, progress: Progress::begin(), passed, overdue: Cell::new(None) }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Asks for the end if a signal has come, or the time is over: the run then has one grace or the other. Returns the time until the
    /// next look.
    pub(crate) fn look(&self, of_signal: Duration, of_time: Duration) -> Duration {
        let left = self.time.map(|time| time.saturating_sub(self.elapsed()));
        if self.signals.asked() {
            self.end_within(of_signal);
        } else if left == Some(Duration::ZERO) {
            self.end_within(of_time);
        }
        let most = if self.is_ending() { LOOK } else { self.passed.get().1 };
        left.filter(|left| !left.is_zero()).map_or(most, |left| left.min(most))
    }

    /// Waits for `time`, or a signal. `passed` packets have passed: while that number grows, looks are
    /// frequent.
    pub(crate) fn rest(&self, time: Duration, passed: u64) {
        let (before, pause) = self.passed.get();
        let pause = if before == passed { (pause * 2).min(IDLE_LOOK) } else { LOOK };
        self.passed.set((passed, pause));
        std::thread::park_timeout(time);
    }

    /// Gives the run `grace` from now, unless it had less before.
    pub(crate) fn end_within(&self, grace: Duration) {
        let overdue = Instant::now() + grace;
        self.overdue.set(self.overdue.get().map_or(Some(overdue), |before| Some(before.min(overdue))));
    }

    /// True if the end was asked for.
    pub(crate) fn is_ending(&self) -> bool {
        self.overdue.get().is_some()
    }

    /// True if the run has had its time, and its grace.
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.get().is_some_and(|overdue| Instant::now() >= overdue)
    }

    /// Shows progress, behind the seconds since the run began.
    pub(crate) fn say(&self, what: impl FnOnce(f64) -> String) {
        self.progress.say(|| {
            let seconds = self.elapsed().as_secs_f64();
            format!("{seconds:.1} s: {}", what(seconds))
        });
    }
}
