//! One run: ends, forwarder and supervision.

use super::account::{ForwardReport, outcome};
use super::judge::judge;
use super::live::Live;
use super::manage::Manager;
use super::policy::Policy;
use super::reload::Reload;
use super::routed::{self, Routed};
use super::tell::Tells;
use crate::args::{ForwardArgs, WhenFull};
use crate::config::Origin;
use crate::log;
use crate::news::treated;
use crate::output;
use crate::outside::Outside;
use crate::processor::Meter;
use crate::report::{TraceReport, device_text};
use crate::sandbox::Sandbox;
use crate::session::{Outcome, Watch, is_usage, tell_mode, tell_opened, waits_for};
use crate::signals::Signals;
use crate::usage;
use crate::verdict::link_bps;
use crate::watch::{Running, Settings};
use std::time::Duration;
use wharf::PortBuilder;
use wharf::device::{AnyDevice, wrap_device};
use wharf::forward::{Forward, ForwardError, ForwardSettings};
use wharf::qdisc::Rate;
use wharf::queue::TxQueue;
use wharf_core::poller;
use wharf_core::rx::RxQueue;
use wharf_devices::spec::DeviceSpec;
use wharf_tools::trace::TraceFile;

/// Time for frames inside to leave once the end was asked for.
const GRACE: Duration = Duration::from_millis(300);

/// Forwards until one of the ends that were asked for.
pub(super) fn run(
    args: &ForwardArgs, sandbox: &Sandbox, origin: Origin<'_>, outside: &Outside,
) -> anyhow::Result<Outcome<ForwardReport>> {
    let Outside { signals, page, board, .. } = outside;
    let mut ends = ends(args, signals)?;
    let mirror = args.mirror.as_deref().map(TraceFile::create).transpose()?;
    if let Some(file) = &mirror {
        ends = ends.map(|end| end.wrap(mirroring(file.clone())));
    }
    let (policy, links) = (Policy::of(args)?, [&args.a, &args.b].map(link_bps));
    let in_force = Settings::of_forwarder(args, &policy);
    let mut settings = settings(args, &in_force);
    let routed = Routed::default();
    if args.route {
        settings.ways = Some(routed.ways([&args.a, &args.b]));
        settings.frame_bytes = Some(args.frame_bytes.unwrap_or(routed::FRAME_BYTES));
        [&args.a, &args.b].into_iter().for_each(routed::warn_of_kernel);
    }
    let forward = Forward::start(ends, &settings).map_err(starting)?;
    let queues = || forward.directions().iter().flat_map(|direction| &direction.queues);
    queues().for_each(|queue| queue.set_batching(args.batch));
    let running = |direction| Running::forwarding(direction, &in_force);
    let running: Vec<Running> = forward.directions().iter().map(running).collect();
    board.put(running.clone());
    board.put_pollers(forward.poller_counters());
    warn_of_loop(args);
    sandbox.enter()?;
    in_force.standing_queue().iter().for_each(|what| output::warn(what));
    // Scripts wait for this line before they send.
    output::note(&format!("forwarding {}", between(&forward)));
    for direction in forward.directions() {
        tell_mode(&direction.to, direction.queues.first().and_then(TxQueue::device_mode_reason));
    }
    let meter = Meter::of_process();
    let mut tells = Tells::of(&forward, args)?;
    let manager = Manager::start(signals, board, Reload::new(origin, args, mirror.as_ref()));
    page.begin(None);
    let lost = watch(args, outside, &forward, &mut tells, manager);
    page.end(board);
    let (away, time) = (tells.end(), meter.elapsed());
    routed.end();
    let finished = forward.finish(GRACE);
    let (route, missing) = routed.report(&finished).unzip();
    tells.look_back(&finished, lost.as_ref());
    finished
        .iter()
        .for_each(|of| page.add_delays(&format!("in the queue to {}", of.to), &of.queue_delay.all));
    let mirrored = args.mirror.as_ref().zip(mirror);
    let mirrored = mirrored.map(|(path, file)| TraceReport::of(path, &file.counts()));
    let now: Vec<Settings> =
        running.iter().map(|path| path.settings().unwrap_or_else(|| in_force.clone())).collect();
    let mut outcome = outcome(finished, lost, signals.asked(), mirrored, &now);
    for (direction, settings) in outcome.report.directions.iter_mut().zip(&now) {
        direction.common.verdict = Some(judge(direction, args, settings, links, time));
    }
    outcome.report.route = route;
    outcome.faults.extend(away.into_iter().chain(missing.flatten()));
    Ok(outcome)
}

