//! One reception: pool, device and receiving thread, from the first frame to the account at the end.

use super::account::{Account, ReceiveReport};
use super::live::{Live, Published};
use crate::args::{OnGone, OnStall, ReceiveArgs, RecoveryArgs};
use crate::files::{check_written, first_file};
use crate::news::{News, treated};
use crate::output::{self, with_causes};
use crate::outside::Outside;
use crate::overload::Overload;
use crate::processor::{Meter, ProcessorTime};
use crate::repeats::Lines;
use crate::report::{RxQueueReport, device_text};
use crate::sandbox::Sandbox;
use crate::session::{Outcome, Watch, check_cpus, joined, open, start, tell_mode, waits_for};
use crate::signals::Waits;
use crate::usage;
use crate::watch::Running;
use crate::wrap::wrap;
use anyhow::Context;
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;
use wharf::device::DeviceError;
use wharf::{Port, RecvError};
use wharf_core::drops::drops_by_reason;
use wharf_devices::pcap::format::PcapOptions;
use wharf_devices::spec::Direction;
use wharf_tools::traffic::{Receiver, Recorder, Until, receiving};

/// Time in which arrivals are still received once a signal has asked for the end.
const GRACE: Duration = Duration::from_millis(500);
/// The same once the time is over: for arrivals that the device had not shown yet, not for new ones.
const GRACE_OF_TIME: Duration = Duration::from_millis(30);

type Receiving = Receiver<Recorder<Published>>;

/// Checks the command line before anything is opened or created.
pub(super) fn check(args: &ReceiveArgs) -> anyhow::Result<()> {
    check_cpus(&args.cpu)?;
    args.from.check(Direction::Receive).map_err(|error| usage(format!("--from {error}")))?;
    let file = args.pcap.as_deref().map(|path| first_file(path, args.rotate.is_some()));
    let file = file.as_deref().map(|path| ("--pcap", path));
    let written = [file, args.wrap.trace_file(), args.watch.written()];
    check_written(args.from.file().map(|path| ("--from", path)), &written)
}

/// Receives until one of the ends that were asked for.
pub(super) fn run(
    args: &ReceiveArgs, sandbox: &Sandbox, outside: &Outside,
) -> anyhow::Result<Outcome<ReceiveReport>> {
    let Outside { signals, page, board, .. } = outside;
    let pool = args.memory.pool().build()?;
    let treatment =
        RecoveryArgs { on_gone: args.on_gone, on_stall: Some(OnStall::Report), give_up: args.give_up };
    let port = treated(Port::builder_of(&args.from, Direction::Receive).pool(&pool), treatment, &args.from);
    let port = open("--from", &args.from, receiving(port, args.poll), 1, signals, args.give_up)?;
    let opened = port.devices().first().context("a device has at least one queue")?;
    if opened.far_end.is_some() {
        let what = "its other end is in this process, where nothing sends; `wharf send` does both";
        return Err(usage(format!("--from {}: {what}", opened.device.name())));
    }
    let device = opened.device.name();
    let published = Published::default();
    let (counts, file, interface) = (published.counts(), args.pcap.clone(), device.clone());
    // A fifo waits for its reader.
    let waits = Waits::new("waiting for the reader of the fifo");
    let options = PcapOptions { rotation: args.rotate, ..PcapOptions::default() };
    let recorder = signals
        .unless_asked(&waits, move || Recorder::new(published, file.as_deref(), options, &interface))??;
    let (wrap, wrapped) = wrap(&args.wrap)?;
    let (port, mode, waits) = (port.wrap(wrap), args.poll, waits_for(&args.from).at_most(args.give_up));
    let opening = move || {
        let port = port.build()?;
        anyhow::Ok((Receiver::new(&port, mode, recorder)?, port))
    };
    let (receiver, port) = signals.unless_asked(&waits, opening)??;
    board.put(vec![Running::receiving(&device, receiver.queue(), &pool, receiver.batches())]);
    let news = News::of(from_ref(&port), &args.from, treatment)?.reset_with(wrapped.resets());
    sandbox.enter()?;
    let mode = receiver.queue().device_mode();
    announce(args, &device_text(&device, mode));
    let reason = receiver.queue().device_mode_reason();
    let mode_reason = reason.map(|reason| reason.what.clone());
    tell_mode(&device, reason);
    let live = Live::new(receiver.queue().clone(), counts);
    let Received { receiver, ended, time, fault } = receive(args, receiver, &live, news, outside)?;
    let batches = receiver.batches().get();
    let mut account = Account { device, mode, mode_reason, batches, wrapped, ..Account::default() };
    account.fault(fault);
    account.fault(ended.err().map(|error| with_causes(&error.into())));
    account.fault(receiver.queue().close().err().map(|error| error.to_string()));
    // Once it is closed: the last line of `--stats` has the same.
    account.drops = drops_by_reason(&[], from_ref(receiver.queue()));
    receiver
        .queue()
        .queue_packets(&mut |queue, packets| account.by_queue.push(RxQueueReport { queue, packets }));
    let (published, unwritten) = receiver.into_check().finish(account.drops.clone());
    let arrivals = published.into_arrivals();
    arrivals.latencies().inspect(|delays| page.add_delays("from stamp to arrival", &delays.all()));
    account.fault(unwritten.map(|error| error.to_string()));
    port.close(Duration::ZERO);
    let mut outcome = account.close(&arrivals, args.from.file().is_some(), &pool.audit(), signals.asked());
    outcome.report.common.verdict = Some(outcome.report.judge(args, time));
    Ok(outcome)
}

