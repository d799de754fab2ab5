//! The live line, as a terminal shows it.

use crate::common::terminal::{Terminal, assert_wrapped, lines};
use crate::common::{command, text, wharf};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn the_line_of_a_receiver_has_its_rate_and_its_losses() {
    for columns in [80, 200] {
        let folder = crate::common::Folder::new();
        let log = text(&folder.path("out.pcap"));
        let from = format!("udp:127.0.0.1:{}", if columns == 80 { 47_301 } else { 47_302 });
        let args = ["receive", "--from", &from, "--seconds", "2", "--pcap", &log];
        let shown = Terminal::new(columns).shows(&args, |_| {
            std::thread::sleep(Duration::from_millis(300));
            // Every tenth number is missing.
            let paced = ["send", "--size", "60", "--rate", "2kpps", "--seconds", "1", "--to", &from];
            wharf(&[&paced[..], &["--fault", "error=1/10"]].concat());
        });
        let (drawn, kept) = lines(&shown);
        assert!(kept.iter().any(|line| line == &format!("wharf: listening on {from}")), "{kept:?}");
        assert!(drawn.iter().all(|line| line.chars().count() <= columns.into()), "{drawn:?}");
        let has_rate = |line: &String| line.contains("pps ") && line.contains("bit/s, received ");
        assert!(drawn.iter().any(has_rate), "{drawn:?}");
        let lost = drawn.iter().any(|line| line.contains(", lost ") && !line.contains(", lost 0"));
        assert!(lost, "{drawn:?}");
    }
}

#[test]
fn the_line_of_a_sender_has_drops_by_reason_and_follows_the_width() {
    let slow =
        ["send", "--rate", "20kpps", "--qdisc", "fifo:4", "--when-full", "drop-tail", "--seconds", "2"];
    let args = [&slow[..], &["--to", "wire:rate=1mbit"]].concat();
    let shown = Terminal::new(120).shows(&args, |terminal| {
        std::thread::sleep(Duration::from_millis(1000));
        terminal.resize(40);
    });
    let (drawn, _) = lines(&shown);
    assert!(drawn.iter().any(|line| line.contains(", dropped: drop-tail ")), "{drawn:?}");
    let (last, first) = (drawn.last().unwrap(), &drawn[0]);
    assert!(first.chars().count() > 40 && last.chars().count() <= 40, "{drawn:?}");
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
    let folder = crate::common::Folder::new();
    let to = format!("virtio-user:{},server=on", text(&folder.path("none.sock")));
    let terminal = Terminal::new(120);
    let mut command = command(&["send", "--size", "60", "--count", "1", "--to", &to]);
    command.stderr(Stdio::from(terminal.theirs.try_clone().unwrap()));
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    crate::common::signal(&child, "INT");
    crate::common::wait(&mut child);
    let mut shown = vec![0; 65536];
    let count = File::from(terminal.ours).read(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown[..count]).into_owned();
    assert!(shown.contains(": waiting up to 60 s for its other side, "), "{shown:?}");
}

/// The session is gone, and no signal came: `wharf top` neither stays nor uses a processor.
#[test]
fn top_ends_with_its_terminal() {
    let folder = crate::common::Folder::new();
    let control = text(&folder.path("run.sock"));
    let run =
        ["send", "--size", "60", "--to", "null", "--rate", "1kpps", "--seconds", "20", "--control", &control];
    let mut run = command(&run).spawn().unwrap();
    while !std::path::Path::new(&control).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let terminal = Terminal::new(100);
    let mut top = command(&["top", &control]);
    let ours = || Stdio::from(terminal.theirs.try_clone().unwrap());
    let mut child = top.env("TERM", "xterm").stdin(ours()).stdout(ours()).stderr(ours()).spawn().unwrap();
    drop(top);
    std::thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it draws");
    drop(terminal);
    let since = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = child.try_wait().unwrap();
    let _ = child.kill();
    crate::common::signal(&run, "INT");
    crate::common::wait(&mut run);
    let code = ended.expect("it goes on without a terminal").code();
    assert_eq!(code, Some(1), "an error, and no panic");
}
