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

#[test]
fn frames_sent_arrive_and_are_forwarded() {
    let (hex, again) = (file("sent.txt"), file("again.txt"));
    let sent = json(&format!("send --size 60 --count 500 --to hex:{}", hex.display()), 0);
    assert_eq!((&sent["packets"], &sent["failed"]), (&500.into(), &0.into()));
    let text = std::fs::read_to_string(&hex).unwrap();
    assert!(text.lines().count() == 500 && text.lines().all(|line| line.len() == 120));

    let received = json(&format!("receive --from hex:{}", hex.display()), 0);
    assert_eq!((&received["packets"], &received["lost"]), (&500.into(), &0.into()));

    let forwarded = json(&format!("forward hex:{} hex:{},case=upper", hex.display(), again.display()), 0);
    assert_eq!(forwarded["directions"][0]["sent"], 500);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), text.to_uppercase());
}

#[test]
fn every_tenth_packet_is_dropped_and_counted_by_reason() {
    let hex = format!("hex:{}", file("dropped.txt").display());
    for device in ["null", &hex] {
        let sent = json(&format!("send --size 60 --count 1000 --qdisc drop_nth --to {device}"), 0);
        assert_eq!((&sent["sent"], &sent["drops"]["by_reason"]["drop-nth"]), (&900.into(), &100.into()));
        assert_eq!((&sent["qdisc"]["name"], &sent["pool"]["out"]), (&"drop_nth".into(), &0.into()));
    }
    // The receiver sees gaps in the numbers. Exit code 1: packets were lost.
    let received = json(&format!("receive --from {hex}"), 1);
    assert_eq!((&received["packets"], &received["lost"]), (&900.into(), &99.into()));
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
        ("send --count 1 --to hex:x,case=mixed", r#"case: "mixed" is none of lower, upper"#),
        ("receive --from hex:x,case=upper", r#"unknown key "case""#),
        ("send --count 1 --to hexx:x", "there are null, wire, pcap"),
        ("send --count 1 --qdisc drop_nth:n=0", "n: 0 cannot be: 1 to 4g"),
    ] {
        let done = run(words);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{words}: {said}");
    }
}
