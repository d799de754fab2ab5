//! One run: ends, forwarder and supervision.

use super::account::{ForwardReport, outcome};
use super::judge::judge;
use super::live::Live;
use super::manage::Manager;
use super::policy::Policy;
use super::ports::{Ports, mirroring, settings};
use super::reload::Reload;
use super::routed::{self, Routed};
use super::tell::Tells;
use crate::args::ForwardArgs;
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
use crate::watch::Settings;
use std::time::Duration;
use wharf::PortBuilder;
use wharf::forward::{Direction, Forward, ForwardError};
use wharf::queue::TxQueue;
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
        ends = ends.into_iter().map(|end| end.wrap(mirroring(file.clone()))).collect();
    }
    let (policy, links) = (Policy::of(args)?, [&args.a, &args.b].map(link_bps));
    let is_switch = !args.ports.is_empty();
    let in_force = Settings::of_forwarder(args, &policy);
    let routed = Routed::default();
    let mut settings = settings(args, &in_force);
    if args.route {
        routed.set(&mut settings, [&args.a, &args.b]);
        settings.frame_bytes = Some(args.frame_bytes.unwrap_or(routed::FRAME_BYTES));
        [&args.a, &args.b].into_iter().for_each(routed::warn_of_kernel);
    }
    let mut forward = Forward::start(ends, &settings).map_err(starting)?;
    let mut ports = Ports::show(&forward, args, in_force.clone(), mirror.clone(), board);
    board.set(&args.set).map_err(|error| usage(format!("--set {error}")))?;
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
    let manager = Manager::start(signals, board, Reload::new(origin, args, mirror.as_ref()), &mut ports);
    page.begin(None);
    let lost = watch(args, outside, &mut forward, &mut tells, manager);
    page.end(board);
    let (away, time) = (tells.end(), meter.elapsed());
    routed.end();
    let finished = forward.finish(GRACE);
    let unmirrored = ports.end_mirror();
    let (route, missing) = routed.report(&finished).unzip();
    tells.look_back(&finished, lost.as_ref());
    finished.iter().for_each(|of| page.add_delays(&format!("in the queue to {}", of.to), &of.queue_delay));
    let mirrored = args.mirror.as_ref().zip(mirror);
    let mirrored = mirrored.map(|(path, file)| TraceReport::of(path, &file.counts()));
    let now = ports.settings(&finished);
    let mut outcome = outcome(finished, lost, signals.asked(), mirrored, &now, is_switch);
    let judged = outcome.report.directions.iter_mut().zip(&now).filter(|_| !is_switch);
    for (direction, settings) in judged {
        direction.common.verdict = Some(judge(direction, args, settings, links, time));
    }
    outcome.report.route = route;
    outcome.faults.extend(away.into_iter().chain(missing.flatten()).chain(unmirrored));
    Ok(outcome)
}

fn warn_of_loop(args: &ForwardArgs) {
    let ends = &args.ends();
    let pairs = (1..ends.len()).flat_map(|at| ends[..at].iter().map(move |other| [*other, ends[at]]));
    for [a, b] in pairs.filter(|[a, b]| a.is_peer(b)).map(|pair| pair.map(DeviceSpec::name)) {
        output::warn(&format!(
            "{a} and {b} are the two ends of one veth pair: what leaves by one comes back by the other, for ever"
        ));
    }
}

/// Opens the ends, each with as many queues as asked for, if it can have several.
fn ends(args: &ForwardArgs, signals: &Signals) -> anyhow::Result<Vec<PortBuilder>> {
    let specs = args.ends();
    specs.iter().for_each(|spec| log::note_device(&spec.name()));
    let end = |(at, spec): (usize, &&DeviceSpec)| treated(Forward::end(at, spec), args.recovery, spec);
    let ends: Vec<PortBuilder> = specs.iter().enumerate().map(end).collect();
    let waits = args
        .ports
        .iter()
        .fold(waits_for(&args.a).and(&waits_for(&args.b)), |all, spec| all.and(&waits_for(spec)));
    let waits = waits.at_most(args.recovery.give_up);
    let queues = args.queues;
    let opened = signals.unless_asked(&waits, move || Forward::open(ends, queues))?;
    let opened = opened.map_err(|error| {
        let spec = specs.into_iter().find(|spec| spec.to_string() == error.device());
        if spec.is_some_and(|spec| is_usage(spec, &error)) { usage(error) } else { error.into() }
    })?;
    opened.iter().for_each(|end| tell_opened(end.devices()));
    Ok(opened)
}

/// Makes an error about an end that cannot be one a wrong use.
fn starting(error: ForwardError) -> anyhow::Error {
    match error {
        ForwardError::Nothing { .. } | ForwardError::OtherEnd { .. } | ForwardError::Port { .. } => {
            usage(error)
        }
        error => error.into(),
    }
}

/// Returns the directions with the modes of their devices, for people.
fn between(forward: &Forward) -> String {
    let text = |direction: &Direction| {
        let to = device_text(&direction.to, direction.queues.first().and_then(TxQueue::device_mode));
        match direction.receivers.len().max(direction.queues.len()) {
            _ if direction.from == direction.to => to,
            1 => format!("{} to {to}", direction.from),
            queues => format!("{} to {to} by {queues} queues", direction.from),
        }
    };
    let all = forward.directions().iter().map(text).collect::<Vec<_>>().join(", ");
    if forward.stations(0).is_some() { format!("between the ports of a switch: {all}") } else { all }
}

/// Returns the error of a direction whose device is gone for good.
fn lost(direction: &Direction) -> Option<String> {
    let ended = || direction.receivers.iter().filter(|receiver| receiver.has_ended());
    direction.gone().or_else(|| ended().find_map(RxQueue::take_error).map(|error| error.to_string()))
}

/// Supervises the run until its end. Returns the error of a device that is lost for good or given up, if one is.
fn watch(
    args: &ForwardArgs, outside: &Outside, forward: &mut Forward, tells: &mut Tells, mut manager: Manager<'_>,
) -> Option<String> {
    let (watch, live) = (Watch::new(&outside.signals, args.seconds), Live::default());
    loop {
        forward.note_time();
        forward.directions().iter().for_each(Direction::note_departures);
        let lost = forward.directions().iter().enumerate().find_map(|(at, way)| Some((at, lost(way)?)));
        if let Some((at, lost)) = lost
            && !manager.goes_on_without(at, &lost, forward, tells)
        {
            return Some(lost);
        }
        if let Some(given_up) = tells.look(forward) {
            return Some(given_up);
        }
        let within = manager.look(forward, tells);
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
