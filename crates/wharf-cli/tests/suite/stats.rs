//! The counters of a run on SIGUSR1, and at an interval.

use crate::common::show::{until_moved, until_path, until_shown};
use crate::common::{Done, Folder, Running, SAMPLE, command, eventually, finish, signal, text, wharf};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

/// The JSON objects of one line: on standard output at an interval, on standard error when asked for by a signal.
fn objects(done: &Done) -> Vec<Value> {
    let lines = done.stderr.lines().chain(done.stdout.lines()).filter(|line| line.starts_with("{\""));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {done:?}"))).collect()
}

const SEND: [&str; 9] = ["send", "--size", "60", "--rate", "10kpps", "--to", "null", "--seconds", "1h"];

/// A line that is an object: the counters as JSON.
fn is_object(line: &str) -> bool {
    line.starts_with("{\"")
}

#[test]
fn signals_print_the_counters_and_the_run_goes_on() {
    for json in [true, false] {
        let folder = Folder::new();
        let control = folder.path("control");
        let more = [if json { "--json" } else { "--bql=on" }, "--control", &text(&control)];
        let mut run = Running::start(&[&SEND[..], &more].concat());
        until_moved(&control, 1);
        for name in ["USR2", "USR1"] {
            run.signal(name);
        }
        run.until_lines(1, |line| if json { is_object(line) } else { line.starts_with("frames in use ") });
        let now = until_path(&control, |_| true)["sent"].as_u64().unwrap();
        until_moved(&control, now + 1);
        let done = run.end();
        assert_eq!(done.code, Some(0), "{done:?}");
        if json {
            let [shown] = &objects(&done)[..] else { panic!("one object: {done:?}") };
            let (sent, all) = (shown["paths"][0]["sent"].as_u64(), done.json()["sent"].as_u64());
            assert!(sent > Some(0) && sent < all, "{shown}");
        } else {
            for row in ["wharf send, process", "\nsent ", "\nbacklog ", "\nframes in use "] {
                assert!(done.stderr.contains(row), "{row}: {done:?}");
            }
            assert!(done.stdout.contains("sent"), "{done:?}");
        }
    }
}

#[test]
fn lines_at_an_interval_have_rates_and_the_last_one_the_counters_of_the_summary() {
    let mut run = Running::start(&[&SEND[..], &["--stats", "0.1", "--json"]].concat());
    let is_open = |line: &str| is_object(line) && line.contains("\"sent\":");
    run.until_lines(4, is_open);
    let done = run.end();
    let (lines, report) = (objects(&done), done.json());
    assert!(done.news().is_empty(), "{done:?}");
    for (at, line) in lines[..4].iter().enumerate() {
        assert!(line["time_s"].as_f64() >= Some(0.1 * (at + 1) as f64), "{at}: {line}");
    }
    let [.., before, last] = &lines[..] else { panic!("{lines:?}") };
    let path = &last["paths"][0];
    for key in ["packets", "bytes", "sent", "failed", "batches", "doorbells", "requeues"] {
        assert_eq!(path[key], report[key], "{key}");
    }
    let (now, then) = (&last["time_s"], &before["time_s"]);
    let seconds = now.as_f64().unwrap() - then.as_f64().unwrap();
    let sent = path["sent"].as_f64().unwrap() - before["paths"][0]["sent"].as_f64().unwrap();
    let rate = path["rates"]["sent_pps"].as_f64().unwrap();
    assert!((rate - sent / seconds).abs() <= 0.01 * rate + 1.0, "{rate}: {sent} in {seconds} s");
    let mut run = Running::start(&[&SEND[..], &["--stats", "0.1"]].concat());
    run.until_lines(2, |line| line.contains("pps"));
    let done = run.end();
    let lines = done.news();
    let is_known = |line: &&str| line.contains("pps") || line.ends_with("the devices are not open yet");
    assert!(lines.iter().all(|line| line.starts_with("wharf: ") && is_known(line)), "{done:?}");
    assert!(lines.len() > 2, "one more at the end: {done:?}");
}

