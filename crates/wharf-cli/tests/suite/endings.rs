//! Runs that end otherwise than by themselves: signals, and a reader that goes away.

use crate::common::show::{until_at_rest, until_moved};
use crate::common::{
    Done, Folder, Running, SAMPLE, catches, command, eventually, finish, started, text, wait, wharf,
};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a run with a control socket, and waits until it has moved so many packets. Returns it, and the socket.
fn moving(folder: &Folder, args: &[&str], packets: u64) -> (Running, PathBuf) {
    let control = folder.path("control");
    let run = Running::start(&[args, &["--control", &text(&control)]].concat());
    until_moved(&control, packets);
    (run, control)
}

#[test]
fn a_signal_ends_a_run_with_its_summary() {
    for (name, args) in [
        ("INT", &["send", "--pcap", SAMPLE, "--seconds", "1h", "--json"][..]),
        ("TERM", &["send", "--pcap", SAMPLE, "--loop", "1000000000", "--senders", "2", "--json"]),
        ("INT", &["send", "--size", "60", "--rate", "1pps", "--count", "1000", "--json"]),
        ("TERM", &["send", "--size", "60", "--count", "1m", "--to", "wire:rate=10kbit", "--json"]),
        ("INT", &["send", "--imix", "--seconds", "1h", "--to", "null", "--json"]),
    ] {
        let folder = Folder::new();
        let (run, _) = moving(&folder, args, 1);
        run.signal(name);
        let run = run.finish().good_json();
        assert_eq!(run["pool"]["out"], 0, "{args:?}: {run}");
        let accepted: u64 =
            run["senders"].as_array().unwrap().iter().map(|s| s["packets"].as_u64().unwrap()).sum();
        let left = run["packets"].as_u64().unwrap() + run["returned"].as_u64().unwrap();
        assert_eq!(accepted, left, "{args:?}: {run}");
        if run["received"].is_object() {
            assert_eq!(run["received"]["errors"], 0, "{args:?}: {run}");
        }
    }
}

