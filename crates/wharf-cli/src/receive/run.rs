//! One reception: pool, device and receiving thread, from the first frame to the account at the end.

use super::account::{Account, Outcome};
use crate::args::ReceiveArgs;
use crate::files::check_written;
use crate::output::{self, grouped, with_causes};
use crate::progress::Progress;
use crate::report::device_text;
use crate::signals::Signals;
use crate::usage;
use crate::wrap::wrap;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use wharf::device::DeviceError;
use wharf::devices::host::{HostClock, pin, processors};
use wharf::devices::spec::{DeviceSpec, Direction, Queues};
use wharf::pool::PagePool;
use wharf_tools::traffic::{Arrivals, ReceiveError, Receiver, Recorder, Until};

/// Longest time between two looks at the signals.
const LOOK: Duration = Duration::from_millis(20);
/// Time in which arrivals are still received once a signal has asked for the end.
const GRACE: Duration = Duration::from_millis(500);
/// The same once the time is over: for arrivals that the device had not shown yet, not for new ones.
const GRACE_OF_TIME: Duration = Duration::from_millis(30);

type Receiving = Receiver<Recorder<Arrivals>>;

/// Checks the command line before anything is opened or created.
pub(super) fn check(args: &ReceiveArgs) -> anyhow::Result<()> {
    let there = processors();
    if let Some(cpu) = args.cpu.filter(|cpu| !there.contains(cpu)) {
        let list: Vec<String> = there.iter().map(usize::to_string).collect();
        return Err(usage(format!("--cpu {cpu}: this process may use processors {}", list.join(", "))));
    }
    args.from.check(Direction::Receive).map_err(|error| usage(format!("--from {error}")))?;
    let written = [args.pcap.as_deref().map(|path| ("--pcap", path)), args.wrap.trace_file()];
    check_written(args.from.file().map(|path| ("--from", path)), &written)
}

/// Receives until one of the ends that were asked for.
pub(super) fn run(args: &ReceiveArgs, signals: &Signals) -> anyhow::Result<Outcome> {
    let pool = PagePool::builder().frames(args.frames).frame_bytes(args.frame_bytes);
    let pool = pool.clock(Arc::new(HostClock)).build()?;
    let from = args.from.clone();
    let opened = signals.unless_asked(move || from.open(Direction::Receive, Queues::default()))?;
    let opened = opened
        .map_err(|error| opening(&args.from, error))?
        .pop()
        .context("a device has at least one queue")?;
    if opened.far_end.is_some() {
        let what = "its other end is in this process, where nothing sends; `wharf send` does both";
        return Err(usage(format!("--from {}: {what}", opened.device.name())));
    }
    let device = opened.device.name();
    let recorder = Recorder::new(Arrivals::default(), args.pcap.as_deref())?;
    let (wrapped_device, wrapped) = wrap(opened.device, &args.wrap)?;
    let receiver = Receiver::new(wrapped_device.into_rx()?, &pool, recorder)?.waiting(args.poll.into());
    // Scripts wait for this line before they send.
    let mode = receiver.mode();
    output::complain(&format!("listening on {}", device_text(&device, mode)));
    let (mut receiver, ended) = receive(args, receiver, signals)?;
    let batches = receiver.batches();
    let mut account = Account { device, mode, batches, wrapped, ..Account::default() };
    account.fault(ended.err().map(|error| with_causes(&error.into())));
    receiver.drops(&mut |reason, count| *account.drops.entry(reason.into()).or_default() += count);
    account.fault(receiver.close().err().map(|error| error.to_string()));
    let (arrivals, unwritten) = receiver.into_check().finish();
    account.fault(unwritten.map(|error| error.to_string()));
    Ok(account.close(&arrivals, &pool.audit(), signals.asked()))
}

/// Makes an error about a specification a wrong use; one about a capture is none.
fn opening(spec: &DeviceSpec, error: DeviceError) -> anyhow::Error {
    match error {
        DeviceError::Unsupported { .. } if spec.file().is_none() => usage(format!("--from {error}")),
        error => error.into(),
    }
}

/// Receives in a thread of its own, and supervises it.
fn receive(
    args: &ReceiveArgs, mut receiver: Receiving, signals: &Signals,
) -> anyhow::Result<(Receiving, Result<(), ReceiveError>)> {
    let shared = Arc::new(Shared::default());
    let (ending, ended) = mpsc::channel();
    let (count, cpu) = (args.count.unwrap_or(u64::MAX), args.cpu);
    let seen = shared.clone();
    let run = move || {
        // `check` has seen the processor. If it has gone since, the thread runs on any.
        let _ = cpu.map(pin);
        let Shared { stop, end, received } = &*seen;
        let until = Until { stop, end, count, received };
        let result = receiver.run_until(&until);
        // The supervisor is gone only if it has panicked.
        let _ = ending.send((receiver, result));
    };
    let thread = thread::Builder::new().name("wharf-receiver".into()).spawn(run);
    let thread = thread.context("cannot start a thread")?;
    let outcome = watch(args.seconds, signals, &shared, &ended);
    let panicked = || anyhow!("a thread panicked: this is a bug in wharf");
    thread.join().map_err(|_| panicked())?;
    outcome.ok_or_else(panicked)
}

/// State that the receiving thread and its supervisor share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    end: AtomicBool,
    received: AtomicU64,
}

/// Shows progress, and asks for the end in time. Returns the thread's result, unless it has panicked.
fn watch<T>(
    time: Option<Duration>, signals: &Signals, shared: &Shared, ended: &mpsc::Receiver<T>,
) -> Option<T> {
    let (began, progress, mut asked) = (Instant::now(), Progress::new(), None);
    loop {
        let left = time.map(|time| time.saturating_sub(began.elapsed()));
        if asked.is_none() && signals.asked() {
            asked = Some(Instant::now() + GRACE);
        } else if asked.is_none() && left.is_some_and(|left| left.is_zero()) {
            asked = Some(Instant::now() + GRACE_OF_TIME);
        }
        if let Some(end) = asked {
            shared.stop.store(true, Ordering::Release);
            shared.end.store(end <= Instant::now(), Ordering::Release);
        }
        let look = left.filter(|left| !left.is_zero()).map_or(LOOK, |left| left.min(LOOK));
        match ended.recv_timeout(look) {
            Ok(outcome) => return Some(outcome),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        progress.say(|| {
            let (packets, seconds) = (shared.received.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
            format!("{seconds:.1} s: {} packets", grouped(packets))
        });
    }
}

/// The drops of a device, by reason.
pub(super) type ByReason = BTreeMap<String, u64>;
