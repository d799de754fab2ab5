//! One run: ends, forwarder and supervision.

use super::account::{ForwardReport, outcome};
use super::judge::judge;
use super::live::Live;
use super::manage::Manager;
use super::policy::Policy;
use super::reload::Reload;
use super::tell::Tells;
use crate::args::{ForwardArgs, RecoveryArgs, WhenFull};
use crate::config::Origin;
use crate::log;
use crate::output;
use crate::outside::Outside;
use crate::processor::Meter;
use crate::recovery::Recovery;
use crate::report::{TraceReport, device_text};
use crate::sandbox::Sandbox;
use crate::session::{Outcome, Watch, tell_mode, tell_opened, waits_for};
use crate::signals::Signals;
use crate::usage;
use crate::verdict::link_bps;
use crate::watch::{Running, Settings};
use std::time::Duration;
use wharf::device::DeviceError;
use wharf::device::wrap_device;
use wharf::forward::{End, Forward, ForwardError, ForwardSettings, Place};
use wharf::qdisc::Rate;
use wharf::queue::TxQueue;
use wharf_core::poller;
use wharf_core::rx::RxQueue;
use wharf_devices::spec::{DeviceSpec, Queues};
use wharf_tools::trace::TraceFile;

/// Time for frames inside to leave once the end was asked for.
const GRACE: Duration = Duration::from_millis(300);

/// Forwards until one of the ends that were asked for.
pub(super) fn run(
    args: &ForwardArgs, sandbox: &Sandbox, origin: Origin<'_>, outside: &Outside,
) -> anyhow::Result<Outcome<ForwardReport>> {
    let Outside { signals, page, board, .. } = outside;
    let ([mut a, mut b], recoveries) = ends(args, signals)?;
    let mirror = args.mirror.as_deref().map(TraceFile::create).transpose()?;
    if let Some(file) = &mirror {
        let traced = |device| wrap_device!(device, |inner| file.around(inner).sent_only());
        for end in [&mut a, &mut b] {
            *end = std::mem::take(end).into_iter().map(|queue| queue.wrap_sending(traced)).collect();
        }
    }
    let (policy, links) = (Policy::of(args)?, [&args.a, &args.b].map(link_bps));
    let in_force = Settings::of_forwarder(args, &policy);
    let forward = Forward::start(a, b, &settings(args, &in_force)).map_err(starting)?;
    let queues = || forward.directions().iter().flat_map(|direction| &direction.queues);
    queues().for_each(|queue| queue.set_batching(args.batch));
    let running = |direction| Running::forwarding(direction, &in_force);
    let running: Vec<Running> = forward.directions().iter().map(running).collect();
    board.put(running.clone());
    board.put_pollers(forward.poller_counters());
    warn_of_loop(args);
    sandbox.enter()?;
    policy.warning(args).into_iter().for_each(output::warn);
    // Scripts wait for this line before they send.
    output::note(&format!("forwarding {}", between(&forward)));
    for direction in forward.directions() {
        tell_mode(&direction.to, direction.queues.first().and_then(TxQueue::device_mode_reason));
        let call = |recovery: &Recovery| recovery.call_pollers_of(&direction.queues, &direction.receivers);
        recoveries.iter().for_each(call);
    }
    let meter = Meter::of_process();
    let mut tells = Tells::of(&forward, args.recovery, &recoveries);
    let manager = Manager::start(signals, board, Reload::new(origin, args, mirror.as_ref()));
    page.begin(None);
    let lost = watch(args, outside, &forward, &mut tells, manager);
    page.end(board);
    let away: Vec<String> = recoveries.iter().filter_map(Recovery::fault).collect();
    let time = meter.elapsed();
    let finished = forward.finish(GRACE);
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
    outcome.faults.extend(away);
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
        qdisc: in_force.make_qdisc(),
        drop_tail: in_force.when_full == WhenFull::DropTail,
        poller: poller::Settings { mode: args.poll, ..poller::Settings::default() },
        pollers: args.pollers,
        cpus: args.cpu.clone(),
    }
}

/// Returns the bytes that leave in a millisecond, or those of an ordinary frame where that is more.
fn millisecond_bytes(rate: Rate) -> u64 {
    (rate.bits_per_second() / 8000).max(1514)
}

/// Opens the ends, each with as many queues as asked for, if it can have several.
fn ends(args: &ForwardArgs, signals: &Signals) -> anyhow::Result<([Vec<End>; 2], [Recovery; 2])> {
    let queues = Queues { count: args.queues, ..Queues::default() };
    // If one end has one queue only, all queues of the other share memory.
    let has_pool_each = args.a.devices(queues) == args.b.devices(queues);
    let pool_shared_by = if has_pool_each { 1 } else { args.queues };
    let queues = Queues { pool_shared_by, ..queues };
    let (a, b, recovery) = (args.a.clone(), args.b.clone(), args.recovery);
    let waits = waits_for(&a).and(&waits_for(&b)).at_most(recovery.give_up);
    signals.unless_asked(&waits, move || {
        let (a, of_a) = end(&a, Place::First, queues, recovery)?;
        let (b, of_b) = end(&b, Place::Second, queues, recovery)?;
        Ok(([a, b], [of_a, of_b]))
    })?
}

/// Makes an error about a specification a wrong use; one about a capture is none.
fn end(
    spec: &DeviceSpec, place: Place, queues: Queues, recovery: RecoveryArgs,
) -> anyhow::Result<(Vec<End>, Recovery)> {
    let fault = |error| match error {
        DeviceError::Unsupported { .. } if spec.file().is_none() => usage(error),
        error => error.into(),
    };
    let direction = place.direction(spec.kind());
    log::note_device(&spec.name());
    let mut opened = spec.open(direction, queues).map_err(fault)?;
    tell_opened(&opened);
    let recovery = Recovery::around(recovery, spec, direction, queues, &mut opened)?;
    let ends: Result<Vec<End>, DeviceError> = opened.into_iter().map(End::of).collect();
    Ok((ends.map_err(fault)?, recovery))
}

fn starting(error: ForwardError) -> anyhow::Error {
    match error {
        ForwardError::Nothing { .. } => usage(error),
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
        manager.look(forward);
        let next = watch.look(Duration::ZERO, Duration::ZERO);
        if watch.is_ending() || forward.is_over() {
            return None;
        }
        live.show(&watch, forward);
        outside.page.look(&outside.board);
        std::thread::sleep(next);
    }
}
