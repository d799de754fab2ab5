//! Captures: loaded, replayed by one or more senders, and checked as they arrive.

use std::path::Path;
use std::sync::Arc;
use wharf_core::qdisc::Order;
use wharf_devices::pcap::format::{PcapOptions, PcapWriter};
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_testkit::Scratch;
use wharf_tools::traffic::{
    Arrival, Capture, CaptureError, CapturedFrame, Check, Findings, GeneratorSpec, Position, Reading, Replay,
    Skipped, Source, Split, StreamReplay, Verify,
};

/// Writes frames, each with its time, and cut short by as many bytes as its place says if `cuts`.
fn write(path: &Path, frames: &[(&[u8], u64)], cuts: bool) {
    let mut writer = PcapWriter::create(path, PcapOptions::default()).unwrap();
    for (at, (frame, time_ns)) in frames.iter().enumerate() {
        let wire_len = frame.len() as u32 + if cuts { at as u32 } else { 0 };
        writer.write(*time_ns, [*frame], wire_len).unwrap();
    }
    writer.finish().unwrap();
}

fn capture_of(frames: &[(&[u8], u64)]) -> Capture {
    let scratch = Scratch::new("capture");
    let path = scratch.file("frames.pcap");
    write(&path, frames, false);
    Capture::load(&path, u64::MAX, &Reading::default()).unwrap()
}

#[test]
fn loaded_capture_has_frames_and_times() {
    let scratch = Scratch::new("capture");
    let path = scratch.file("two.pcap");
    write(&path, &[(b"first", 5_000), (b"the second", 5_010)], true);
    let capture = Capture::load(&path, u64::MAX, &Reading::default()).unwrap();
    assert_eq!((capture.len(), capture.bytes(), capture.longest_bytes(), capture.snapped()), (2, 15, 10, 1));
    assert_eq!(capture.frame(1), CapturedFrame { bytes: b"the second", time_ns: 10 });
}

#[test]
fn too_large_and_empty_files_are_refused_with_the_reason() {
    let scratch = Scratch::new("capture");
    let (large, empty) = (scratch.file("large.pcap"), scratch.file("empty.pcap"));
    write(&large, &[(&[7; 100], 5_000)], false);
    assert!(matches!(
        Capture::load(&large, 139, &Reading::default()),
        Err(CaptureError::TooLarge { limit_bytes: 139, .. })
    ));
    assert!(Capture::load(&large, 140, &Reading::default()).is_ok());
    write(&empty, &[], false);
    let error = Capture::load(&empty, 100, &Reading::default()).unwrap_err().to_string();
    assert!(error.ends_with(".pcap: byte 24: the capture holds no packet"), "{error}");
}

/// The frames of a file of three, read as it is sent in two rounds, by their times or not, and its error.
fn streamed(times_ns: [u64; 3], is_timed: bool) -> (u32, Option<String>) {
    let scratch = Scratch::new("capture");
    let path = scratch.file("three.pcap");
    write(&path, &times_ns.map(|time_ns| (&[7; 60][..], time_ns)), false);
    let mut replay = StreamReplay::open(&path, 2, 2048, &Reading::default()).unwrap();
    if is_timed {
        replay = replay.by_time(|_, _| ());
    }
    let mut frames = 0;
    while replay.remaining() > 0 {
        if replay.is_ready() {
            replay.write(&mut [0; 60], 0);
            frames += 1;
        }
    }
    (frames, replay.state().counts().error)
}

#[test]
fn a_second_round_by_time_of_frames_of_one_time_is_an_error() {
    let (frames, error) = streamed([9; 3], true);
    assert!(frames == 3 && error.as_ref().is_some_and(|error| error.contains("have no pace")), "{error:?}");
    assert_eq!([streamed([9; 3], false), streamed([9, 9, 11], true)], [(6, None), (6, None)]);
}