/// A run ends with its terminal, unless nohup started it.
#[test]
fn a_hangup_ends_a_run_unless_it_is_ignored() {
    for (how, is_caught) in [("--default-signal=HUP", true), ("--ignore-signal=HUP", false)] {
        let mut run = Command::new("env");
        run.args([
            how,
            env!("CARGO_BIN_EXE_wharf"),
            "send",
            "--imix",
            "--seconds",
            "1h",
            "--to",
            "null",
            "--json",
        ]);
        let folder = Folder::new();
        let control = folder.path("control");
        run.arg("--control").arg(&control);
        let run = Running::of(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        until_moved(&control, 1);
        assert_eq!(catches(&run.child, Signal::HUP), is_caught, "{how}");
        run.signal("HUP");
        if !is_caught {
            run.signal("INT");
        }
        assert_eq!(run.finish().good_json()["pool"]["out"], 0, "{how}");
    }
}

/// One device waits for a connection; the other one's back end never answers.
#[test]
fn a_signal_ends_the_wait_for_a_peer() {
    let folder = Folder::new();
    let (ours, mute) = (folder.path("ours"), folder.path("mute"));
    let _listener = UnixListener::bind(&mute).unwrap();
    let server = format!("virtio-user:{},server=on", text(&ours));
    let client = format!("virtio-user:{}", text(&mute));
    for args in [
        &["send", "--count", "1", "--to", &server][..],
        &["receive", "--from", &server],
        &["forward", "null", &server],
        &["forward", &client, "null"],
    ] {
        let run = Running::start(args);
        started(&run.child);
        let asked = Instant::now();
        let done = run.end();
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        // On a slow machine the line before says what it waits for.
        assert!(done.stderr.lines().last().unwrap().contains("ended by a signal"), "{args:?}: {done:?}");
        // The signal ended the wait, and not the time limit of a minute.
        assert!(asked.elapsed() < Duration::from_secs(50), "{args:?}");
    }
}

#[test]
fn a_wait_for_a_peer_is_told_and_given_up() {
    let folder = Folder::new();
    let mute = folder.path("mute");
    let _listener = UnixListener::bind(&mute).unwrap();
    let client = format!("virtio-user:{}", text(&mute));
    let waits = format!("wharf: {client}: waiting up to 60 s for its other side");
    let mut told = 0;
    for args in [
        &["send", "--count", "1", "--to", &client][..],
        &["receive", "--from", &client],
        &["forward", &client, "null"],
    ] {
        let done = wharf(&[args, &["--give-up", "1.5s"]].concat());
        let lines: Vec<&str> = done.stderr.lines().collect();
        assert!(done.code == Some(1) && (1..=2).contains(&lines.len()), "{args:?}: {done:?}");
        assert!(lines.iter().all(|line| line.starts_with(&waits)), "{args:?}: {done:?}");
        let seconds = lines.last().unwrap().strip_suffix(" s").and_then(|line| line.rsplit(' ').next());
        assert!(seconds.unwrap().parse::<f64>().unwrap() >= 1.5, "{args:?}: {done:?}");
        assert!(lines.last().unwrap().contains(": given up after "), "{args:?}: {done:?}");
        told += lines.len() - 1;
    }
    // It is told after a second, unless the machine is too busy for a look between that and the end.
    assert!(told > 0, "no wait was told");
}

/// A terminal's Ctrl-C goes to a whole group, and a shell or `timeout` then often sends it once more.
#[test]
fn a_doubled_signal_still_ends_a_run_with_its_summary() {
    for (first, second, pause) in [("INT", "INT", 0), ("INT", "TERM", 20), ("TERM", "INT", 20)] {
        // A line so slow that what is under way outlasts the first signal.
        let args = ["send", "--size", "60", "--count", "1m", "--to", "wire:rate=10kbit", "--json"];
        let run = eventually(|| {
            let folder = Folder::new();
            let (run, _) = moving(&folder, &args, 1);
            let asked = Instant::now();
            run.signal(first);
            thread::sleep(Duration::from_millis(pause));
            run.signal(second);
            // Half a second after the first one, another one ends the process at once.
            let is_soon = asked.elapsed() < Duration::from_millis(400);
            is_soon.then(|| run.finish().good_json()).ok_or("this process did not run for too long")
        });
        assert_eq!(run["pool"]["out"], 0, "{first} {second}: {run}");
    }
}

/// The first signal ends the run; its summary goes to a reader that reads nothing.
#[test]
fn a_second_signal_ends_a_process_that_hangs() {
    let (near, _far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[0; 4096]).is_ok() {}
    near.set_nonblocking(false).unwrap();
    let mut run = command(&["send", "--size", "60", "--seconds", "1h", "--json"]);
    let mut run = Running::of(run.stdout(OwnedFd::from(near)));
    started(&run.child);
    let asked = Instant::now();
    run.signal("INT");
    while run.goes_on() {
        run.signal("TERM");
        thread::sleep(Duration::from_millis(50));
        assert!(asked.elapsed() < SOON, "no signal ends it");
    }
    // A signal that comes before may be the first one again.
    assert!(asked.elapsed() >= Duration::from_millis(500), "{:?}", asked.elapsed());
    assert_eq!(wait(&mut run.child).code(), Some(128 + 15));
}

/// Far less than the delays here, far more than it takes on the slowest machine.
const SOON: Duration = Duration::from_secs(25);

/// All that was accepted came back or was the device's, where it failed, arrived, or was still under way.
fn assert_accounted(run: &serde_json::Value) {
    let number = |path: &str| run.pointer(path).and_then(serde_json::Value::as_u64).unwrap();
    let senders = run["senders"].as_array().unwrap();
    let accepted: u64 = senders.iter().map(|sender| sender["packets"].as_u64().unwrap()).sum();
    assert_eq!(accepted, number("/packets") + number("/returned"), "{run}");
    let ended = ["/received/packets", "/received/not_arrived", "/drops/total"].map(number);
    assert_eq!(number("/packets"), ended.iter().sum::<u64>(), "{run}");
    assert_eq!((number("/pool/out"), number("/received/errors")), (0, 0), "{run}");
}

/// Returns the report of a run that has succeeded; a wire whose receiver is full for a second may have been told.
fn json_of(done: &Done) -> serde_json::Value {
    assert!(
        done.code == Some(0) && done.news().iter().all(|line| line.ends_with("packets wait")),
        "{done:?}"
    );
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn a_signal_ends_the_wait_for_packets_on_a_wire() {
    for (name, args, packets) in [
        // All on the wire; as much as the receiver's memory holds, and senders that wait; and after its time.
        ("INT", "--count 1000 --to wire:delay=60s", 1000),
        ("TERM", "--batch on --seconds 1h --to wire:rate=1gbit,delay=60s", 1000),
        ("INT", "--batch on --seconds 1h --frames 65536 --to wire:delay=60s,ring=65536", 10_000),
        ("TERM", "--batch on --seconds 0.1 --to wire:rate=1gbit,delay=60s", 1),
    ] {
        let args = format!("send --json --size 60 {args}");
        let folder = Folder::new();
        let (run, control) = moving(&folder, &args.split(' ').collect::<Vec<_>>(), packets);
        until_at_rest(&control, packets);
        let asked = Instant::now();
        run.signal(name);
        let done = run.finish();
        assert!(asked.elapsed() < SOON, "{args}: {:?}", asked.elapsed());
        assert_accounted(&json_of(&done));
    }
}

#[test]
fn a_run_that_is_over_waits_for_a_wires_delay_and_no_longer() {
    let run = wharf(&["send", "--json", "--size", "60", "--count", "1000", "--to", "wire:delay=300ms"]);
    let run = run.good_json();
    assert_eq!(
        (&run["received"]["packets"], &run["received"]["not_arrived"]),
        (&1000.into(), &0.into()),
        "{run}"
    );
    // Far more than the receiver's memory holds: what waits for it is given up.
    let args = "send --json --size 60 --batch on --seconds 0.2 --frames 65536 --to wire:delay=8s,ring=65536";
    let began = Instant::now();
    let done = wharf(&args.split(' ').collect::<Vec<_>>());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_accounted(&json_of(&done));
}

#[test]
fn a_signal_in_the_first_of_two_runs_spares_the_second() {
    let folder = Folder::new();
    let (run, _) = moving(&folder, &["send", "--size", "60", "--seconds", "1h"], 1);
    let done = run.end();
    assert_eq!((done.code, &done.news()[..]), (Some(0), &[][..]));
    assert!(done.stdout.contains("Ended by a signal."), "{}", done.stdout);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for args in
        [&["send", "--help"][..], &["devices"], &["devices", "--json"], &["send", "--count", "10", "--json"]]
    {
        let mut child = command(args).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((wait(&mut child).code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_under_standard_output_is_a_failure() {
    for args in [&["devices"][..], &["--help"], &["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let done = finish(command(args).stdout(Stdio::from(full)).spawn().unwrap());
        assert_eq!(done.code, Some(1), "{args:?}");
        assert!(done.line().contains("cannot write to standard output"), "{args:?}: {done:?}");
    }
}

#[test]
fn a_closed_standard_error_is_no_panic() {
    let mut child = command(&["send", "--qdisc", "none"]).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(wait(&mut child).code(), Some(2));
}
