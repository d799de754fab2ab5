//! Captures with records that no frame can carry, and with frames of any length: all that can be read is read, and the rest
//! is counted.

use crate::common::{Done, Folder, text, wharf};
use serde_json::{Value, json};

/// The longest frame, and the longest record of a capture.
const FRAME_BYTES_MAX: u32 = 262_143;
const RECORD_BYTES_MAX: u32 = 262_144;
/// Records of length 0, a jumbo frame, frames beyond 64 KiB, and one record that is longer than any frame.
const LENS: [u32; 10] = [60, 0, 9014, 65_024, 65_025, 0, 200_000, FRAME_BYTES_MAX, RECORD_BYTES_MAX, 61];
const FRAMES: u64 = 7;
const BYTES: u64 = 60 + 9014 + 65_024 + 65_025 + 200_000 + 262_143 + 61;

/// An Ethernet frame of an unknown protocol, or its beginning; or nothing.
fn frame(len: u32) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    bytes.resize(bytes.len() + len as usize, len as u8);
    bytes.truncate(len as usize);
    bytes
}

fn pcap(lens: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([RECORD_BYTES_MAX.to_le_bytes(), 1u32.to_le_bytes()].concat());
    for (at, &len) in lens.iter().enumerate() {
        [at as u32, 0, len, len].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.extend(frame(len));
    }
    bytes
}

/// Appends a block of a pcapng file.
fn block(file: &mut Vec<u8>, kind: u32, fields: &[u32], data: &[u8]) {
    let mut body: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    file.extend([&kind.to_le_bytes()[..], &len, &body, &len].concat());
}

fn pcapng(lens: &[u32]) -> Vec<u8> {
    let mut file = Vec::new();
    block(&mut file, 0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[]);
    block(&mut file, 1, &[1, 0], &[]);
    for (at, &len) in lens.iter().enumerate() {
        block(&mut file, 6, &[0, 0, at as u32 * 1000, len, len], &frame(len));
    }
    file
}

/// The same records in both formats.
fn files(folder: &Folder, lens: &[u32]) -> [String; 2] {
    [folder.file("odd.pcap", &pcap(lens)), folder.file("odd.pcapng", &pcapng(lens))]
}

fn at<'a>(report: &'a Value, place: &str) -> &'a Value {
    report.pointer(place).unwrap_or_else(|| panic!("no {place}: {report}"))
}

/// A run that went on to the end, and says that one record is longer than any frame.
#[track_caller]
fn but_for_the_longest(done: &Done) -> Value {
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("too-long"), "{done:?}");
    done.json()
}

#[test]
fn send_replays_every_frame_and_counts_the_other_records() {
    let folder = Folder::new();
    for path in files(&folder, &LENS) {
        for more in [&["--loop", "2"][..], &["--loop", "2", "--senders", "3", "--to", "null"]] {
            let args = [&["send", "--json", "--pcap", &path], more].concat();
            let done = wharf(&args);
            let report = but_for_the_longest(&done);
            assert!(done.stderr.contains("2 of 10 records have length 0"), "{done:?}");
            assert_eq!(
                (at(&report, "/sent"), at(&report, "/bytes")),
                (&json!(2 * FRAMES), &json!(2 * BYTES))
            );
            assert_eq!(at(&report, "/skipped"), &json!({ "empty": 2, "too-long": 1 }));
            assert_eq!((at(&report, "/pool/out"), at(&report, "/failed")), (&json!(0), &json!(0)));
            assert!(at(&report, "/pool/frames").as_u64() < Some(4096), "no more than 256 MiB");
            assert!(report["received"].is_null() || report["received"]["errors"] == 0, "{report}");
        }
    }
}

#[test]
fn records_of_length_0_alone_are_no_failure() {
    let folder = Folder::new();
    for path in files(&folder, &[0, 60, 0, 70]) {
        let done = wharf(&["send", "--loop", "1", "--pcap", &path]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stdout.contains("records not sent") && done.stdout.contains("empty 2"), "{done:?}");
        let done = wharf(&["receive", "--from", &format!("pcap:{path}")]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(
            done.stdout.contains("  empty") && done.stdout.contains("Left out 2 packets (50 %)"),
            "{done:?}"
        );
    }
    for path in files(&folder, &[0, 0]) {
        let done = wharf(&["send", "--loop", "1", "--pcap", &path]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.line().contains("none of its 2 records can be sent"), "{done:?}");
    }
}

#[test]
fn receive_and_forward_go_on_behind_records_that_are_no_frames() {
    let (folder, drops) = (Folder::new(), json!({ "total": 3, "by_reason": { "empty": 2, "too-long": 1 } }));
    for path in files(&folder, &LENS) {
        let (from, copy) = (format!("pcap:{path}"), text(&folder.path("copy.pcap")));
        let report = but_for_the_longest(&wharf(&["receive", "--json", "--from", &from, "--pcap", &copy]));
        assert_eq!((at(&report, "/packets"), at(&report, "/bytes")), (&json!(FRAMES), &json!(BYTES)));
        assert_eq!(at(&report, "/drops"), &drops);
        // What was written is a capture of all frames, which is read without a fault.
        let again = wharf(&["receive", "--json", "--from", &format!("pcap:{copy}")]);
        assert_eq!((again.code, at(&again.json(), "/bytes")), (Some(0), &json!(BYTES)));

        let done = wharf(&["forward", "--json", &from, &format!("pcap:{copy}")]);
        assert_eq!(done.code, Some(0), "drops alone are no failure: {done:?}");
        let report = done.json();
        let direction = at(&report, "/directions/0");
        assert_eq!((at(direction, "/sent"), at(direction, "/bytes")), (&json!(FRAMES), &json!(BYTES)));
        assert_eq!(at(direction, "/drops"), &drops);
        let again = wharf(&["receive", "--json", "--from", &format!("pcap:{copy}")]);
        assert_eq!((again.code, at(&again.json(), "/bytes")), (Some(0), &json!(BYTES)));
    }
}

#[test]
fn memory_that_is_asked_for_is_taken_or_is_an_error_that_names_the_size() {
    let folder = Folder::new();
    for path in files(&folder, &[60, 70_000]) {
        let send =
            |more: &[&str]| wharf(&[&["send", "--json", "--loop", "1", "--pcap", &path], more].concat());
        let done = send(&["--frame-bytes", "64k"]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
        assert!(done.line().contains("--frame-bytes 70528 would do"), "{done:?}");
        assert_eq!(at(&send(&["--frame-bytes", "70528"]).good_json(), "/sent"), &json!(2));
        assert_eq!(at(&send(&["--frames", "70"]).good_json(), "/pool/frames"), &json!(70));
        assert_eq!(at(&send(&[]).good_json(), "/pool/frames"), &json!((256 << 20) / 70_528));
    }
    let short = folder.file("short.pcap", &pcap(&[60, 1514]));
    let report = wharf(&["send", "--json", "--loop", "1", "--pcap", &short]).good_json();
    assert_eq!(at(&report, "/pool/frames"), &json!(4096));
}
