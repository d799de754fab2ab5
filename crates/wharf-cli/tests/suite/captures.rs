//! Captures that are none: one line that names the file and the place, exit code 1, and no wait.

use crate::common::{Folder, SAMPLE, finish, text, wharf};
use std::process::{Command, Stdio};

/// A good header: little-endian, microseconds, Ethernet.
fn header(snap_len: u32) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(snap_len.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes
}

/// A record that says so many bytes, and has `present` of them.
fn record(captured: u32, wire: u32, present: usize) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(captured.to_le_bytes());
    bytes.extend(wire.to_le_bytes());
    bytes.resize(16 + present, 7);
    bytes
}

#[track_caller]
fn assert_refused(path: &str, what: &str) {
    let done = wharf(&["send", "--pcap", path, "--json"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.line().contains(path) && done.line().contains(what), "{what}: {done:?}");
}

#[test]
fn malformed_files_are_refused_with_the_place() {
    let folder = Folder::new();
    let good = [header(65535), record(60, 60, 60)].concat();
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("empty", vec![], "byte 0: the file is empty"),
        ("magic", b"GET / HTTP/1.1 and more of it".to_vec(), "byte 0: not a pcap file"),
        ("header", header(65535)[..23].to_vec(), "byte 0: file header cut short"),
        ("no-record", header(65535), "no packet"),
        ("huge", [header(0), record(u32::MAX, u32::MAX, 60)].concat(), "byte 24: record of 4294967295 bytes"),
        ("over-wire", [header(0), record(60, 59, 60)].concat(), "byte 24: record of 60 bytes"),
        (
            "pcapng",
            [&[0x0a, 0x0d, 0x0d, 0x0a], &[0; 40][..]].concat(),
            "byte 0: section without a byte order",
        ),
    ];
    for (name, bytes, what) in cases {
        assert_refused(&folder.file(name, &bytes), what);
    }
    // A record may be longer than the snap length, and a version 2.5 is read as a 2.4 is.
    let mut newer = [header(59), record(60, 60, 60)].concat();
    newer[6] = 5;
    for bytes in [good, newer] {
        let done = wharf(&["send", "--json", "--loop", "2", "--pcap", &folder.file("good", &bytes)]);
        assert_eq!(done.good_json()["packets"], 2);
    }
}

#[test]
fn a_sample_cut_before_the_end_of_its_first_frame_is_refused() {
    let (folder, sample) = (Folder::new(), std::fs::read(SAMPLE).unwrap());
    for len in [1, 4, 24 + 5, 24 + 16 + 3] {
        let path = folder.file("cut", &sample[..len]);
        assert_refused(&path, "byte ");
    }
}

#[test]
fn a_file_that_is_cut_or_damaged_is_sent_up_to_there_round_after_round() {
    let folder = Folder::new();
    let good = [header(65535), record(60, 60, 60), record(70, 70, 70)].concat();
    let cases = [
        ([1, 2, 3].to_vec(), "byte 186: record header cut short (3 of 16 bytes)"),
        (record(60, 60, 59), "byte 186: record cut short (59 of 60 captured bytes)"),
        ([record(60, 59, 60), record(60, 60, 60)].concat(), "byte 186: record of 60 bytes is longer than"),
    ];
    for (rest, what) in cases {
        let path = folder.file("cut.pcap", &[&good[..], &rest].concat());
        for (rounds, more) in [("1", &[][..]), ("3", &[]), ("3", &["--senders", "2"])] {
            let args = ["send", "--pcap", &path, "--to", "null", "--json", "--loop", rounds];
            let done = wharf(&[&args[..], more].concat());
            let sent = 2 * rounds.parse::<u64>().unwrap();
            assert_eq!((done.code, &done.json()["sent"]), (Some(1), &sent.into()), "{done:?}");
            assert!(done.line().contains(&format!("cut.pcap: {what}")), "{done:?}");
        }
    }
    // A comparison of two runs has the fault once, too.
    let path = folder.file("cut.pcap", &[&good[..], &[0]].concat());
    let done = wharf(&["send", "--pcap", &path, "--seconds", "0.1", "--json"]);
    assert!(done.code == Some(1) && done.json()["compare"].is_object(), "{done:?}");
    assert_eq!(done.line().matches("byte 186").count(), 1, "{done:?}");
}

#[test]
fn no_directories_or_character_devices_are_opened() {
    let folder = Folder::new();
    assert_refused(&text(&folder.path("")), "is a directory");
    assert_refused(&text(&folder.path("nothing")), "cannot open");
    assert_refused("/dev/zero", "is a character device");
}

#[test]
fn a_file_beyond_the_limit_is_refused_before_it_is_read() {
    let folder = Folder::new();
    let path = folder.file("large", &header(65535));
    std::fs::File::options().write(true).open(&path).unwrap().set_len((256 << 20) + 1).unwrap();
    assert_refused(&path, "256 MiB");
}

#[test]
fn record_cut_when_captured_is_sent_as_it_is_with_a_message() {
    let folder = Folder::new();
    let path = folder.file("snapped", &[header(65535), record(60, 1514, 60)].concat());
    let done = wharf(&["send", "--pcap", &path, "--loop", "1", "--json"]);
    assert_eq!((done.code, &done.json()["bytes"]), (Some(0), &60.into()));
    assert!(done.line().contains("1 of 1 frames were cut short"), "{done:?}");
}

/// Runs `wharf` where no file may become longer than some hundred KiB, as on a disk that fills up: writes come short, then fail.
/// Its memory is a file, too.
fn on_a_full_disk(args: &[&str]) -> crate::common::Done {
    let limited = "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_wharf")]).args(args).args(["--frames", "64"]);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(shell.spawn().unwrap())
}

/// Packets of a capture that is whole to its end.
#[track_caller]
fn packets_in(path: &str) -> u64 {
    let read = wharf(&["receive", "--from", &format!("pcap:{path}"), "--json"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    read.json()["packets"].as_u64().unwrap()
}

#[test]
fn full_disk_leaves_whole_packets_and_reports_the_missing() {
    let folder = Folder::new();
    let out = text(&folder.path("out.pcap"));
    let done = on_a_full_disk(&["receive", "--from", &format!("pcap:{SAMPLE}"), "--pcap", &out]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("cannot write: File too large"), "{done:?}");
    assert!((100..2200).contains(&packets_in(&out)));
    for order in ["le", "be"] {
        let to = format!("pcap:{out},order={order}");
        let done = on_a_full_disk(&["send", "--pcap", SAMPLE, "--loop", "1", "--to", &to, "--json"]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let (line, sent) = (done.line(), done.json()["sent"].as_u64().unwrap());
        assert!(line.contains("cannot write, without "), "{line}");
        assert_eq!(packets_in(&out), sent, "{line}");
    }
}
