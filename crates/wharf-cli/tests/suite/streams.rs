//! Captures through pipes: `-` and fifos, read and written as they come.

use crate::common::show::{until_at_rest, until_moved, until_path};
use crate::common::{
    Done, Folder, Running, SAMPLE, SAMPLE_BYTES, SAMPLE_FRAMES, command, eventually, finish, text, wharf,
};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The header of a capture: little-endian, microseconds, Ethernet.
const HEADER: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// Makes a record of `len` bytes.
fn record(len: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend([len.to_le_bytes(), len.to_le_bytes()].concat());
    bytes.resize(16 + len as usize, 7);
    bytes
}

fn piped(args: &[&str]) -> Child {
    command(args).stdin(Stdio::piped()).spawn().unwrap()
}

/// Runs `wharf` with `input` at its standard input.
fn fed(args: &[&str], input: &[u8]) -> Done {
    let mut child = piped(args);
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let done = finish(child);
    feeder.join().unwrap();
    done
}

fn sample() -> Vec<u8> {
    std::fs::read(SAMPLE).unwrap()
}

#[test]
fn each_frame_of_a_stream_arrives_in_order() {
    for more in [&[][..], &["--qdisc", "prio"], &["--rate", "original"], &["--rate", "1mpps"]] {
        let done = fed(&[&["send", "--pcap", "-", "--json"], more].concat(), &sample());
        let report = done.good_json();
        assert_eq!(
            (&report["sent"], &report["received"]["packets"]),
            (&SAMPLE_FRAMES.into(), &SAMPLE_FRAMES.into())
        );
        assert_eq!((&report["bytes"], &report["received"]["errors"]), (&SAMPLE_BYTES.into(), &0.into()));
        assert!(
            report.get("compare").is_none_or(serde_json::Value::is_null),
            "a stream is sent once: {report}"
        );
    }
}

#[test]
fn frames_that_the_device_fails_are_counted_and_the_rest_is_checked() {
    let done = fed(&["send", "--pcap", "-", "--json", "--fault", "seed=7,error=20%"], &sample());
    let report = done.good_json();
    let number = |key: &str| report.pointer(key).and_then(serde_json::Value::as_u64).unwrap();
    let failed = number("/failed");
    assert!(failed > 0 && number("/received/errors") == 0, "{report}");
    assert_eq!(number("/received/packets") + failed, SAMPLE_FRAMES, "{report}");
}

#[test]
fn a_truncated_stream_sends_the_frames_before_the_fault() {
    let cut = [&HEADER[..], &record(60), &record(70), &record(80)[..50]].concat();
    let done = fed(&["send", "--pcap", "-", "--to", "null", "--json"], &cut);
    assert_eq!((done.code, &done.json()["sent"]), (Some(1), &2.into()), "{done:?}");
    assert!(done.line().contains("standard input: byte 186: record cut short (34 of 80"), "{done:?}");
    let done = fed(&["receive", "--from", "pcap:-", "--json", "-q"], &cut);
    assert_eq!((done.code, &done.json()["packets"]), (Some(1), &2.into()), "{done:?}");
    assert!(done.line().contains("pcap:-: byte 186: record cut short"), "{done:?}");
    let done = fed(&["send", "--pcap", "-"], b"no capture at all, is it");
    assert!(
        done.code == Some(1) && done.line().contains("standard input: byte 0: not a pcap file"),
        "{done:?}"
    );
}

#[test]
fn records_that_are_no_frame_are_skipped_and_long_ones_end_the_stream() {
    let input = [&HEADER[..], &record(0), &record(60)].concat();
    let done = fed(&["send", "--pcap", "-", "--to", "null", "--json"], &input);
    assert_eq!((&done.json()["sent"], &done.json()["skipped"]["empty"]), (&1.into(), &1.into()), "{done:?}");
    let input = [&HEADER[..], &record(60), &record(9014)].concat();
    let done = fed(&["send", "--pcap", "-", "--to", "null", "--json"], &input);
    assert_eq!((done.code, &done.json()["sent"]), (Some(1), &1.into()), "{done:?}");
    assert!(done.line().ends_with("memory is for 1536; --frame-bytes 9536 would do"), "{done:?}");
    let done = fed(&["send", "--pcap", "-", "--to", "null", "--json", "--frame-bytes", "9536"], &input);
    assert_eq!((done.code, &done.json()["sent"]), (Some(0), &2.into()), "{done:?}");
}

/// Each way from standard input to standard output.
const THROUGH: [&[&str]; 3] = [
    &["send", "--pcap", "-", "--to", "pcap:-,resolution=us"],
    &["receive", "--from", "pcap:-", "--pcap", "-"],
    &["forward", "pcap:-", "pcap:-"],
];