/// Says that it receives from `device`. Scripts wait for this line before they send.
fn announce(args: &ReceiveArgs, device: &str) {
    let verb = if args.from.file().is_some() { "reading" } else { "listening on" };
    output::note(&format!("{verb} {device}"));
}

/// Receives in a thread of its own, and watches over it.
fn receive(
    args: &ReceiveArgs, mut receiver: Receiving, live: &Live, mut news: News, outside: &Outside,
) -> anyhow::Result<Received> {
    let Outside { signals, page, board, .. } = outside;
    let (queue, mut overload) = (receiver.queue().clone(), Overload::new(args.from.name()));
    let shared = Arc::new(Shared::default());
    let (ending, ended) = mpsc::channel::<()>();
    let (count, seen) = (args.count.unwrap_or(u64::MAX), shared.clone());
    let outlives_line = args.on_gone == OnGone::Reopen;
    let run = move || {
        // Dropped at the end, whatever that is.
        let (_ending, meter) = (ending, Meter::of_thread());
        let Shared { stop, end, received, .. } = &*seen;
        let survives = |error: &DeviceError| survives(error, outlives_line, &mut seen.lines());
        let result = receiver.run_until(&Until { stop, end, count, received, survives: &survives });
        let (seconds, load_share) = receiver.load();
        let time = meter.elapsed().if_loaded(seconds, load_share);
        (receiver, result, time)
    };
    page.begin(Some("received"));
    let (thread, watch) = (start("wharf-receiver", args.cpu, run)?, Watch::new(signals, args.seconds));
    let mut given_up = None;
    loop {
        let next = watch.look(GRACE, GRACE_OF_TIME);
        shared.stop.store(watch.is_ending(), Ordering::Release);
        given_up = given_up.or_else(|| news.look(&mut shared.lines()));
        let ends = watch.is_overdue() || given_up.is_some();
        shared.end.store(ends, Ordering::Release);
        if ended.recv_timeout(next) != Err(mpsc::RecvTimeoutError::Timeout) {
            page.end(board);
            let (receiver, ended, time) = joined(thread)?;
            let away = news.end();
            let fault = given_up.or_else(|| news.line_fault()).or(away);
            return Ok(Received { receiver, ended, time, fault });
        }
        page.look(board);
        let received = shared.received.load(Ordering::Relaxed);
        overload.look(|| (received, drops_by_reason(&[], from_ref(&queue))));
        live.show(&watch, received);
    }
}

/// Returns true if more may arrive after an error: the line may come up again, and another peer may come. The peer's fault is told here.
fn survives(error: &DeviceError, outlives_line: bool, lines: &mut Lines) -> bool {
    match error {
        DeviceError::Unsupported { .. } => lines.tell(&error.to_string()),
        DeviceError::Down { .. } => return outlives_line,
        _ => return false,
    }
    true
}

/// State that the receiving thread and its supervisor share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    end: AtomicBool,
    received: AtomicU64,
    lines: Mutex<Lines>,
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        wharf_mem::lock(&self.lines)
    }
}

/// The end of receiving.
struct Received {
    receiver: Receiving,
    ended: Result<(), RecvError>,
    /// Processor time of the receiving thread, if that was loaded.
    time: Option<ProcessorTime>,
    /// Why the device was given up, or that its line was down at the end.
    fault: Option<String>,
}