/// A classic capture with a record of each length, all of them whole.
fn records_of(lens: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    for len in lens {
        bytes.extend([0; 8]);
        bytes.extend([len.to_le_bytes(), len.to_le_bytes()].concat());
        bytes.resize(bytes.len() + *len as usize, 7);
    }
    bytes
}

#[test]
fn records_that_are_no_frames_are_skipped_and_counted() {
    let scratch = Scratch::new("capture");
    let path = scratch.file("odd.pcap");
    let load = |lens: &[u32]| {
        std::fs::write(&path, records_of(lens)).unwrap();
        Capture::load(&path, u64::MAX, &Reading::default())
    };
    let capture = load(&[0, 60, 0, LENGTH_BYTES_MAX, LENGTH_BYTES_MAX + 1, 0, 61]).unwrap();
    assert_eq!((capture.len(), capture.longest_bytes()), (3, LENGTH_BYTES_MAX));
    assert_eq!((0..3).map(|at| capture.frame(at).bytes.len()).collect::<Vec<_>>(), [60, 262_143, 61]);
    assert_eq!(capture.skipped(), Skipped { empty: 3, too_long: 1, ..Skipped::default() });
    assert_eq!((capture.skipped().total(), load(&[60]).unwrap().skipped()), (4, Skipped::default()));
    let error = load(&[0, LENGTH_BYTES_MAX + 1]).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "none of its 2 records can be sent: each is empty, longer than any frame, or of another link type or direction; --mac SRC,DST gives addresses to cooked, raw IP and loopback packets"
        ),
        "{error}"
    );
}

fn frame(host: u8) -> Vec<u8> {
    let mut frame = vec![host; 12];
    frame.extend([0x08, 0x06]);
    frame
}

fn all(mut replay: Replay) -> Vec<(Vec<u8>, u64)> {
    let mut frames = Vec::new();
    while replay.remaining() > 0 {
        let time_ns = replay.position(0).time_ns;
        let mut bytes = vec![0; replay.len_bytes() as usize];
        replay.write(&mut bytes, 0);
        frames.push((bytes, time_ns));
    }
    frames
}

#[test]
fn one_sender_goes_through_it_again_and_again() {
    let capture = Arc::new(capture_of(&[(b"one", 100), (b"three", 110)]));
    let replay = Split::new(capture, 1, Order::All).replays(2, u64::MAX).remove(0);
    let position = replay.position(3);
    assert_eq!(position, Position { packets: 3, bytes: 11, time_ns: 30 });
    let frames = all(replay);
    let times: Vec<u64> = frames.iter().map(|frame| frame.1).collect();
    assert_eq!((frames.len(), &frames[2].0[..], times), (4, &b"one"[..], vec![0, 10, 20, 30]));
}

#[test]
fn senders_share_the_first_packets_of_all_rounds() {
    let frames: Vec<Vec<u8>> = (0..60).map(|n| [frame(n % 10), vec![n]].concat()).collect();
    let places: Vec<(&[u8], u64)> = frames.iter().map(|frame| (&frame[..], 0)).collect();
    let split = Split::new(Arc::new(capture_of(&places)), 3, Order::Band);
    for (rounds, packets, sent) in [(1, 7, 7), (1, 61, 60), (u64::MAX, 137, 137), (3, 137, 137)] {
        let mut numbers = [0; 60];
        let parts = split.replays(rounds, packets).into_iter().flat_map(all);
        parts.for_each(|(bytes, _)| numbers[usize::from(bytes[14])] += 1);
        let want: Vec<u64> = (0..60).map(|place| sent / 60 + u64::from(place < sent % 60)).collect();
        assert_eq!(numbers[..], want, "{rounds} rounds, {packets} packets");
    }
}