#[test]
fn frames_go_through_as_they_come_and_reports_go_to_standard_error() {
    for args in THROUGH {
        let mut child = piped(args);
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdin.write_all(&HEADER).unwrap();
        stdout.read_exact(&mut [0; 24]).unwrap();
        for len in [60, 61, 62] {
            stdin.write_all(&record(len)).unwrap();
            let mut came = vec![0; 16 + len as usize];
            // The input stays open: a writer that gathers frames would be waited for in vain.
            stdout.read_exact(&mut came).unwrap();
            assert_eq!(came[16..], record(len)[16..], "{args:?}");
        }
        drop(stdin);
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        let done = finish(child);
        assert!(rest.is_empty() && done.code == Some(0), "{args:?}: {done:?}");
        assert!(
            done.stderr.lines().any(|line| line.starts_with("packets ") && line.ends_with(" 3")),
            "{done:?}"
        );
    }
}

#[test]
fn fifos_are_read_and_written() {
    let folder = Folder::new();
    let [read, written] = ["in", "out"].map(|name| text(&folder.path(name)));
    assert!(Command::new("mkfifo").args([&read, &written]).status().unwrap().success());
    let sender =
        command(&["send", "--pcap", &read, "--to", &format!("pcap:{written}"), "--json"]).spawn().unwrap();
    let out = text(&folder.path("out.pcap"));
    let receiver =
        command(&["receive", "--from", &format!("pcap:{written}"), "--pcap", &out, "-q", "--json"]);
    let receiver = { receiver }.spawn().unwrap();
    std::fs::write(&read, sample()).unwrap();
    assert_eq!(finish(sender).good_json()["sent"], SAMPLE_FRAMES);
    assert_eq!(finish(receiver).good_json()["packets"], SAMPLE_FRAMES);
    let again = wharf(&["send", "--pcap", &out, "--loop", "1", "--to", "null", "--json"]).good_json();
    assert_eq!(again["bytes"], SAMPLE_BYTES);
}

#[test]
fn a_stream_has_one_pass_and_one_sender_and_no_trace_goes_to_standard_output() {
    for (args, what) in [
        ("send --pcap - --loop 2", "--pcap -: --loop: a stream cannot be read again"),
        ("send --pcap - --loop 0", "--loop: a stream cannot be read again"),
        ("send --pcap - --strict", "--strict: a stream cannot be read before it is sent"),
        ("send --pcap - --senders 2", "--senders: a stream goes by one sender"),
        ("send --size 60 --count 1 --to null --trace -", "--trace -: want a file"),
        ("forward null wire --mirror -", "--mirror -: want a file"),
        ("receive --from pcap:- --pcap - --trace -", "--trace -: want a file"),
    ] {
        let done = wharf(&args.split(' ').collect::<Vec<_>>());
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args}: {done:?}");
        assert!(done.line().contains(what), "{args}: {done:?}");
    }
    assert!(!std::path::Path::new("-").exists());
}

#[test]
fn a_signal_ends_the_wait_for_a_stream() {
    for args in [
        &["send", "--pcap", "-", "--to", "null", "--json"][..],
        &["receive", "--from", "pcap:-", "--json"],
        &["forward", "pcap:-", "null", "--json"],
    ] {
        let folder = Folder::new();
        let control = folder.path("control");
        let mut run = Running::from(piped(&[args, &["--control", &text(&control)]].concat()));
        let mut stdin = run.child.stdin.take().unwrap();
        stdin.write_all(&[&HEADER[..], &record(60)].concat()).unwrap();
        until_moved(&control, 1);
        let done = run.end();
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        assert!(done.stdout.contains("\"packets\": 1,"), "{args:?}: {done:?}");
        drop(stdin);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let from = format!("pcap:{SAMPLE}");
    for (args, code, line) in [
        (&["receive", "--from", &from, "--pcap", "-", "-q"][..], 0, None),
        (
            &["send", "--size", "60", "--rate", "20kpps", "--to", "pcap:-"],
            1,
            Some("pcap:-: its reader has gone"),
        ),
        (&["forward", &from, "pcap:-", "-q"], 1, Some("pcap:-: its reader has gone")),
    ] {
        let mut child = command(args).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 24]).unwrap();
        drop(stdout);
        let done = finish(child);
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
        assert!(line.is_none_or(|line| done.stderr.matches(line).count() == 1), "{args:?}: {done:?}");
        assert!(!done.stderr.contains("disk"), "{args:?}: {done:?}");
    }
}

/// Makes a fifo whose reader does not read.
fn stalled(folder: &Folder) -> (String, std::thread::JoinHandle<std::fs::File>) {
    let fifo = text(&folder.path("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let path = fifo.clone();
    (fifo, std::thread::spawn(move || std::fs::File::open(path).unwrap()))
}

#[test]
fn a_reader_that_stalls_holds_up_no_end() {
    let folder = Folder::new();
    let (fifo, reader) = stalled(&folder);
    let to = format!("pcap:{fifo}");
    let args = ["send", "--size", "60", "--batch", "on", "--seconds", "1h", "--to", &to, "--json"];
    let mut run = Running::start(&args);
    let mut reader = reader.join().unwrap();
    run.until_said("has completed none of");
    let done = run.end();
    assert!(done.code == Some(1) && done.stderr.contains("its reader takes nothing"), "{done:?}");
    let run = done.json();
    let (accepted, sent) = (&run["senders"][0]["packets"], run["sent"].as_u64().unwrap());
    let ended = sent + run["drops"]["total"].as_u64().unwrap() + run["returned"].as_u64().unwrap();
    assert_eq!((accepted, &run["pool"]["out"]), (&ended.into(), &0.into()), "{run}");
    assert!(run["drops"]["by_reason"]["reader-stalled"].as_u64() > Some(0), "{run}");
    // The pipe has those that count as sent, and no other whole one.
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.len() as u64 - 24) / 76, sent, "{run}");
}

