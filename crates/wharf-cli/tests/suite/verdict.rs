//! The verdict under a summary, of runs that are bounded in known ways.

use crate::common::show::{until_moved, until_path};
use crate::common::{Folder, PROGRAM, Running, SAMPLE, eventually, finish, install, text, wharf};
use serde_json::Value;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// Runs `wharf ... --json`, and returns its verdict, which the table has, too.
fn verdict(args: &str) -> Value {
    let args: Vec<&str> = args.split_whitespace().collect();
    let run = wharf(&[&args[..], &["--json"]].concat()).json();
    run.get("verdict").or_else(|| run["directions"][0].get("verdict")).unwrap().clone()
}

/// Returns the verdict of a run that is bounded so, unless other work has the processors for many runs in a row.
#[track_caller]
fn verdict_of(bound: &str, args: &str) -> Option<Value> {
    for _ in 0..10 {
        let run = verdict(args);
        if run["bounded_by"] == bound {
            return Some(run);
        }
        let is_busy = says(&run, "other work ran there") || says(&run, "this process did not run");
        assert!(run["bounded_by"] == "processor" && is_busy, "{run}");
    }
    println!("skipped: other work has the processors");
    None
}

fn says(verdict: &Value, words: &str) -> bool {
    verdict["text"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains(words))
}

#[test]
fn all_as_asked() {
    let Some(run) = verdict_of("rate", "send --size 60 --rate 2kpps --count 1000 --to null") else { return };
    assert_eq!((&run["loss"], &run["next"]), (&Value::Null, &Value::Null), "{run}");
    assert_eq!(run["asked_pps"], 2_000.0);
    assert!(says(&run, "Asked 2.00 kpps, came to") && says(&run, ": as asked."), "{run}");
}

/// Times of a capture's packets, nanoseconds.
fn stamps(path: &str) -> Vec<u64> {
    let file = std::fs::read(path).unwrap();
    let number = |at: usize| u64::from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap()));
    let (mut at, mut stamps) = (24, Vec::new());
    while at < file.len() {
        stamps.push(number(at) * 1_000_000_000 + number(at + 4));
        at += 16 + number(at + 8) as usize;
    }
    stamps
}

#[test]
fn a_process_that_was_stopped_sends_no_burst_and_is_not_as_asked() {
    let folder = Folder::new();
    let out = text(&folder.path("out.pcap"));
    let to = format!("pcap:{out}");
    let control = folder.path("control");
    let args = ["send", "--size", "1000", "--rate", "1kpps", "--seconds", "1h", "--to", &to, "--json"];
    let run = Running::start(&[&args[..], &["--control", &text(&control)]].concat());
    until_moved(&control, 1);
    run.signal("STOP");
    sleep(Duration::from_secs(2));
    run.signal("CONT");
    let sent = until_path(&control, |_| true)["sent"].as_u64().unwrap();
    until_moved(&control, sent + 500);
    let done = run.end();
    let (report, stamps) = (done.json(), stamps(&out));
    let process = &report["pauses"]["process"];
    assert!(process["count"].as_u64() >= Some(1), "{report}");
    assert!(process["total_ns"].as_u64() >= Some(1_500_000_000), "{report}");
    assert!(says(&report["verdict"], "this process did not run"), "{report}");
    assert_eq!(report["verdict"]["bounded_by"], "processor", "{report}");
    assert!(done.stderr.contains("this process did not run"), "{done:?}");
    // 100 ms worth of packets, and those of a machine that is busy for a moment.
    let within = |at: usize| stamps[at..].iter().take_while(|&&ns| ns < stamps[at] + 10_000_000).count();
    let most = (0..stamps.len()).map(within).max().unwrap();
    assert!(most < 500, "{most} packets in 10 ms");
}

#[test]
fn a_rate_that_the_device_does_not_take_is_said_to_be_missed_for_that() {
    let Some(run) =
        verdict_of("device", "send --size 1000 --rate 100kpps --seconds 0.5 --to wire:rate=20mbit")
    else {
        return;
    };
    assert_eq!(run["asked_pps"], 100_000.0, "{run}");
    assert!(run["came_pps"].as_f64() < Some(3000.0), "{run}");
    assert!(says(&run, "the senders waited") && says(&run, "for the device"), "{run}");
}