#[test]
fn senders_share_by_flow_and_keep_the_order() {
    let frames: Vec<Vec<u8>> = (0..60).map(|n| [frame(n % 10), vec![n]].concat()).collect();
    let places: Vec<(&[u8], u64)> = frames.iter().map(|frame| (&frame[..], 0)).collect();
    let split = Split::new(Arc::new(capture_of(&places)), 3, Order::Band);
    let mut total = 0;
    for replay in split.replays(1, u64::MAX) {
        let frames = all(replay);
        total += frames.len();
        assert!(frames.is_sorted_by_key(|frame| frame.0[14]));
        for host in 0..10 {
            let count = frames.iter().filter(|frame| frame.0[0] == host).count();
            assert!(count == 0 || count == 6, "flow {host} is split: {count}");
        }
    }
    assert_eq!(total, 60);
}

#[test]
fn a_sender_without_a_flow_has_nothing_to_do() {
    let capture = Arc::new(capture_of(&[(b"one flow only", 0)]));
    let ends: Vec<u64> = Split::new(capture, 8, Order::All)
        .replays(u64::MAX, u64::MAX)
        .iter()
        .map(Source::remaining)
        .filter(|&n| n > 0)
        .collect();
    assert_eq!(ends, [u64::MAX]);
}

#[test]
fn flows_spread_over_senders() {
    let spec = GeneratorSpec { flows: 256, ..GeneratorSpec::default() };
    let generator = &spec.generators().unwrap()[0];
    let frames: Vec<[u8; 60]> = (0..256)
        .map(|flow| {
            let mut frame = [0; 60];
            generator.write_packet(&mut frame, flow, 0);
            frame
        })
        .collect();
    let frames: Vec<(&[u8], u64)> = frames.iter().map(|frame| (&frame[..], 0)).collect();
    let split = Split::new(Arc::new(capture_of(&frames)), 4, Order::All);
    let counts: Vec<u64> = split.replays(1, u64::MAX).iter().map(Source::remaining).collect();
    assert!(counts.iter().all(|&count| count > 32), "{counts:?}");
}

const FRAMES: [&[u8]; 4] =
    [b"frame of host one", b"frame of host two", b"frame of host three", b"the last frame"];

fn check(senders: usize, received: &[&[u8]]) -> Findings {
    let capture = capture_of(&FRAMES.map(|frame| (frame, 0)));
    let mut check = Split::new(Arc::new(capture), senders, Order::All).check();
    received.iter().for_each(|frame| check.check(frame, Arrival::default()));
    check.findings().clone()
}

#[test]
fn the_capture_in_its_order_is_right_round_after_round() {
    let findings = check(1, &[FRAMES, FRAMES].concat());
    assert_eq!((findings.packets, findings.bytes, findings.errors), (8, 2 * 67, 0));
}

#[test]
fn lost_frames_are_counted_and_the_rest_is_right() {
    let findings = check(1, &[FRAMES[0], FRAMES[3], FRAMES[0]]);
    assert_eq!(findings.errors, 2);
    assert_eq!(findings.first_error.as_deref(), Some("sender 0: 2 lost before frame 4 of the capture"));
}

#[test]
fn a_changed_byte_is_found() {
    let findings = check(1, &[FRAMES[0], b"frame of host tvo", FRAMES[2], FRAMES[3]]);
    assert_eq!(findings.errors, 1);
    assert_eq!(
        findings.first_error.as_deref(),
        Some("sender 0: frame 2 of the capture differs from byte 15 on")
    );
}

#[test]
fn senders_may_interleave_but_not_reorder() {
    let capture = Arc::new(capture_of(&FRAMES.map(|frame| (frame, 0))));
    let replays = Split::new(capture, 2, Order::All).replays(1, u64::MAX).into_iter();
    let by_sender: Vec<Vec<(Vec<u8>, u64)>> = replays.map(all).collect();
    assert!(by_sender.iter().any(|part| part.len() > 1));
    let mut frames: Vec<&[u8]> = by_sender.iter().flatten().map(|frame| &frame.0[..]).collect();
    assert_eq!(check(2, &frames).errors, 0);
    frames.reverse();
    assert!(check(2, &frames).errors > 0);
}
