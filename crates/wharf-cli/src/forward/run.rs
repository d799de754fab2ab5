//! One run: ends, forwarder, and what is watched meanwhile.

use super::account::{Outcome, outcome};
use super::live::Live;
use super::tell::Tells;
use crate::args::ForwardArgs;
use crate::files::{capture_of, check_written};
use crate::output;
use crate::report::{TraceReport, device_text};
use crate::signals::Signals;
use crate::usage;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf::device::{Device, DeviceError};
use wharf::devices::forward::{End, Forward, ForwardError, Place};
use wharf::devices::host::{ExactClock, processors};
use wharf::devices::trace::TraceFile;
use wharf::poller::Settings;
use wharf::qdisc::{Rate, Tbf};

/// Longest time between two looks at the signals and the devices.
const LOOK: Duration = Duration::from_millis(20);
/// How long what is inside may still be sent once the end was asked for.
const GRACE: Duration = Duration::from_millis(300);

/// What is wrong with the command line, before anything is opened or made.
pub(super) fn check(args: &ForwardArgs) -> anyhow::Result<()> {
    let there = processors();
    if let Some(cpu) = args.cpu.iter().find(|cpu| !there.contains(cpu)) {
        let list: Vec<String> = there.iter().map(usize::to_string).collect();
        return Err(usage(format!("--cpu {cpu}: this process may use processors {}", list.join(", "))));
    }
    let mirror = args.mirror.as_deref().map(|path| ("--mirror", path));
    let written = [capture_of(&args.b).map(|path| ("the second end", path)), mirror];
    check_written(capture_of(&args.a).map(|path| ("the first end", path)), &written)
}

/// Forwards until one of the ends that were asked for.
pub(super) fn run(args: &ForwardArgs, signals: &Signals) -> anyhow::Result<Outcome> {
    let (mut a, mut b) = (end(&args.a, Place::First)?, end(&args.b, Place::Second)?);
    let mirror = args.mirror.as_deref().map(TraceFile::create).transpose()?;
    if let Some(file) = &mirror {
        let traced =
            |device| Ok::<_, DeviceError>(Box::new(file.around(device).sent_only()) as Box<dyn Device>);
        (a, b) = (a.wrap_sending(traced)?, b.wrap_sending(traced)?);
    }
    let (qdisc, when_full) = (args.qdisc, args.when_full);
    let rate = args.rate.map(Rate::new).map(|rate| args.burst.map_or(rate, |bytes| rate.burst(bytes)));
    let builder = Forward::builder(a, b);
    // What the bucket would let through only in one go is cut, as the kernel's tbf does.
    let builder = match rate {
        Some(rate) => builder.longest_bytes(rate.burst_bytes()),
        None => builder,
    };
    let builder = builder
        .memory(args.frames, args.frame_bytes)
        .qdisc(Box::new(move |pool| match rate {
            Some(rate) => {
                Box::new(Tbf::new(qdisc.build(when_full), rate, pool.region(), Arc::new(ExactClock)))
            }
            None => qdisc.build(when_full),
        }))
        .qdisc_packets(qdisc.packets())
        .drop_tail(when_full == crate::args::WhenFull::DropTail)
        .settings(Settings { mode: args.poll.into(), ..Settings::default() })
        .pollers(args.pollers)
        .cpus(args.cpu.clone());
    let forward = builder.start().map_err(starting)?;
    // Scripts wait for this line before they send.
    output::complain(&format!("forwarding {}", between(&forward)));
    let mut tells = Tells::of(&forward);
    let lost = watch(args, signals, &forward, &mut tells);
    let finished = forward.finish(GRACE);
    tells.look_back(&finished, lost.as_ref());
    let mirrored = args.mirror.as_ref().zip(mirror).map(|(path, file)| TraceReport {
        file: path.to_string_lossy().into_owned(),
        frames: file.counts().frames(),
        missed: file.counts().missed(),
    });
    Ok(outcome(finished, lost, mirrored, signals.asked()))
}

/// A specification that is none is a wrong use; a capture that is none is not.
fn end(spec: &str, place: Place) -> anyhow::Result<End> {
    End::open(spec, place).map_err(|error| match error {
        DeviceError::Unsupported { ref device, .. } if !device.starts_with("pcap:") => usage(error),
        error => error.into(),
    })
}

fn starting(error: ForwardError) -> anyhow::Error {
    match error {
        ForwardError::Nothing { .. } => usage(error),
        error => error.into(),
    }
}

/// From where to where, and how the devices work.
fn between(forward: &Forward) -> String {
    let text = |direction: &wharf::devices::forward::Direction| {
        let to = device_text(direction.to(), direction.queue().device_mode());
        format!("{} to {to}", direction.from())
    };
    forward.directions().iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Watches until the end; what was lost for good, if anything.
fn watch(args: &ForwardArgs, signals: &Signals, forward: &Forward, tells: &mut Tells) -> Option<String> {
    let (began, live) = (Instant::now(), Live::new());
    loop {
        for direction in forward.directions() {
            direction.note_departures();
            if let Some(gone) = direction.gone() {
                return Some(gone);
            }
            let receiver = direction.receiver();
            if let Some(error) = receiver.has_ended().then(|| receiver.take_error()).flatten() {
                return Some(error.to_string());
            }
        }
        tells.look(forward);
        let left = args.seconds.map(|time| time.saturating_sub(began.elapsed()));
        if signals.asked() || forward.is_over() || left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        live.show(forward, began.elapsed());
        std::thread::sleep(left.map_or(LOOK, |left| left.min(LOOK)));
    }
}
