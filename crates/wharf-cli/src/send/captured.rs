//! The capture of a run: kept in memory if it is small, read as it is sent if not.

use super::ends::{Ends, pace};
use super::traffic::{BESIDE_BYTES, FRAME_BYTES, Stream, Traffic};
use crate::args::SendArgs;
use crate::output::note;
use crate::signals::{Signals, Waits};
use crate::usage;
use anyhow::anyhow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wharf_devices::pcap::format::{Framing, Macs};
use wharf_devices::pcap::is_stream;
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_tools::traffic::{
    Capture, CaptureError, GAP_NS_TOLD, Pace, Reading, Split, StreamCounts, StreamReplay, Survey, TimeFacts,
    no_pace,
};

/// The longest file that is kept in memory for one sender, and for several, which share it by flow.
const KEPT_BYTES_MAX: u64 = 16 << 20;
const SHARED_BYTES_MAX: u64 = 256 << 20;
/// The beginning of a longer file, whose longest frame says how long the memory of a frame is to be.
const SURVEY_BYTES: u64 = 64 << 20;

/// Reads the capture at `path`, or opens it to be read as it is sent. Returns it as a phrase, and as traffic.
pub(super) fn captured(
    args: &SendArgs, path: &Path, ends: &Ends, signals: &Signals,
) -> anyhow::Result<(String, Traffic)> {
    if is_stream(path) {
        return pipe(args, path, signals);
    }
    let limit_bytes = if args.senders > 1 { SHARED_BYTES_MAX } else { KEPT_BYTES_MAX };
    let (opened, how) = (path.to_path_buf(), reading(args));
    match signals.unless_asked(&reads(path), move || Capture::load(&opened, limit_bytes, &how))? {
        Ok(capture) => kept(args, capture, ends),
        Err(CaptureError::TooLarge { .. }) if args.senders == 1 => large(args, path, ends, signals),
        Err(error @ CaptureError::TooLarge { .. }) => {
            Err(anyhow!("{error} for --senders; one sender sends a file of any size"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Checks that a pipe is asked for what it can do: one pass, by one sender.
pub(super) fn check_stream(args: &SendArgs) -> anyhow::Result<()> {
    let Some(path) = args.pcap.as_deref().filter(|path| is_stream(path)) else { return Ok(()) };
    let why = match () {
        () if args.rounds.is_some_and(|rounds| rounds != 1) => "--loop: a stream cannot be read again",
        () if args.senders > 1 => "--senders: a stream goes by one sender",
        () if args.strict => "--strict: a stream cannot be read before it is sent",
        () => return Ok(()),
    };
    Err(usage(format!("--pcap {}: {why}; a file would do", path.display())))
}

fn reading(args: &SendArgs) -> Reading {
    let zero = args.to.kind().can.ignores_addresses.then(Macs::default);
    // Gaps are those of the clock, whatever the pace.
    let factor = match pace(args) {
        Pace::Captured(speed) => speed as f64 / 1e3,
        _ => 1.0,
    };
    let of_capture = |gap: Duration| gap.mul_f64(factor);
    Reading {
        max_gap: args.max_gap.map(of_capture),
        told_gap: Some(of_capture(Duration::from_nanos(GAP_NS_TOLD))),
        loop_gap: args.loop_gap.map(of_capture),
        framing: Framing { macs: args.mac.or(zero), only: args.direction },
    }
}

/// Returns the longest frame for which there is memory, as far as arguments say.
fn room_bytes(args: &SendArgs) -> u32 {
    let room_bytes = args.frame_bytes.unwrap_or(FRAME_BYTES).saturating_sub(BESIDE_BYTES);
    room_bytes.min(LENGTH_BYTES_MAX)
}

fn keeps_times(args: &SendArgs) -> bool {
    pace(args).is_captured()
}

fn stream_of(args: &SendArgs, replay: StreamReplay) -> Traffic {
    let replay = args.count.into_iter().fold(replay, StreamReplay::ending_after);
    Traffic::Stream(Stream::new(if keeps_times(args) { replay.by_time(tell_gaps) } else { replay }))
}

fn pipe(args: &SendArgs, path: &Path, signals: &Signals) -> anyhow::Result<(String, Traffic)> {
    let file = path.display().to_string();
    let waits = Waits::new(format!("--pcap {}: waiting for the capture", file));
    let (opened, how, longest_bytes) = (path.to_path_buf(), reading(args), room_bytes(args));
    let open = move || StreamReplay::open(&opened, 1, longest_bytes, &how);
    let replay = signals.unless_asked(&waits, open)??;
    Ok((format!("{} (a stream)", replay.name()), stream_of(args, replay)))
}

fn reads(path: &Path) -> Waits {
    Waits::new(format!("--pcap {}: reading the capture", path.display()))
}

fn large(args: &SendArgs, path: &Path, ends: &Ends, signals: &Signals) -> anyhow::Result<(String, Traffic)> {
    let (opened, most_bytes) = (path.to_path_buf(), if args.strict { u64::MAX } else { SURVEY_BYTES });
    let survey = signals.unless_asked(&reads(path), move || Survey::of(&opened, most_bytes))??;
    refuse_damage(args, survey.error.as_ref())?;
    let found_bytes = if args.frame_bytes.is_some() { 0 } else { survey.longest_bytes };
    let longest_bytes = room_bytes(args).max(found_bytes);
    let replay = StreamReplay::open(path, ends.rounds, longest_bytes, &reading(args))?;
    Ok((format!("{} (read as it is sent)", replay.name()), stream_of(args, replay)))
}

fn kept(args: &SendArgs, capture: Capture, ends: &Ends) -> anyhow::Result<(String, Traffic)> {
    refuse_damage(args, capture.error())?;
    let (name, frames, skipped) = (capture.name(), capture.len() as u64, capture.skipped());
    if skipped.empty > 0 {
        let (empty, all) = (skipped.empty, frames + skipped.total());
        note(&format!("{name}: {empty} of {all} records have length 0, and are skipped"));
    }
    tell_snapped(name, capture.snapped(), frames);
    let packets = args.count.unwrap_or(u64::MAX);
    if keeps_times(args) {
        if capture.round_ns() == 0 && ends.rounds > 1 && packets > frames {
            return Err(usage(no_pace(name)));
        }
        tell_gaps(name, &capture.facts());
        tell_back(name, &capture.facts());
    }
    // A run that has an end reports the error there.
    if let Some(error) = capture.error().filter(|_| ends.is_endless) {
        note(&format!("{error}; the {frames} frames before are sent"));
    }
    let what = format!("{name} ({frames} frames)");
    let split = Split::new(Arc::new(capture), args.senders.into(), args.qdisc.kind().order);
    Ok((what, Traffic::Replay { split, rounds: ends.rounds, packets }))
}

fn refuse_damage(args: &SendArgs, error: Option<&impl std::fmt::Display>) -> anyhow::Result<()> {
    let error = error.filter(|_| args.strict);
    error.map_or(Ok(()), |error| Err(anyhow!("{error}; by --strict nothing is sent")))
}

/// Notes what is known of a capture that was read as it was sent, once it has been. All is known of one in
/// memory before.
pub(super) fn tell_streamed(args: &SendArgs, name: &str, counts: &StreamCounts) {
    tell_snapped(name, counts.snapped, counts.frames);
    if keeps_times(args) {
        tell_back(name, &counts.facts);
    }
}

fn tell_snapped(name: &str, snapped: u64, all: u64) {
    if snapped > 0 {
        note(&format!(
            "{name}: {snapped} of {all} frames were cut short when captured, and are sent as they are"
        ));
    }
}

fn tell_back(name: &str, facts: &TimeFacts) {
    match facts.back {
        0 => {}
        1 => note(&format!("{name}: 1 frame goes back in time, and is sent in its order")),
        back => note(&format!("{name}: {back} frames go back in time, and are sent in their order")),
    }
}

fn tell_gaps(name: &str, facts: &TimeFacts) {
    let TimeFacts { long_gaps, longest_gap_ns, longest_before, .. } = *facts;
    let seconds = longest_gap_ns as f64 / 1e9;
    let many = if long_gaps == 1 { String::new() } else { format!(", the longest of {long_gaps}") };
    if long_gaps > 0 {
        note(&format!(
            "{name}: a gap of {seconds:.0} s before frame {longest_before}{many}; --max-gap TIME shortens it"
        ));
    }
}
