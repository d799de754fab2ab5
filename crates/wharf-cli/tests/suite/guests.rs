//! Virtual machines behind `vhost-user` that boot, pause and go: none of it is a fault of theirs.

use crate::common::driver::Guest;
use crate::common::{Folder, command, finish, signal, text};
use std::time::{Duration, Instant};

/// Longer than `--on-stall` waits.
const LONG: Duration = Duration::from_secs(12);

/// Starts a sender of 200 packets a second to a machine, with these arguments more.
fn sender(folder: &Folder, more: &[&str]) -> std::process::Child {
    let to = format!("vhost-user:{}", text(&folder.path("vm.sock")));
    let usual = ["send", "--to", &to, "--size", "200", "--json"];
    command(&[&usual[..], more].concat()).spawn().unwrap()
}

#[test]
fn a_machine_that_takes_nothing_for_long_keeps_its_connection_and_gets_packets_afterwards() {
    let folder = Folder::new();
    let child = sender(&folder, &["--rate", "200pps"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    guest.enable();
    std::thread::sleep(LONG);
    assert!(guest.is_connected());
    assert_eq!(guest.used(), 0);
    guest.post();
    guest.await_used(16);
    signal(&child, "INT");
    let done = finish(child);
    assert!(done.stderr.contains("vm.sock: its other side has completed none of "), "{done:?}");
    assert!(done.stderr.contains("packets wait") && !done.stderr.contains("opened anew"), "{done:?}");
    assert_eq!(done.json()["pool"]["out"], 0);
}

#[test]
fn a_machine_that_takes_nothing_is_hung_up_on_if_that_is_asked_for() {
    let folder = Folder::new();
    let child = sender(&folder, &["--rate", "200pps", "--on-stall", "reset"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    guest.enable();
    let began = Instant::now();
    while guest.is_connected() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never ends");
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&child, "INT");
    let done = finish(child);
    assert!(done.stderr.contains("it is opened anew"), "{done:?}");
}

#[test]
fn a_machine_that_goes_ends_a_run_that_is_to_fail_by_it() {
    let folder = Folder::new();
    let child = sender(&folder, &["--rate", "200pps", "--on-gone", "fail"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    guest.enable();
    guest.post();
    guest.await_used(16);
    drop(guest);
    let done = finish(child);
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
        let child = sender(&folder, &[policy, &["--rate", "200pps"]].concat());
        let mut guest = Guest::boot(&folder.path("vm.sock"));
        std::thread::sleep(Duration::from_secs(4));
        guest.enable();
        guest.post();
        guest.await_used(16);
        signal(&child, "INT");
        let done = finish(child);
        let run = done.json();
        let dropped = run["drops"]["by_reason"]["not-enabled"].as_u64().unwrap_or(0);
        // The first 2 s may wait for the driver; of the rest all are dropped.
        assert!(dropped > 0 && run["sent"] == 16, "{done:?}");
        assert!(!done.stderr.contains("busy"), "{done:?}");
        assert_eq!(run["pool"]["out"], 0);
    }
}

#[test]
fn packets_that_must_not_be_dropped_wait_for_a_machine_however_long_it_boots() {
    let folder = Folder::new();
    let child = sender(&folder, &["--count", "16"]);
    let mut guest = Guest::boot(&folder.path("vm.sock"));
    std::thread::sleep(Duration::from_secs(4));
    guest.enable();
    guest.post();
    guest.await_used(16);
    let done = finish(child);
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
