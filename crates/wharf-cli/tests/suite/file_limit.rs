//! Runs under a limit on the size of files (`ulimit -f`): the pool's memory needs no file, and a file that
//! comes to the limit is an error of one line, not the end of the process.

use crate::common::{Done, Folder, Running, SAMPLE, command, finish, text};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs `wharf` with a limit of `kib` on each file that it writes.
fn limited(kib: u32, args: &[&str]) -> Done {
    let script = format!("ulimit -f {kib}; exec \"$0\" \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_wharf")]).args(args);
    finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// True for the one line of an error that names the limit.
fn names_limit(line: &str, kib: u32) -> bool {
    let limit = format!("the limit on the size of files is {} bytes (`ulimit -f`, `LimitFSIZE=`", kib * 1024);
    line.contains("File too large") && line.matches(&limit).count() == 1
}

#[test]
fn runs_that_write_no_file_work_under_any_limit() {
    let from = format!("pcap:{SAMPLE}");
    let runs: [&[&str]; 6] = [
        &["send", "--size", "60", "--count", "1000", "--to", "null"],
        &["send", "--pcap", SAMPLE, "--loop", "2"],
        &["send", "--size", "9000", "--count", "100", "--senders", "2"],
        &["receive", "--from", &from],
        &["forward", &from, "null"],
        &["doctor", "null"],
    ];
    for args in runs {
        for kib in [0, 1, 4000] {
            let done = limited(kib, args);
            assert_eq!(done.code, Some(0), "{kib}: {args:?}: {done:?}");
            assert!(!done.stdout.is_empty(), "{kib}: {args:?}: {done:?}");
        }
    }
}

/// Records of a capture, all of them whole.
fn records(path: &str) -> u64 {
    let file = std::fs::read(path).unwrap();
    let (mut rest, mut count) = (&file[24..], 0);
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        (rest, count) = (&rest[16 + len..], count + 1);
    }
    count
}

#[test]
fn a_capture_that_comes_to_the_limit_ends_with_its_summary_and_whole_records() {
    let folder = Folder::new();
    let (out, big) = (text(&folder.path("out.pcap")), text(&folder.path("big.pcap")));
    let to = format!("pcap:{out}");
    // A run that takes longer on a busy machine tells of failing packets meanwhile: `-q` leaves the error alone.
    let made = ["send", "--size", "1000", "--count", "5000", "--json", "-q", "--to"];
    let done = limited(200, &[&made[..], &[&to]].concat());
    let report = done.json();
    let [packets, sent, failed] = ["packets", "sent", "failed"].map(|key| report[key].as_u64().unwrap());
    assert_eq!((done.code, packets), (Some(1), sent + failed), "{done:?}");
    assert!(names_limit(done.line(), 200), "{done:?}");
    assert!(records(&out) > 100, "{}", records(&out));

    assert_eq!(
        finish(command(&[&made[..], &[&format!("pcap:{big}")]].concat()).spawn().unwrap()).code,
        Some(0)
    );
    let from = format!("pcap:{big}");
    let done = limited(200, &["receive", "--from", &from, "--json", "-q", "--pcap", &out]);
    assert!(done.code == Some(1) && names_limit(done.line(), 200), "{done:?}");
    assert!(done.json()["packets"].as_u64() >= Some(records(&out)), "{done:?}");
    // Drops are no failure of a forwarder, but it says why.
    let done = limited(200, &["forward", &from, &to, "--json"]);
    let direction: &Value = &done.json()["directions"][0];
    assert!(done.stderr.lines().any(|line| names_limit(line, 200)), "{done:?}");
    assert_eq!(direction["received_packets"], direction["packets"], "{done:?}");
    assert!(direction["drops"]["by_reason"]["write-error"].as_u64() > Some(0), "{done:?}");
}

#[test]
fn files_beside_the_packets_name_the_limit_and_the_run_goes_on() {
    let folder = Folder::new();
    let (file, from) = (text(&folder.path("file")), format!("pcap:{SAMPLE}"));
    let paced = ["send", "--size", "60", "--rate", "10kpps", "--to", "null", "--seconds", "0.5", "--json"];
    // Its counters, in lines.
    let stats = ["--stats", "0.01", "--stats-file", &file];
    let done = limited(2, &[&paced[..], &stats].concat());
    assert!(done.json()["sent"].as_u64() > Some(0), "{done:?}");
    assert!(
        done.stderr.lines().any(|line| line.contains("--stats-file") && names_limit(line, 2)),
        "{done:?}"
    );
    // A page, a trace and a mirror; without the note on pauses that a busy machine makes.
    let paced = [&paced[..], &["-q"]].concat();
    let page = text(&folder.path("page"));
    let done = limited(2, &[&paced[..], &["--report", &page]].concat());
    assert!(done.code == Some(1) && names_limit(done.line(), 2), "{done:?}");
    assert!(done.json()["sent"].as_u64() > Some(0), "{done:?}");
    let done = limited(20, &[&paced[..], &["--trace", &file]].concat());
    assert!(done.code == Some(1) && names_limit(done.line(), 20), "{done:?}");
    assert!(done.json()["sent"].as_u64() > Some(0), "{done:?}");
    let done = limited(20, &["forward", &from, "null", "--json", "-q", "--mirror", &file]);
    assert!(done.code == Some(1) && names_limit(done.line(), 20), "{done:?}");
    assert_eq!(done.json()["directions"][0]["sent"], 2200, "{done:?}");
}

#[test]
fn memory_that_a_peer_is_to_map_is_an_error_that_names_the_limit() {
    let folder = Folder::new();
    let socket = text(&folder.path("socket"));
    let mut back_end = Running::start(&["receive", "--from", &format!("vhost-user:{socket}")]);
    back_end.until_said("listening on");
    let to = format!("virtio-user:{socket}");
    let done = limited(100, &["send", "--size", "60", "--count", "10", "--to", &to]);
    drop(back_end);
    assert!(done.code == Some(1) && names_limit(done.line(), 100), "{done:?}");
    assert!(done.line().contains("virtio-user:") && done.line().contains("memory"), "{done:?}");
}
