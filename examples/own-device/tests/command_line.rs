//! The commands, with the device and the discipline of this program.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program with `words`, split at spaces.
fn run(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_own-device")).args(words.split(' ')).output().unwrap()
}

/// The same with `--json`, which must end with `code`.
fn json(words: &str, code: i32) -> Value {
    let done = run(&format!("{words} --json"));
    assert_eq!(done.status.code(), Some(code), "{words}: {done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The frames of a capture with microseconds, little endian, as lines of digits.
fn lines_of(capture: &[u8]) -> String {
    let mut lines = String::new();
    let mut rest = &capture[24..];
    while let [_, _, _, _, _, _, _, _, a, b, c, d, _, _, _, _, frames @ ..] = rest {
        let (frame, after) = frames.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
        frame.iter().for_each(|byte| lines += &format!("{byte:02x}"));
        lines.push('\n');
        rest = after;
    }
    lines
}

#[test]
fn all_frames_of_a_capture_are_in_the_file_and_accounted_for() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sample.pcap");
    let wanted = lines_of(&std::fs::read(sample).unwrap());
    assert!(wanted.lines().count() > 1000);

    let hex = file("sent.txt");
    let sent = json(&format!("send --pcap {sample} --to hex:{}", hex.display()), 0);
    let (packets, none) = (wanted.lines().count().into(), 0.into());
    assert_eq!((&sent["packets"], &sent["sent"], &sent["failed"]), (&packets, &packets, &none));
    assert_eq!((&sent["pool"]["out"], &sent["doorbells"]), (&none, &sent["batches"]), "{sent}");
    assert!(std::fs::read_to_string(&hex).unwrap() == wanted);

    let again = file("again.txt");
    let forwarded = json(&format!("forward pcap:{sample} hex:{}", again.display()), 0);
    assert_eq!(forwarded["directions"][0]["sent"], packets);
    assert!(std::fs::read_to_string(&again).unwrap() == wanted);
}

#[test]
fn a_file_that_cannot_be_written_fails_every_frame_by_reason() {
    let sent = json("send --size 60 --count 500 --to hex:/dev/full", 1);
    assert_eq!(
        (&sent["sent"], &sent["drops"]["by_reason"]["write-error"]),
        (&0.into(), &500.into()),
        "{sent}"
    );
    assert_eq!(sent["pool"]["out"], 0);
}

#[test]
fn every_tenth_packet_is_dropped_and_counted_by_reason() {
    let hex = file("dropped.txt");
    for device in ["null", &format!("hex:{}", hex.display())] {
        let sent = json(&format!("send --size 60 --count 1000 --qdisc drop_nth --to {device}"), 0);
        assert_eq!((&sent["sent"], &sent["drops"]["by_reason"]["drop-nth"]), (&900.into(), &100.into()));
        assert_eq!((&sent["qdisc"]["name"], &sent["pool"]["out"]), (&"drop_nth".into(), &0.into()));
    }
    assert_eq!(std::fs::read_to_string(&hex).unwrap().lines().count(), 900);
}

#[test]
fn both_are_listed_and_wrong_uses_are_told_of() {
    let listed = json("devices", 0);
    let kinds = listed["devices"].as_array().unwrap();
    assert!(kinds.iter().any(|kind| kind["name"] == "hex" && kind["ready"] == true));
    let help = String::from_utf8(run("send --help").stdout).unwrap();
    assert!(help.contains("drop_nth[:n=N]"), "{help}");
    for (words, why) in [
        ("send --count 1 --to hex", "which file? hex:FILE"),
        ("send --count 1 --to hex:x,case=upper", r#"unknown key "case""#),
        ("receive --from hex:x", "it only sends"),
        ("send --count 1 --to hexx:x", "there are null, "),
        ("send --count 1 --qdisc drop_nth:n=0", "n: 0 cannot be: 1 to 4g"),
    ] {
        let done = run(words);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{words}: {said}");
    }
}
