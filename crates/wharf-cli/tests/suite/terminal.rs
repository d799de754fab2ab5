//! The live line, as a terminal shows it.

use crate::common::show::until_moved;
use crate::common::terminal::{Terminal, assert_wrapped, lines};
use crate::common::{Folder, Running, command, eventually, text};
use std::path::Path;
use std::process::Stdio;

#[test]
fn the_line_of_a_receiver_has_its_rate_and_its_losses() {
    for columns in [80, 200] {
        let folder = Folder::new();
        let log = text(&folder.path("out.pcap"));
        let args = ["receive", "--from", "udp:127.0.0.1:0", "--seconds", "1h", "--pcap", &log];
        let shown = Terminal::new(columns).shows(&args, |shown| {
            let to = shown.until(|line| Some(line.strip_prefix("wharf: listening on ")?.to_string()));
            // Every tenth number is missing.
            let paced = ["send", "--size", "60", "--rate", "2kpps", "--seconds", "1h", "--to", &to];
            let sender = Running::start(&[&paced[..], &["--fault", "error=1/10"]].concat());
            let has_lost = |line: &str| line.contains(", lost ") && !line.contains(", lost 0");
            shown.until(|line| has_lost(line).then_some(()));
            shown.signal("INT");
            drop(sender);
        });
        let (drawn, _) = lines(&shown);
        assert!(drawn.iter().all(|line| line.chars().count() <= columns.into()), "{drawn:?}");
        let has_rate = |line: &String| line.contains("pps ") && line.contains("bit/s, received ");
        assert!(drawn.iter().any(has_rate), "{drawn:?}");
    }
}

#[test]
fn the_line_of_a_sender_has_drops_by_reason_and_follows_the_width() {
    let slow =
        ["send", "--rate", "20kpps", "--qdisc", "fifo:4", "--when-full", "drop-tail", "--seconds", "1h"];
    let args = [&slow[..], &["--to", "wire:rate=1mbit"]].concat();
    let shown = Terminal::new(120).shows(&args, |shown| {
        shown.until(|line| line.contains(", dropped: drop-tail ").then_some(()));
        shown.terminal.resize(40);
        // The whole line is far longer.
        shown.until(|line| (line.contains("pps ") && line.chars().count() <= 40).then_some(()));
        shown.signal("INT");
    });
    let (drawn, _) = lines(&shown);
    assert!(drawn.last().unwrap().chars().count() <= 40, "{drawn:?}");
    assert!(drawn.iter().all(|line| line.chars().count() <= 120), "{drawn:?}");
}

#[test]
fn tables_are_wrapped_between_words() {
    assert_wrapped(&[&["devices"]]);
}

#[test]
fn a_summary_on_a_terminal_fits_it_and_sets_thousands_apart() {
    let args = ["send", "--size", "60", "--count", "12345", "--to", "wire", "--rate", "200mpps"];
    let (_, kept) = lines(&Terminal::new(60).prints(&args));
    assert!(kept.iter().any(|line| line.starts_with("sent") && line.contains("12\u{202f}345")), "{kept:?}");
    let folded = kept.iter().filter(|line| !line.starts_with("Next: "));
    assert!(folded.clone().all(|line| line.chars().count() <= 60), "{kept:?}");
}

/// A back end that does not come is waited for, and the terminal says so.
#[test]
fn a_wait_for_a_peer_is_shown() {
    let folder = Folder::new();
    let to = format!("virtio-user:{},server=on", text(&folder.path("none.sock")));
    let args = ["send", "--size", "60", "--count", "1", "--to", &to];
    Terminal::new(120).shows(&args, |shown| {
        shown.until(|line| line.contains(": waiting up to 60 s for its other side, ").then_some(()));
        shown.signal("INT");
    });
}

/// The session is gone, and no signal came: `wharf top` neither stays nor uses a processor.
#[test]
fn top_ends_with_its_terminal() {
    let folder = Folder::new();
    let control = text(&folder.path("run.sock"));
    let run = ["send", "--size", "60", "--to", "null", "--rate", "1kpps", "--seconds", "1h", "--control"];
    let run = Running::start(&[&run[..], &[&control]].concat());
    until_moved(Path::new(&control), 1);
    let terminal = Terminal::new(100);
    let mut command = command(&["top", &control]);
    let ours = || Stdio::from(terminal.theirs.try_clone().unwrap());
    let mut top = Running::of(command.env("TERM", "xterm").stdin(ours()).stdout(ours()).stderr(ours()));
    // It holds the other side of the terminal, too.
    drop(command);
    rustix::io::ioctl_fionbio(&terminal.ours, true).unwrap();
    let mut drawn = String::new();
    eventually(|| {
        let mut part = [0; 4096];
        let count = rustix::io::read(&terminal.ours, &mut part).unwrap_or(0);
        drawn += &String::from_utf8_lossy(&part[..count]);
        drawn.contains("quit").then_some(()).ok_or_else(|| drawn.clone())
    });
    assert!(top.goes_on(), "it draws");
    drop(terminal);
    eventually(|| (!top.goes_on()).then_some(()).ok_or("it goes on without a terminal"));
    assert_eq!(top.finish().code, Some(1), "an error, and no panic");
    run.end();
}
