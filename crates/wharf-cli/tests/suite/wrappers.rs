//! Faults on demand and traces, from the command line.

use crate::common::{Folder, SAMPLE, SAMPLE_FRAMES, text, wharf};

const ALL: &str = "seed=7,error=1%,short=10%,stall=0.2%:200us,lost=2%,late=1%:50us,reorder=5%,alloc=1%";

#[test]
fn faults_are_counted_and_cost_no_frame_but_those_that_fail() {
    for to in ["wire", "wire:ring=4", "null"] {
        let done = wharf(&[
            "send",
            "--size",
            "200",
            "--count",
            "20000",
            "--senders",
            "3",
            "--to",
            to,
            "--fault",
            ALL,
            "--json",
        ]);
        let run = done.good_json();
        let injected = run["faults"]["injected"].as_object().unwrap();
        assert_eq!(run["faults"]["seed"], 7);
        assert!(injected.values().filter(|count| count.as_u64() > Some(0)).count() >= 6, "{injected:?}");
        assert_eq!(run["drops"]["by_reason"]["injected"], injected["error"]);
        assert!((100..400).contains(&injected["error"].as_u64().unwrap()), "{injected:?}");
        assert_eq!((&run["pool"]["out"], &run["packets"]), (&0.into(), &20_000.into()));
        if to != "null" {
            let received = run["received"]["packets"].as_u64().unwrap();
            assert_eq!(received + injected["error"].as_u64().unwrap(), 20_000);
            assert_eq!(run["received"]["errors"], 0);
        }
    }
}

/// A device that comes back goes on, and one that does not is given up, with each packet accounted for.
#[test]
fn freezes_and_half_answers_cost_no_frame() {
    for to in ["wire", "null"] {
        let faults = "seed=7,freeze=1%:5ms,half=20%";
        let send = ["send", "--json", "--size", "60", "--count", "20000", "--senders", "2", "--burst", "16"];
        let run = wharf(&[&send[..], &["--to", to, "--fault", faults]].concat()).good_json();
        let injected = |kind: &str| run["faults"]["injected"][kind].as_u64();
        assert!(injected("freeze") > Some(0) && injected("half") > Some(0), "{run}");
        assert_eq!((&run["sent"], &run["pool"]["out"]), (&20_000.into(), &0.into()));
    }
    let received =
        ["receive", "--json", "--from", &format!("pcap:{SAMPLE}"), "--fault", "half=50%,freeze=2%:5ms"];
    let run = wharf(&received).json();
    assert_eq!(run["packets"], SAMPLE_FRAMES);
    assert!(run["faults"]["injected"]["half"].as_u64() > Some(0), "{run}");
    let frozen = ["send", "--json", "--count", "1000", "--fault", "freeze=100%:60s", "--give-up", "200ms"];
    let done = wharf(&frozen);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.line().contains("given up: no completion for 200ms"), "{done:?}");
    assert_eq!(done.json()["pool"]["out"], 0);
}