/// A run that compares makes two, of which the summary is that of the first: a line of the second says so.
#[test]
fn lines_of_a_second_run_and_of_a_receiver_are_those_of_the_summary() {
    let folder = Folder::new();
    let args = ["send", "--size", "60", "--seconds", "0.5", "--stats", "0.02", "--json"];
    let page = text(&folder.path("page"));
    let done = wharf(&[&args[..], &["--report", &page, "--qdisc", "prio"]].concat());
    let (lines, report) = (objects(&done), done.json());
    assert!(!done.stderr.contains("panicked"), "{done:?}");
    let of_first =
        lines.iter().rfind(|line| !line["paths"][0].is_null() && line["paths"][0]["run"].is_null());
    assert!(of_first.unwrap()["paths"][0]["sent"].as_u64() <= report["sent"].as_u64(), "{lines:?}");
    assert_eq!(lines.last().unwrap()["paths"][0]["run"], 2, "{report}");
    let done = wharf(&["receive", "--from", &format!("pcap:{SAMPLE}"), "--stats", "5", "--json"]);
    let (line, report) = (objects(&done).pop().unwrap(), done.json());
    for key in ["packets", "bytes", "batches"] {
        assert!(report[key].as_u64() > Some(0));
        assert_eq!(line["paths"][0][key], report[key], "{key}");
    }
}