#[test]
fn a_rate_that_the_processor_does_not_reach_is_said_to_be_missed_for_that() {
    // The program that the next command runs is there, or is not.
    let folder = Folder::new();
    let run = || {
        let args =
            ["send", "--size", "60", "--rate", "5000mpps", "--seconds", "0.4", "--to", "null", "--json"];
        let wharf = folder.path("bin/wharf");
        let _ = std::fs::remove_file(&wharf);
        install(PROGRAM, &wharf);
        let mut command = std::process::Command::new(&wharf);
        command.args(args).env("PATH", folder.path("path")).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).json()["verdict"].clone()
    };
    assert_eq!(run()["next"], Value::Null);
    install("/bin/true", &folder.path("path/wharf-bench"));
    // Other work may have the processors for most of the time.
    let run = eventually(|| {
        let run = run();
        if says(&run, "the sending thread used a processor") { Ok(run) } else { Err(run) }
    });
    assert_eq!(
        (&run["bounded_by"], &run["next"]),
        (&"processor".into(), &"wharf bench path".into()),
        "{run}"
    );
    assert!(says(&run, "Asked 5.00 Gpps"), "{run}");
}

#[test]
fn a_policy_that_drops_is_said_to_drop_for_the_device() {
    let slow = "send --count 20000 --qdisc fifo:16 --to wire:rate=1mbit,ring=16 --when-full drop-tail";
    let Some(run) = verdict_of("device", slow) else { return };
    assert!(run["loss"]["by_reason"]["drop-tail"].as_u64() > Some(1000), "{run}");
    assert_eq!(run["loss"]["packets"], run["loss"]["by_reason"]["drop-tail"], "{run}");
    assert!(run["next"].as_str().unwrap().ends_with("--when-full wait"), "{run}");
    let read = format!("pcap:{SAMPLE}");
    let slow = format!("forward {read} null --rate 8mbit --qdisc fifo:1000 --when-full drop-tail");
    let Some(run) = verdict_of("rate", &slow) else { return };
    assert!(says(&run, "of --rate 8.00 Mbit/s"), "{run}");
}

/// The capture lacks some packets: nothing was dropped by the receiver that reads it.
#[test]
fn loss_before_a_receiver_is_not_its_own() {
    let folder = Folder::new();
    let path = text(&folder.path("out.pcap"));
    let args = ["send", "--size", "60", "--count", "500", "--fault", "error=1/10", "--to"];
    wharf(&[&args[..], &[&format!("pcap:{path}")]].concat());
    let run = verdict(&format!("receive --from pcap:{path}"));
    assert_eq!(
        (&run["bounded_by"], &run["loss"]["by_reason"]),
        (&"nothing".into(), &serde_json::json!({})),
        "{run}"
    );
    assert!(run["loss"]["packets"].as_u64() > Some(40) && says(&run, "lost before it"), "{run}");
}

/// A socket with the least buffer, and a receiver that is slowed down: the kernel drops what does not fit.
#[test]
fn a_receiver_that_loses_is_told_so_with_the_remedy() {
    let from = "udp:127.0.0.1:0,buffer=4k";
    let (folder, fault) = (Folder::new(), "seed=1,stall=50%:2ms");
    let control = folder.path("control");
    let args = ["receive", "--from", from, "--fault", fault, "--json", "--control", &text(&control)];
    let mut run = Running::start(&args);
    let listening = run.until_said("listening on ");
    let to = listening.rsplit(' ').next().unwrap();
    let sender =
        Running::start(&["send", "--size", "200", "--rate", "100kpps", "--seconds", "1h", "--to", to]);
    until_path(&control, |path| path["drops"]["socket-full"].as_u64() > Some(1000));
    sender.end();
    let run = run.end().json()["verdict"].clone();
    assert_eq!(run["bounded_by"], "receiver", "{run}");
    assert!(run["loss"]["by_reason"]["socket-full"].as_u64() > Some(0), "{run}");
    assert!(says(&run, "the receiver was too slow for") && says(&run, "as socket-full"), "{run}");
}

#[test]
fn the_table_ends_with_the_verdict() {
    let shown = wharf(&["send", "--size", "60", "--rate", "20kpps", "--count", "500", "--to", "null"]).stdout;
    assert!(shown.contains("\nAsked 20.0 kpps, came to"), "{shown}");
    let shown = wharf(&["forward", &format!("pcap:{SAMPLE}"), "null"]).stdout;
    assert!(shown.contains("all that arrived left, so"), "{shown}");
}