#[test]
fn a_signal_ends_a_forwarder_whose_reader_stalls() {
    let folder = Folder::new();
    let (fifo, reader) = stalled(&folder);
    let long = folder.file("long.pcap", &[&HEADER[..], &record(1000).repeat(1000)].concat());
    let (from, to) = (format!("pcap:{long}"), format!("pcap:{fifo}"));
    let control = folder.path("control");
    let run = Running::start(&["forward", &from, &to, "--json", "--control", &text(&control)]);
    let _reader = reader.join().unwrap();
    // More than 60 of a kilobyte fit into the pipe.
    until_at_rest(&control, 50);
    let done = run.end();
    assert!(done.code.is_some() && done.stderr.contains("its reader takes nothing"), "{done:?}");
    assert_eq!(done.json()["directions"][0]["pool"]["out"], 0, "{done:?}");
}

#[test]
fn a_slow_reader_gets_every_frame() {
    let folder = Folder::new();
    let (fifo, reader) = stalled(&folder);
    let to = format!("pcap:{fifo}");
    let args = ["send", "--size", "100", "--batch", "on", "--count", "10000", "--to", &to, "--json"];
    let child = command(&args).spawn().unwrap();
    let (mut reader, mut part, mut came) = (reader.join().unwrap(), vec![0; 50_000], 0);
    loop {
        match reader.read(&mut part).unwrap() {
            0 => break,
            count => came += count,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let run = finish(child).good_json();
    assert_eq!((&run["sent"], came), (&10_000.into(), 24 + 10_000 * 116), "{run}");
}

#[test]
fn a_forwarder_says_that_it_drops_while_it_does_and_when_that_is_over() {
    let options = ["--rate", "1mbit", "--qdisc", "fifo:10", "--when-full", "drop-tail", "--json"];
    let mut run = Running::from(piped(&[&["forward", "pcap:-", "null"][..], &options].concat()));
    let mut stdin = run.child.stdin.take().unwrap();
    stdin.write_all(&HEADER).unwrap();
    let mut feed_until_said = |words: &str, records: usize| {
        eventually(|| {
            stdin.write_all(&record(1000).repeat(records)).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            run.said()[1].contains(words).then_some(()).ok_or_else(|| format!("{words}: {:?}", run.said()))
        });
    };
    // 10 000 a second in place of 125, then 40.
    feed_until_said("more comes than leaves", 500);
    feed_until_said("what comes leaves again", 2);
    drop(stdin);
    let done = run.finish();
    let at = |line| done.stderr.find(line).unwrap_or_else(|| panic!("{line}: {done:?}"));
    assert!(at("more comes than leaves") < at("what comes leaves again"), "{done:?}");
    assert!(done.stderr.contains("`wharf explain drop-tail`"), "{done:?}");
    assert_eq!(done.json()["directions"][0]["pool"]["out"], 0);
}

#[test]
fn traffic_without_an_end_goes_on_until_a_signal() {
    for args in [
        &["send", "--size", "60", "--rate", "1kpps", "--to", "udp:127.0.0.1:9", "--json", "-q"][..],
        &["send", "--pcap", SAMPLE, "--loop", "0", "--to", "null", "--json", "-q"],
    ] {
        let folder = Folder::new();
        let control = folder.path("control");
        let run = Running::start(&[args, &["--control", &text(&control)]].concat());
        until_path(&control, |path| path["packets"].as_u64() > Some(500));
        let done = run.end();
        assert!(done.json()["packets"].as_u64() > Some(500), "{args:?}: {done:?}");
    }
    // The device is opened first: its error comes, without a privilege another one.
    let done = wharf(&["send", "--to", "packet:no-such-if"]);
    let (line, code) = (done.line(), done.code);
    assert!(
        code == Some(1) && ["no such interface", "CAP_NET_RAW"].iter().any(|e| line.contains(e)),
        "{done:?}"
    );
}

#[test]
fn a_signal_ends_the_wait_for_the_header_of_a_capture() {
    let folder = Folder::new();
    let fifo = text(&folder.path("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (path, name) in [("-", "INT"), (fifo.as_str(), "TERM")] {
        let mut run = Running::from(piped(&["send", "--pcap", path, "--to", "null"]));
        let stdin = run.child.stdin.take().unwrap();
        for name in ["USR1", "USR2"] {
            run.signal(name);
        }
        std::thread::sleep(Duration::from_millis(100));
        assert!(run.goes_on(), "{path}");
        run.signal(name);
        let done = run.finish();
        assert!(done.code == Some(0) && done.line().contains("ended by a signal"), "{path}: {done:?}");
        drop(stdin);
    }
}