#[test]
fn the_same_seed_fails_as_many_and_the_summary_says_so() {
    let run = |seed: &str| {
        let faults = format!("seed={seed},error=1%");
        let run =
            wharf(&["send", "--size", "60", "--count", "5000", "--fault", &faults, "--json"]).good_json();
        run["faults"]["injected"]["error"].as_u64().unwrap()
    };
    let counts: Vec<u64> = ["7", "7", "8", "9", "10"].map(run).into();
    assert!(counts[0] == counts[1] && counts[2..].iter().any(|&count| count != counts[0]), "{counts:?}");
    let done = wharf(&["send", "--size", "60", "--count", "5000", "--fault", "error=1/50", "-q"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(
        done.stdout.contains("error 100") && done.stdout.contains("Every frame that did not fail"),
        "{done:?}"
    );
}

#[test]
fn trace_holds_exactly_the_sent_frames() {
    let folder = Folder::new();
    let (sent, traced) = (text(&folder.path("sent.pcap")), text(&folder.path("traced.pcap")));
    let to = format!("pcap:{sent}");
    let run = wharf(&["send", "--pcap", SAMPLE, "--to", &to, "--trace", &traced, "--json"]).good_json();
    assert_eq!((&run["trace"]["frames"], &run["trace"]["missed"]), (&SAMPLE_FRAMES.into(), &0.into()));
    assert_eq!(run["trace"]["file"], traced.as_str());
    assert_eq!(records(&sent), records(&traced));
    // Faults lie around it: what failed on demand is not in it.
    let faulty = ["send", "--pcap", SAMPLE, "--loop", "1", "--fault", "error=1/100,short=20%,reorder=10%"];
    let run = wharf(&[&faulty[..], &["--trace", &traced, "--json"]].concat()).good_json();
    let failed = run["drops"]["total"].as_u64().unwrap();
    assert_eq!((failed, records(&traced).len() as u64), (SAMPLE_FRAMES / 100, SAMPLE_FRAMES - failed));
}

/// The bytes of each record of a capture.
fn records(path: &str) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let (mut rest, mut records) = (&file[24..], Vec::new());
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        records.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    records
}

#[test]
fn a_trace_that_cannot_be_written_says_so_before_anything_is_sent() {
    let folder = Folder::new();
    let nowhere = text(&folder.path("no/such/folder"));
    for (file, what) in
        [("/dev/full", "No space left"), (&nowhere, "cannot open"), ("/tmp", "is a directory")]
    {
        let done = wharf(&["send", "--size", "60", "--count", "10", "--trace", file]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
        assert!(
            done.line().starts_with(&format!("wharf: trace:{file}: ")) && done.line().contains(what),
            "{done:?}"
        );
    }
}

#[test]
fn a_disk_that_fills_up_costs_the_trace_frames_and_the_path_none() {
    // A limit on the size of files stands in for a small disk.
    let folder = Folder::new();
    let traced = text(&folder.path("traced.pcap"));
    let script = "ulimit -f 200; exec \"$0\" \"$@\"";
    let args = "send --size 1000 --count 5000 --to null --json --trace".split(' ').chain([&*traced]);
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_wharf")]).args(args);
    let output = command.output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (frames, missed) =
        (run["trace"]["frames"].as_u64().unwrap(), run["trace"]["missed"].as_u64().unwrap());
    assert_eq!((output.status.code(), frames + missed), (Some(1), 5000), "{run}");
    assert!(missed > 4000 && frames > 0, "{run}");
    assert_eq!(
        (&run["packets"], &run["drops"]["total"], &run["pool"]["out"]),
        (&5000.into(), &0.into(), &0.into())
    );
    assert_eq!(records(&traced).len() as u64, frames, "whole records, all of them");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected =
        format!("wharf: trace:{traced}: {missed} of 5000 frames are not in the file: File too large");
    assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
}

#[test]
fn no_file_is_read_and_written_nor_written_twice() {
    let folder = Folder::new();
    let [input, out, link] = ["in.pcap", "out.pcap", "link.pcap"].map(|name| text(&folder.path(name)));
    std::fs::copy(SAMPLE, &input).unwrap();
    std::os::unix::fs::symlink(&input, &link).unwrap();
    let [from, to_link, to_out] = [&input, &link, &out].map(|path| format!("pcap:{path}"));
    let cases: [(&[&str], &str); 6] = [
        (&["send", "--pcap", &input, "--to", "null", "--trace", &link], "--trace"),
        (&["send", "--pcap", &input, "--to", &to_link], "--to"),
        (&["send", "--size", "60", "--count", "9", "--to", &to_out, "--trace", &out], "--trace"),
        (&["receive", "--from", &from, "--trace", &input], "--trace"),
        (&["receive", "--from", &from, "--pcap", &link], "--pcap"),
        (&["receive", "--from", &from, "--pcap", &out, "--trace", &out], "--trace"),
    ];
    for (arguments, name) in cases {
        let done = wharf(arguments);
        let is_told = done.line().starts_with(&format!("wharf: {name} "));
        assert!(done.code == Some(2) && is_told && done.stderr.contains("the same file"), "{done:?}");
    }
    assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(SAMPLE).unwrap());
    assert!(!std::path::Path::new(&out).exists());
    // A device file may be named any number of times.
    let done = wharf(&["receive", "--from", &from, "--pcap", "/dev/null", "--trace", "/dev/null"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_device_that_completes_nothing_is_given_up_and_every_packet_is_accounted_for() {
    for (count, faults, stays) in [("100000", "never=100%", 1), ("10", "never=1/3", 3)] {
        let send =
            ["send", "--batch", "on", "--json", "--count", count, "--fault", faults, "--give-up", "500ms"];
        let done = wharf(&send);
        let given_up = format!(
            "wharf: wire: given up: no completion for 500ms, frames in the device: {stays}; {stays} packet"
        );
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.line().starts_with(&given_up) && done.line().ends_with(" failed: lost"), "{done:?}");
        let run: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(run["faults"]["injected"]["never"], stays);
        assert_eq!((&run["failed"], &run["drops"]["by_reason"]["lost"]), (&stays.into(), &stays.into()));
        assert_eq!((&run["pool"]["out"], &run["received"]["packets"]), (&0.into(), &run["packets"]));
    }
    // A device that is slow, but goes on, is not.
    let slow = ["send", "--batch", "on", "--count", "2000", "--fault", "stall=5%:50ms", "--give-up", "1s"];
    assert_eq!(wharf(&slow).code, Some(0));
    let done = wharf(&["send", "--count", "1000", "--give-up", "99ms"]);
    assert_eq!(done.code, Some(2));
    assert!(done.line().contains("want a time from 100ms to a year"), "{done:?}");
}

#[test]
fn a_forwarding_end_without_a_peer_is_given_up() {
    let folder = Folder::new();
    let (from, to) = (format!("pcap:{SAMPLE}"), format!("vhost-user:{}", folder.path("socket").display()));
    let done = wharf(&["forward", &from, &to, "--give-up", "300ms"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.stderr.contains(": given up: no completion for 300ms, frames in the device: "),
        "{}",
        done.stderr
    );
    assert!(done.stdout.contains("frames in use"), "{}", done.stdout);
}

#[test]
fn timing_errors_of_several_queues_are_reported_together() {
    // One flow is of one queue.
    for flows in ["1", "2", "3", "16"] {
        let paced = ["send", "--json", "--size", "60", "--queues", "2", "--to", "null", "--rate", "10kpps"];
        let run = wharf(&[&paced[..], &["--count", "1000", "--flows", flows]].concat()).good_json();
        assert!(run["timing_error_ns"]["p50"].is_u64(), "{flows}: {run}");
    }
}
