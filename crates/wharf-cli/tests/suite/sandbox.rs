//! `--seccomp` needs no privilege; `--user` does, and is tried in tests/privileges.sh.

use crate::common::{Folder, SAMPLE, SAMPLE_FRAMES, command, finish, signal, text, wharf};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::Child;

/// Returns a field of proc_pid_status(5) for each thread. A thread that ends meanwhile has none.
fn of_threads(child: &Child, field: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let status =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let value = |status: String| {
        let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        value.trim().to_string()
    };
    status.map(value).collect()
}

/// Receives three datagrams. Returns the modes of seccomp, and `NoNewPrivs`, of its threads.
fn receive(options: &[&str]) -> (Vec<String>, Vec<String>) {
    let [modes, gains] = receive_with(options, ["Seccomp:", "NoNewPrivs:"]);
    (modes, gains)
}

/// Receives three datagrams. Returns these fields of its threads.
fn receive_with<const N: usize>(options: &[&str], fields: [&str; N]) -> [Vec<String>; N] {
    let from = ["receive", "--from", "udp:127.0.0.1:0", "--count", "3", "--json"];
    let mut child = command(&[&from[..], options].concat()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // As root a line before it says what the options do not stop.
    while !line.contains("listening on") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "no line");
    }
    let port = line.trim().rsplit(':').next().unwrap().parse::<u16>().unwrap_or_else(|_| panic!("{line}"));
    let found = fields.map(|field| of_threads(&child, field));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    (0..3).for_each(|_| assert_eq!(socket.send_to(b"datagram", ("127.0.0.1", port)).unwrap(), 8));
    let done = finish(child);
    assert_eq!((done.code, done.json()["packets"].as_u64()), (Some(0), Some(3)), "{done:?}");
    found
}

#[test]
fn filter_holds_for_every_thread_and_packets_come_through_it() {
    let (modes, gains) = receive(&["--seccomp", "on"]);
    assert!(modes.len() >= 2, "threads: {modes:?}");
    assert!(
        modes.iter().all(|mode| mode == "2") && gains.iter().all(|gains| gains == "1"),
        "{modes:?} {gains:?}"
    );
}

#[test]
fn no_thread_has_capabilities_once_they_are_dropped() {
    let sets = ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:", "NoNewPrivs:"];
    let [sets @ .., gains] = receive_with(&["--capabilities", "drop"], sets);
    for set in &sets {
        assert!(set.len() >= 2 && set.iter().all(|set| set == "0000000000000000"), "{sets:?}");
    }
    assert!(gains.iter().all(|gains| gains == "1"), "{gains:?}");
    // The device is bound again by a thread that may keep some; UDP takes none.
    let [gains] = receive_with(&["--capabilities", "reopen"], ["NoNewPrivs:"]);
    assert!(gains.iter().all(|gains| gains == "1"), "{gains:?}");
}

#[test]
fn nothing_is_filtered_unless_asked_for() {
    for options in [&[][..], &["--seccomp", "off"]] {
        let (modes, _) = receive(options);
        assert!(modes.iter().all(|mode| mode == "0"), "{modes:?}");
    }
}

#[test]
fn runs_in_a_filter_end_as_others_do() {
    let folder = Folder::new();
    let copy = text(&folder.path("copy.pcap"));
    let done = wharf(&[
        "send",
        "--pcap",
        SAMPLE,
        "--to",
        &format!("pcap:{copy}"),
        "--seccomp",
        "on",
        "-q",
        "--json",
    ]);
    assert_eq!(done.good_json()["packets"], SAMPLE_FRAMES);
    let done = wharf(&["forward", &format!("pcap:{copy}"), "null", "--seccomp", "on", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    // The second of two runs begins in the filter.
    let run = ["send", "--imix", "--senders", "3", "--seconds", "0.1", "--seccomp", "on", "-q", "--json"];
    let report = wharf(&run).good_json();
    assert!(report["compare"].is_object() && report["received"]["errors"] == 0, "{report}");
    let receive = ["receive", "--from", "udp:127.0.0.1:0", "--seccomp", "on", "--json"];
    let mut child = command(&receive).spawn().unwrap();
    // It is in its filter when it says this.
    let mut said = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listening on")));
    signal(&child, "TERM");
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.json();
}
