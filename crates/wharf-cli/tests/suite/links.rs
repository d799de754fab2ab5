//! Commands whose interface goes down, comes up, and is made again, in a network namespace of a user's own: no root is necessary.

use crate::common::show::{until_moved, until_path};
use crate::common::{Done, Folder, PROGRAM, Running, command, eventually, text};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// New namespaces with a veth pair `va` and `vb`, for as long as a process there waits for input.
struct Network {
    folder: Folder,
    holder: Running,
}

impl Network {
    /// Returns `None`, and says so, where no user may have namespaces.
    fn new() -> Option<Self> {
        let mut holder = Command::new("unshare");
        holder.args(["-Urn", "sh", "-c", "ip link set lo up && echo made && exec cat"]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = Running::of(&mut holder);
        eventually(|| {
            (!holder.said().concat().is_empty() || !holder.goes_on()).then_some(()).ok_or("no word")
        });
        let network = Self { folder: Folder::new(), holder };
        if network.holder.said()[0] == "made\n" && network.make() {
            return Some(network);
        }
        let why = format!("no user namespaces with veth here: {:?}", network.holder.said());
        assert!(std::env::var_os("CI").is_none(), "{why}");
        println!("skipped: {why}");
        None
    }

    /// Makes the pair.
    fn make(&self) -> bool {
        self.ip("link add va type veth peer name vb")
            && self.ip("link set va up")
            && self.ip("link set vb up")
    }

    /// The start of a command line that runs a program here.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.child.id().to_string();
        command.args(["--preserve-credentials", "-U", "-n", "-t", &holder, program]);
        command
    }

    fn ip(&self, words: &str) -> bool {
        self.inside("ip").args(words.split(' ')).status().unwrap().success()
    }

    /// Starts `wharf` here, with a control socket.
    fn start(&self, words: &str) -> Running {
        let _ = std::fs::remove_file(self.folder.path("control"));
        let mut run = self.inside(PROGRAM);
        run.args(words.split_whitespace()).args(["--control", &text(&self.folder.path("control"))]);
        Running::of(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts a sender by `va`, and waits until it sends.
    fn sends(&self, more: &str) -> Running {
        let run = self.start(&format!("send --to packet:va --size 200 --seconds 1h --json {more}"));
        until_moved(&self.folder.path("control"), 1);
        run
    }

    /// Starts a receiver by `va`, and waits until it listens.
    fn receives(&self, more: &str) -> Running {
        let mut run = self.start(&format!("receive --from packet:va --seconds 1h --json {more}"));
        run.until_said("listening on packet:va");
        run
    }

    /// Waits until `is` holds of the run that was started last.
    fn until(&self, is: impl Fn(&Value) -> bool) -> Value {
        until_path(&self.folder.path("control"), is)
    }

    /// Waits until that run sends more.
    fn until_it_sends(&self) {
        let sent = self.until(|_| true)["sent"].as_u64();
        self.until(|path| path["sent"].as_u64() > sent);
    }
}

/// The lines on standard error, each without the program's name.
fn lines(done: &Done) -> Vec<&str> {
    done.news().into_iter().map(|line| line.strip_prefix("wharf: ").unwrap_or(line)).collect()
}

fn by_reason<'a>(run: &'a Value, reason: &str) -> &'a Value {
    &run["drops"]["by_reason"][reason]
}

/// Asserts that the run has failed, with these words and so many seconds at least at the end.
#[track_caller]
fn assert_given_up(done: &Done, words: &str, seconds: f64) {
    let lines = lines(done);
    let after = lines.last().and_then(|line| line.strip_prefix(words)?.split(' ').next()?.parse().ok());
    assert!(done.code == Some(1) && after >= Some(seconds), "{done:?}");
}

const DOWN: &str = "packet:va: the interface is down: `ip link set va up`: Network is down (os error 100)";
const UP: &str = "packet:va: the interface is up again after ";
const GIVEN_UP: &str = "packet:va: given up: its line was down for ";

#[test]
fn a_sender_says_that_its_line_is_down_and_up_again() {
    let Some(network) = Network::new() else { return };
    let mut run = network.sends("--rate 5kpps");
    network.ip("link set va down");
    run.until_said(DOWN);
    network.until(|path| path["drops"]["link-down"].as_u64() > Some(0));
    network.ip("link set va up");
    run.until_said(UP);
    network.until_it_sends();
    let done = run.end();
    let lines = lines(&done);
    assert!(done.code == Some(1) && lines[0] == DOWN, "{done:?}");
    let up = lines.iter().find(|line| line.starts_with(UP));
    assert!(up.is_some_and(|up| up.ends_with(" dropped meanwhile")), "{done:?}");
    let run = done.json();
    let dropped = by_reason(&run, "link-down").as_u64().unwrap();
    let last = format!("{dropped} packets failed: link-down");
    assert_eq!(*lines.last().unwrap(), last, "the line is up at the end");
    assert_eq!(run["sent"].as_u64().unwrap() + dropped, run["packets"].as_u64().unwrap(), "{run}");
}

