//! Commands whose interface goes down, comes up, and is made again, in a network namespace of a user's own: no root is necessary.

use crate::common::{Done, wharf};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs `script` in new namespaces, with a veth pair `a` and `b`, and the built binary as `$WHARF`. Returns `None`, and says so, where no
/// user may have namespaces. The script's end is that of the command that it runs last.
fn inside(script: &str) -> Option<Done> {
    let made = "make() { ip link add a type veth peer name b && ip link set a up && ip link set b up; }; ip link set lo up && make";
    let script = format!("{made} && {{ {script}; }}");
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "-Urn", "sh", "-c", &script]).env("WHARF", env!("CARGO_BIN_EXE_wharf"));
    let probe = ["-Urn", "sh", "-c", "ip link add a type veth peer name b"];
    let probe = Command::new("unshare").args(probe).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: no user namespaces with veth here");
        return None;
    }
    let output = command.output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some(Done { code: output.status.code(), stdout, stderr })
}

/// The lines on standard error, each without the program's name.
fn lines(done: &Done) -> Vec<&str> {
    done.stderr.lines().map(|line| line.strip_prefix("wharf: ").unwrap_or(line)).collect()
}

fn by_reason<'a>(run: &'a Value, reason: &str) -> &'a Value {
    &run["drops"]["by_reason"][reason]
}

const DOWN: &str = "packet:a: the interface is down: `ip link set a up`: Network is down (os error 100)";

#[test]
fn a_sender_says_that_its_line_is_down_and_up_again() {
    let Some(done) = inside(
        "$WHARF send --to packet:a --size 200 --rate 5kpps --seconds 2.5 --json & \
         sleep 0.7; ip link set a down; sleep 0.7; ip link set a up; wait $!",
    ) else {
        return;
    };
    let lines = lines(&done);
    assert!(done.code == Some(1) && lines.len() == 3 && lines[0] == DOWN, "{done:?}");
    assert!(
        lines[1].starts_with("packet:a: the interface is up again after ")
            && lines[1].ends_with(" dropped meanwhile")
    );
    let run = done.json();
    let dropped = by_reason(&run, "link-down").as_u64().unwrap();
    assert_eq!(lines[2], format!("{dropped} packets failed: link-down"), "the line is up at the end");
    assert!(dropped > 0 && run["sent"].as_u64().unwrap() + dropped == run["packets"].as_u64().unwrap());
}

#[test]
fn a_line_that_stays_down_is_given_up() {
    let Some(done) = inside(
        "$WHARF send --to packet:a --size 200 --rate 5kpps --seconds 30 --give-up 500ms & \
         sleep 0.5; ip link set a down; wait $!",
    ) else {
        return;
    };
    let lines = lines(&done);
    assert!(done.code == Some(1) && lines[0] == DOWN, "{done:?}");
    assert!(lines[1].starts_with("packet:a: given up: its line was down for 0."), "{done:?}");
    let received = inside(
        "$WHARF receive --from packet:a --seconds 30 --give-up 500ms & sleep 0.5; ip link set a down; wait $!",
    )
    .unwrap();
    let last = received.stderr.lines().last().unwrap();
    assert!(last.starts_with("wharf: packet:a: given up: its line was down for 0."), "{received:?}");
}

#[test]
fn a_receiver_goes_on_once_its_line_is_up_again() {
    let Some(done) = inside(
        "$WHARF receive --from packet:a --count 500 --seconds 30 --json & \
         sleep 0.5; ip link set a down; sleep 0.5; ip link set a up; sleep 0.5; \
         $WHARF send --to packet:b --size 200 --count 600 --rate 5kpps --json >/dev/null; wait $!",
    ) else {
        return;
    };
    let lines = lines(&done);
    assert!(done.code == Some(0) && lines[1] == DOWN, "{done:?}");
    assert!(lines[2].starts_with("packet:a: the interface is up again after "), "{done:?}");
    // A receiver may end while its line is down: that is a fault.
    let ended = inside("$WHARF receive --from packet:a --seconds 1 & sleep 0.5; ip link set a down; wait $!")
        .unwrap();
    assert!(
        ended.code == Some(1) && ended.stderr.contains("its line was down when the run ended"),
        "{ended:?}"
    );
}

#[test]
fn packets_that_never_complete_are_lost_once_the_interface_is_made_again() {
    let Some(done) = inside(
        "$WHARF send --to packet:a --size 200 --rate 2kpps --seconds 4 --fault never=1/50 --json & \
         sleep 1; ip link del a; sleep 0.3; make; wait $!",
    ) else {
        return;
    };
    let run = done.json();
    // The byte limit lets few packets wait for their completion: without the loss nothing more would leave.
    let (sent, lost) = (run["sent"].as_u64().unwrap(), by_reason(&run, "lost").as_u64().unwrap());
    assert_eq!((done.code, &run["faults"]["injected"]["never"]), (Some(1), &lost.into()), "{done:?}");
    assert!(
        lost > 0 && sent + run["failed"].as_u64().unwrap() == run["packets"].as_u64().unwrap(),
        "{done:?}"
    );
    assert!(!done.stderr.contains("takes packets again"), "{done:?}");
}

#[test]
fn a_stall_that_lasts_to_the_end_is_not_over() {
    for device in ["null", "wire"] {
        let stalled = ["--fault", "never=1/10", "--seconds", "1.6", "--rate", "20kpps", "--json"];
        let done = wharf(&[&["send", "--to", device, "--size", "200"], &stalled[..]].concat());
        let run = done.json();
        assert_eq!(by_reason(&run, "lost"), &run["faults"]["injected"]["never"], "{done:?}");
        assert!(done.code == Some(1) && !done.stderr.contains("takes packets again"), "{done:?}");
    }
}

#[test]
fn a_receiver_whose_other_end_goes_down_says_so_and_gives_up() {
    let receive = "$WHARF receive --from packet:a --seconds 30 --give-up 700ms & sleep 0.5; ip link set b down; wait $!";
    let Some(done) = inside(receive) else { return };
    let lines = lines(&done);
    assert!(done.code == Some(1) && lines[1].starts_with("packet:a: a has no carrier: "), "{done:?}");
    assert!(lines[2].starts_with("packet:a: given up: its line was down for 0."), "{done:?}");
}

#[test]
fn an_interface_that_goes_while_nothing_completes_is_missed_at_once() {
    let Some(done) = inside(
        "$WHARF send --to packet:a --size 200 --rate 2kpps --seconds 3 --fault never=100% --on-stall report & \
         sleep 0.7; ip link del a; sleep 0.7; make; wait $!",
    ) else {
        return;
    };
    let has = |part: &str| done.stderr.contains(part);
    assert!(has("packet:a: the interface is gone") && has("packet:a: open again after "), "{done:?}");
    assert!(!has("the interface is down"), "{done:?}");
}

#[test]
fn a_flapping_line_of_two_queues_is_told_once_a_second() {
    let Some(done) = inside(
        "$WHARF send --to packet:a --size 200 --rate 10kpps --flows 8 --queues 2 --seconds 3 & sleep 0.5; \
         for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do ip link set b down; sleep 0.05; ip link set b up; sleep 0.05; done; \
         wait $!",
    ) else {
        return;
    };
    let downs = done.stderr.matches("packet:a: a has no carrier").count();
    let ups = done.stderr.matches("packet:a: the interface is up again").count();
    assert!((1..=4).contains(&ups) && downs == ups, "{done:?}");
    assert_eq!(done.stderr.matches("packets failed: link-down").count(), 1, "of both queues: {done:?}");
}