fn warn_of_loop(args: &ForwardArgs) {
    if args.a.is_peer(&args.b) {
        let [a, b] = [&args.a, &args.b].map(DeviceSpec::name);
        output::warn(&format!(
            "{a} and {b} are the two ends of one veth pair: what leaves by one comes back by the other, for ever"
        ));
    }
}

fn settings(args: &ForwardArgs, in_force: &Settings) -> ForwardSettings {
    ForwardSettings {
        frames: args.frames,
        frame_bytes: args.frame_bytes,
        qdisc_packets: in_force.limited_qdisc().packets() as u32,
        // Longer super-packets are segmented: an urgent packet would wait for one that is leaving.
        longest_bytes: in_force.bucket().map(|rate| args.bucket.unwrap_or_else(|| millisecond_bytes(rate))),
        byte_limits: args.bql,
        small_queues: in_force.small_queues.0,
        qdisc: [in_force.make_qdisc(), in_force.make_qdisc()],
        drop_tail: in_force.when_full == WhenFull::DropTail,
        poller: poller::Settings { mode: args.poll, ..poller::Settings::default() },
        pollers: args.pollers,
        cpus: args.cpu.clone(),
        ways: None,
    }
}

/// Returns the bytes that leave in a millisecond, or those of an ordinary frame where that is more.
fn millisecond_bytes(rate: Rate) -> u64 {
    (rate.bits_per_second() / 8000).max(1514)
}

/// Opens the ends, each with as many queues as asked for, if it can have several.
fn ends(args: &ForwardArgs, signals: &Signals) -> anyhow::Result<[PortBuilder; 2]> {
    let specs = [&args.a, &args.b];
    specs.iter().for_each(|spec| log::note_device(&spec.name()));
    let [a, b] = Forward::ends(&args.a, &args.b);
    let ends = [treated(a, args.recovery, &args.a), treated(b, args.recovery, &args.b)];
    let waits = waits_for(&args.a).and(&waits_for(&args.b)).at_most(args.recovery.give_up);
    let queues = args.queues;
    let opened = signals.unless_asked(&waits, move || Forward::open(ends, queues))?;
    let opened = opened.map_err(|error| {
        let spec = specs.into_iter().find(|spec| spec.to_string() == error.device());
        if spec.is_some_and(|spec| is_usage(spec, &error)) { usage(error) } else { error.into() }
    })?;
    opened.iter().for_each(|end| tell_opened(end.devices()));
    Ok(opened)
}

/// Returns what has a device that sends write what has left to `file`.
fn mirroring(file: TraceFile) -> impl FnMut(AnyDevice) -> AnyDevice + Send + 'static {
    move |device| match device {
        AnyDevice::Rx(_) => device,
        device => wrap_device!(device, |inner| file.around(inner).sent_only()),
    }
}

/// Makes an error about an end that cannot be one a wrong use.
fn starting(error: ForwardError) -> anyhow::Error {
    match error {
        ForwardError::Nothing { .. } | ForwardError::OtherEnd { .. } => usage(error),
        error => error.into(),
    }
}

/// Returns the directions with the modes of their devices, for people.
fn between(forward: &Forward) -> String {
    let text = |direction: &wharf::forward::Direction| {
        let to = device_text(&direction.to, direction.queues.first().and_then(TxQueue::device_mode));
        match direction.receivers.len().max(direction.queues.len()) {
            1 => format!("{} to {to}", direction.from),
            queues => format!("{} to {to} by {queues} queues", direction.from),
        }
    };
    forward.directions().iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Supervises the run until its end. Returns the error of a device that is lost for good or given up, if one is.
fn watch(
    args: &ForwardArgs, outside: &Outside, forward: &Forward, tells: &mut Tells, mut manager: Manager<'_>,
) -> Option<String> {
    let (watch, live) = (Watch::new(&outside.signals, args.seconds), Live::default());
    loop {
        for direction in forward.directions() {
            direction.note_departures();
            if let Some(gone) = direction.gone() {
                return Some(gone);
            }
            let mut ended = direction.receivers.iter().filter(|receiver| receiver.has_ended());
            if let Some(error) = ended.find_map(RxQueue::take_error) {
                return Some(error.to_string());
            }
        }
        if let Some(given_up) = tells.look(forward) {
            return Some(given_up);
        }
        let within = manager.look(forward);
        let next = watch.look(Duration::ZERO, Duration::ZERO).min(within);
        if watch.is_ending() || forward.is_over() {
            return None;
        }
        live.show(&watch, forward);
        outside.page.look(&outside.board);
        let queues = forward.directions().iter().flat_map(|direction| &direction.queues);
        watch.rest(next, queues.map(|queue| queue.counters().packets.get()).sum());
    }
}