#[test]
fn a_line_that_stays_down_is_given_up() {
    let Some(network) = Network::new() else { return };
    let run = network.sends("--rate 5kpps --give-up 500ms");
    network.ip("link set va down");
    assert_given_up(&run.finish(), GIVEN_UP, 0.5);
    network.ip("link set va up");
    let run = network.receives("--give-up 500ms");
    network.ip("link set va down");
    assert_given_up(&run.finish(), GIVEN_UP, 0.5);
}

#[test]
fn a_receiver_goes_on_once_its_line_is_up_again() {
    let Some(network) = Network::new() else { return };
    let mut run = network.receives("--count 500");
    network.ip("link set va down");
    run.until_said(DOWN);
    network.ip("link set va up");
    run.until_said(UP);
    let mut send = network.inside(PROGRAM);
    send.args("send --to packet:vb --size 200 --count 600 --rate 5kpps -q".split(' '));
    assert!(send.stdout(Stdio::null()).status().unwrap().success());
    let done = run.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
    // A receiver may end while its line is down: that is a fault, unless the line had no time to come up.
    let mut run = network.receives("");
    network.ip("link set va down");
    run.until_said(DOWN);
    sleep(Duration::from_secs(1));
    let ended = run.end();
    assert!(
        ended.code == Some(1) && ended.stderr.contains("its line was down when the run ended"),
        "{ended:?}"
    );
}

#[test]
fn packets_that_never_complete_are_lost_once_the_interface_is_made_again() {
    let Some(network) = Network::new() else { return };
    let mut run = network.sends("--rate 2kpps --fault never=1/50");
    network.until(|path| path["device_packets"].as_u64() > Some(0));
    network.ip("link del va");
    run.until_said("packet:va: the interface is gone");
    network.make();
    run.until_said("packet:va: open again after ");
    network.until_it_sends();
    let done = run.end();
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
        let args =
            format!("send --to {device} --size 200 --fault never=1/10 --seconds 1h --rate 20kpps --json");
        let mut run = Running::of(&mut command(&args.split(' ').collect::<Vec<_>>()));
        run.until_said("has completed none of ");
        let done = run.end();
        let run = done.json();
        assert_eq!(by_reason(&run, "lost"), &run["faults"]["injected"]["never"], "{done:?}");
        assert!(done.code == Some(1) && !done.stderr.contains("takes packets again"), "{done:?}");
    }
}

#[test]
fn a_receiver_whose_other_end_goes_down_says_so_and_gives_up() {
    let Some(network) = Network::new() else { return };
    let mut run = network.receives("--give-up 1s");
    network.ip("link set vb down");
    run.until_said("packet:va: va has no carrier: ");
    assert_given_up(&run.finish(), GIVEN_UP, 1.0);
}

#[test]
fn an_interface_that_goes_while_nothing_completes_is_missed_at_once() {
    let Some(network) = Network::new() else { return };
    let mut run =
        network.start("send --to packet:va --size 200 --rate 2kpps --fault never=100% --on-stall report");
    network.until(|path| path["device_packets"].as_u64() > Some(0));
    network.ip("link del va");
    run.until_said("packet:va: the interface is gone");
    network.make();
    run.until_said("packet:va: open again after ");
    let done = run.end();
    // The new one is down at first.
    let (before, _) = done.stderr.split_once("the interface is gone").unwrap();
    assert!(!before.contains("the interface is down"), "{done:?}");
}

#[test]
fn a_flapping_line_of_two_queues_is_told_once_a_second() {
    let Some(network) = Network::new() else { return };
    let mut run = network.sends("--rate 10kpps --flows 8 --queues 2");
    let began = Instant::now();
    network.ip("link set vb down");
    run.until_said("packet:va: va has no carrier");
    network.until(|path| path["drops"]["link-down"].as_u64() > Some(0));
    for _ in 0..15 {
        network.ip("link set vb up");
        network.ip("link set vb down");
    }
    network.ip("link set vb up");
    network.until_it_sends();
    let (told, seconds) =
        (|run: &Running, words: &str| run.said()[1].matches(words).count(), || began.elapsed());
    let [downs, ups] = ["packet:va: va has no carrier", "packet:va: the interface is up again"];
    eventually(|| (told(&run, downs) == told(&run, ups)).then_some(()).ok_or_else(|| run.said()[1].clone()));
    let most = seconds().as_secs() as usize + 1;
    let done = run.end();
    let ups = done.stderr.matches(ups).count();
    assert!((1..=most).contains(&ups), "{ups} in {most} s: {done:?}");
    assert_eq!(done.stderr.matches("packets failed: link-down").count(), 1, "of both queues: {done:?}");
}
