//! Virtual machines behind `vhost-user` that boot, pause and go: none of it is a fault of theirs.

use crate::common::driver::Guest;
use crate::common::show::until_path;
use crate::common::{Folder, Running, eventually, text};
use std::time::{Duration, Instant};

/// Starts a sender of 200 packets a second to a machine, with these arguments more.
fn sender(folder: &Folder, more: &[&str]) -> Running {
    let to = format!("vhost-user:{}", text(&folder.path("vm.sock")));
    let control = text(&folder.path("control"));
    let usual = ["send", "--to", &to, "--size", "200", "--json", "--control", &control];
    Running::start(&[&usual[..], more].concat())
}

#[test]
fn a_machine_that_takes_nothing_for_long_keeps_its_connection_and_gets_packets_afterwards() {
    let folder = Folder::new();
    let mut run = sender(&folder, &["--rate", "200pps"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    guest.enable();
    run.until_said("vm.sock: its other side has completed none of ");
    assert!(guest.is_connected());
    assert_eq!(guest.used(), 0);
    guest.post();
    guest.await_used(16);
    let done = run.end();
    assert!(done.stderr.contains("packets wait") && !done.stderr.contains("opened anew"), "{done:?}");
    assert_eq!(done.json()["pool"]["out"], 0);
}

#[test]
fn a_machine_that_takes_nothing_is_hung_up_on_if_that_is_asked_for() {
    let folder = Folder::new();
    let run = sender(&folder, &["--rate", "200pps", "--on-stall", "reset"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    guest.enable();
    eventually(|| (!guest.is_connected()).then_some(()).ok_or("it is connected"));
    let done = run.end();
    assert!(done.stderr.contains("it is opened anew"), "{done:?}");
}

#[test]
fn a_machine_that_goes_ends_a_run_that_is_to_fail_by_it() {
    let folder = Folder::new();
    let run = sender(&folder, &["--rate", "200pps", "--on-gone", "fail"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    guest.enable();
    guest.post();
    guest.await_used(16);
    drop(guest);
    let done = run.finish();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(done.json()["pool"]["out"], 0);
}

#[test]
fn packets_that_may_be_dropped_do_not_wait_for_a_machine_that_boots() {
    for policy in [
        &["--qdisc", "fifo", "--when-full", "drop-tail"][..],
        &["--qdisc", "fq_codel", "--when-full", "drop-head"],
    ] {
        let folder = Folder::new();
        let run = sender(&folder, &[policy, &["--rate", "200pps"]].concat());
        let mut guest = Guest::boot(&folder.path("vm.sock"));
        // The first 2 s may wait for the driver; of the rest all are dropped.
        let is_dropped = |path: &serde_json::Value| path["drops"]["not-enabled"].as_u64() > Some(0);
        until_path(&folder.path("control"), is_dropped);
        guest.enable();
        guest.post();
        guest.await_used(16);
        let done = run.end();
        let run = done.json();
        let dropped = run["drops"]["by_reason"]["not-enabled"].as_u64().unwrap_or(0);
        assert!(dropped > 0 && run["sent"] == 16, "{done:?}");
        assert!(!done.stderr.contains("busy"), "{done:?}");
        assert_eq!(run["pool"]["out"], 0);
    }
}

#[test]
fn packets_that_must_not_be_dropped_wait_for_a_machine_however_long_it_boots() {
    let folder = Folder::new();
    let mut run = sender(&folder, &["--count", "16"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    let booted = Instant::now();
    run.until_said("no virtqueue of its driver is enabled");
    // Longer than those wait that may be dropped.
    std::thread::sleep(Duration::from_millis(2500).saturating_sub(booted.elapsed()));
    guest.enable();
    guest.post();
    guest.await_used(16);
    let done = run.finish();
    let run = done.json();
    assert_eq!(
        (run["sent"].as_u64(), run["failed"].as_u64(), done.code),
        (Some(16), Some(0), Some(0)),
        "{done:?}"
    );
    assert!(
        done.stderr.contains("no virtqueue of its driver is enabled") && !done.stderr.contains("busy"),
        "{done:?}"
    );
}