#[test]
fn the_file_of_counters_is_private_and_no_link_is_followed() {
    let folder = Folder::new();
    let file = text(&folder.path("stats"));
    let run = Running::start(&[&SEND[..], &["--stats", "0.01", "--stats-file", &file]].concat());
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually(|| (written().lines().count() >= 3).then_some(()).ok_or_else(written));
    let done = run.end();
    assert_eq!((done.code, &done.news()[..]), (Some(0), &[][..]), "{done:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written = written();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 3 && lines[0]["command"] == "send", "{written}");
    let link = folder.path("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let done = wharf(&[&SEND[..], &["--stats", "0.1", "--stats-file", &text(&link)]].concat());
    assert!(done.code == Some(1) && done.line().contains("--stats-file"), "{done:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    let read = format!("pcap:{SAMPLE}");
    let done = wharf(&["forward", &read, "null", "--stats", "1", "--stats-file", SAMPLE]);
    assert!(done.code == Some(2) && done.line().contains("--stats-file"), "{done:?}");
}

#[test]
fn forwarder_shows_each_direction_with_drops_by_reason() {
    let done = wharf(&[
        "forward",
        &format!("pcap:{SAMPLE}"),
        "null",
        "--rate",
        "8mbit",
        "--qdisc",
        "fifo:20",
        "--when-full",
        "drop-tail",
        "--stats",
        "100ms",
        "--json",
    ]);
    let (lines, report) = (objects(&done), done.json());
    let (path, direction) = (&lines.last().unwrap()["paths"][0], &report["directions"][0]);
    assert_eq!((&path["path"], &path["received_packets"]), (&"a-b".into(), &direction["received_packets"]));
    assert_eq!(path["drops"], direction["drops"]["by_reason"]);
    assert!(path["drops"]["drop-tail"].as_u64() > Some(0), "{path}");
}

/// A capture with records that the receiving device drops: two of length 0 and one longer than any frame.
fn odd(folder: &Folder) -> String {
    let mut bytes = std::fs::read(SAMPLE).unwrap()[..24].to_vec();
    for len in [60u32, 0, 262_144, 61, 0] {
        [1, 0, len, len].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.resize(bytes.len() + len as usize, 7);
    }
    format!("pcap:{}", folder.file("odd.pcap", &bytes))
}

#[test]
fn the_last_line_has_the_drops_and_the_returned_packets_of_the_summary() {
    let (folder, drops) = (Folder::new(), serde_json::json!({ "empty": 2, "too-long": 1 }));
    let from = odd(&folder);
    let stats = ["--stats", "1h", "--json"];
    let done = wharf(&[&["receive", "--from", &from], &stats[..]].concat());
    let (lines, report) = (objects(&done), done.json());
    assert_eq!((&lines[0]["paths"][0]["drops"], &report["drops"]["by_reason"]), (&drops, &drops), "{done:?}");
    assert_eq!((lines.len(), &lines[0]["paths"][0]["received_packets"]), (1, &2.into()), "{done:?}");
    let done = wharf(&["receive", "--from", &from, "--stats", "1h"]);
    assert!(done.stderr.contains("empty 2, too-long 1"), "{done:?}");
    let done = wharf(&[&["forward", &from, "null"], &stats[..]].concat());
    let (lines, report) = (objects(&done), done.json());
    let by_reason = &report["directions"][0]["drops"]["by_reason"];
    assert_eq!((&lines[0]["paths"][0]["drops"], by_reason), (&drops, &drops), "{done:?}");
    // What waits for room at the end comes back unsent.
    let slow = ["--rate", "8kbit", "--when-full", "wait", "--qdisc", "fifo:20", "--stats", "1h", "--json"];
    let (sample, control) = (format!("pcap:{SAMPLE}"), folder.path("control"));
    let socket = text(&control);
    let run = Running::start(&[&["forward", &sample, "null", "--control", &socket], &slow[..]].concat());
    until_path(&control, |path| path["received_packets"].as_u64() > Some(50));
    let done = run.end();
    let (lines, report) = (objects(&done), done.json());
    let (path, direction) = (&lines[0]["paths"][0], &report["directions"][0]);
    assert!(direction["returned"].as_u64() > Some(20), "{direction}");
    for key in ["received_packets", "packets", "sent", "failed", "returned", "requeues"] {
        assert_eq!(path[key], direction[key], "{key}");
    }
}

#[test]
fn a_reader_that_stalls_holds_up_no_run() {
    let folder = Folder::new();
    let (fifo, control) = (text(&folder.path("fifo")), text(&folder.path("control")));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // No process opens the fifo.
    let sent = |packets: u64| {
        let often = ["--stats", "0.01", "--stats-file", &fifo, "--control", &control];
        let run = Running::start(&[&SEND[..], &often].concat());
        until_moved(Path::new(&control), packets);
        run.end()
    };
    assert_eq!(sent(1000).code, Some(0));
    // A process has it open, and its pipe is full.
    let mut reader = File::options();
    let mut reader = reader.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
    while reader.write(&[b'\n'; 4096]).is_ok() {}
    let done = sent(1000);
    let left_out = |line: &str| line.contains("lines left out");
    assert!(done.code == Some(0) && done.stderr.lines().any(left_out), "{done:?}");
    // Standard output is a pipe that is not read, filled by its first lines: the packets go on, and the summary waits for room.
    let often = ["--stats", "0.01", "--json", "-q", "--control", &control];
    let child = command(&[&SEND[..], &often].concat()).spawn().unwrap();
    until_moved(Path::new(&control), 10_000);
    signal(&child, "INT");
    assert!(finish(child).json()["sent"].as_u64() > Some(0));
}

/// A forwarder whose line of counters is longer than poll(2) has room for: 4096 bytes.
fn forward_six(folder: &Folder, options: &[&str]) -> Child {
    let ports = ["a", "b", "c", "d", "e", "f"].map(|name| format!("vhost-user:{}", text(&folder.path(name))));
    let ports = ports.each_ref().map(String::as_str);
    command(&[&["forward"][..], &ports, options].concat()).spawn().unwrap()
}

/// Waits until what is in the pipe grows no more: the last of its pages is written in part.
fn until_full(pipe: &impl AsFd, write: impl Fn()) {
    let (mut before, mut looks) = (0, 0);
    eventually(|| {
        write();
        sleep(Duration::from_millis(300));
        let now = rustix::io::ioctl_fionread(pipe).unwrap();
        looks = if now == std::mem::replace(&mut before, now) { looks + 1 } else { 1 };
        if now > 30_000 && looks == 3 { Ok(()) } else { Err(now) }
    });
}

#[test]
fn a_reader_that_stalls_within_a_line_holds_up_no_signal() {
    let folder = Folder::new();
    let mut child = forward_six(&folder, &["--stats", "0.01", "--json"]);
    let mut stdout = child.stdout.take().unwrap();
    let mut run = Running::from(child);
    until_full(&stdout, || {});
    for count in 1..4 {
        run.signal("USR1");
        run.until_lines(count, is_object);
    }
    run.signal("INT");
    let mut lines = String::new();
    stdout.read_to_string(&mut lines).unwrap();
    let summary = lines.find("{\n").unwrap();
    assert!(lines[..summary].lines().count() > 3);
    assert!(lines[..summary].lines().any(|line| line.len() > 4096), "poll(2) has room for a line");
    for line in lines[..summary].lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        // The first come before the devices are open.
        assert!([Some(0), Some(6)].contains(&object["paths"].as_array().map(Vec::len)), "{line}");
    }
    assert!(run.finish().stderr.contains("lines left out"));
}

#[test]
fn a_reader_that_stalls_within_a_record_of_the_log_holds_up_no_line_and_gets_whole_records() {
    let folder = Folder::new();
    let file = text(&folder.path("stats"));
    let (lines, socket) = (["--stats", "0.01", "--stats-file", &file], text(&folder.path("control")));
    let mut child = forward_six(&folder, &[&lines[..], &["--log", "json", "--control", &socket]].concat());
    let mut stderr = child.stderr.take().unwrap();
    let run = Running::from(child);
    until_shown(Path::new(&socket), |shown| shown["paths"].as_array().is_some_and(|paths| paths.len() == 6));
    let ask = || {
        (0..20).for_each(|_| {
            run.signal("USR1");
            sleep(Duration::from_millis(10))
        })
    };
    until_full(&stderr, ask);
    let written = || std::fs::read_to_string(&file).unwrap().lines().count();
    let now = written();
    eventually(|| (written() > now + 3).then_some(()).ok_or("no line in the file"));
    run.signal("INT");
    let mut records = String::new();
    stderr.read_to_string(&mut records).unwrap();
    let records: Vec<Value> = records
        .lines()
        .map(|record| serde_json::from_str(record).unwrap_or_else(|error| panic!("{error}: {record}")))
        .collect();
    let says = |words: &str| records.iter().any(|record| record["message"].as_str().unwrap().contains(words));
    assert!(records.len() > 5 && says("lines left out"), "{}", records.len());
    assert_eq!(run.finish().code, Some(0));
}

#[test]
fn counters_are_notes_of_the_log_one_record_each() {
    let folder = Folder::new();
    let control = folder.path("control");
    let log = ["--stats", "0.05", "--log", "json", "--control", &text(&control)];
    let mut run = Running::start(&[&SEND[..], &log].concat());
    until_moved(&control, 1);
    let is_snapshot = |record: &&Value| record["message"].as_str().unwrap().starts_with('{');
    run.signal("USR1");
    run.until_lines(4, is_object);
    eventually(|| {
        let said = run.said()[1].clone();
        said.contains("\"message\":\"{").then_some(()).ok_or(said)
    });
    let done = run.end();
    let records = objects(&done);
    assert_eq!(records.len(), done.stderr.lines().count(), "{done:?}");
    assert!(records.iter().all(|record| record["level"] == "INFO"), "{done:?}");
    assert_eq!(records.iter().filter(is_snapshot).count(), 1, "{done:?}");
}

#[test]
fn standard_output_is_no_file_of_counters() {
    let done = wharf(&[&SEND[..], &["--stats", "0.1", "--stats-file", "-"]].concat());
    assert!(done.code == Some(2) && done.line().contains("standard output has the summary"), "{done:?}");
    assert!(!std::path::Path::new("-").exists());
}
