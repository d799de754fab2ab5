//! The live line, as a terminal shows it.

mod common;

use common::{command, text, wharf};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A terminal of some columns.
struct Terminal {
    ours: OwnedFd,
    theirs: File,
}

impl Terminal {
    fn new(columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let terminal = Self { ours, theirs };
        terminal.resize(columns);
        terminal
    }

    fn resize(&self, columns: u16) {
        tcsetwinsize(&self.ours, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
    }

    /// Runs `wharf` with this as its standard error; `meanwhile` has it to change. Returns all that was shown.
    fn shows(self, args: &[&str], meanwhile: impl FnOnce(&Self)) -> String {
        let mut command = command(args);
        command.stderr(Stdio::from(self.theirs.try_clone().unwrap()));
        self.shows_of(command, meanwhile)
    }

    /// Runs `wharf` with this as its standard output.
    fn prints(self, args: &[&str]) -> String {
        let mut command = command(args);
        command.stdout(Stdio::from(self.theirs.try_clone().unwrap()));
        self.shows_of(command, |_| {})
    }

    fn shows_of(self, mut command: Command, meanwhile: impl FnOnce(&Self)) -> String {
        let mut child = command.env("TERM", "xterm").spawn().unwrap();
        // It holds the other side of the terminal, too.
        drop(command);
        let mut reader = File::from(self.ours.try_clone().unwrap());
        let reading = std::thread::spawn(move || {
            let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
            // An error: the command has closed its side, and so have we.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shown.extend_from_slice(&bytes[..count]);
            }
            String::from_utf8(shown).unwrap()
        });
        meanwhile(&self);
        common::wait(&mut child);
        drop(self.theirs);
        reading.join().unwrap()
    }
}

/// Returns the lines that were drawn and erased again, and those that stay.
fn lines(shown: &str) -> (Vec<String>, Vec<String>) {
    let (mut drawn, mut kept, mut line) = (Vec::new(), Vec::new(), String::new());
    let mut letters = shown.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' => kept.push(std::mem::take(&mut line)),
            '\r' => drawn.push(std::mem::take(&mut line)),
            '\x1b' => {
                drawn.push(std::mem::take(&mut line));
                letters.next();
                while letters.next_if(|letter| !letter.is_ascii_alphabetic()).is_some() {}
                letters.next();
            }
            letter => line.push(letter),
        }
    }
    drawn.retain(|line| !line.is_empty());
    (drawn, kept)
}

#[test]
fn the_line_of_a_receiver_has_its_rate_and_its_losses() {
    for columns in [80, 200] {
        let folder = common::Folder::new();
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

/// Every word of the tables that a program gets is on the terminal, too: none is cut in the middle.
#[test]
fn tables_are_wrapped_between_words() {
    for args in
        [&["devices"][..], &["plan"], &["lab", "list"], &["lab", "run", "bql", "--set", "phase_ns=2000000"]]
    {
        let (_, kept) = lines(&Terminal::new(80).prints(args));
        assert!(kept.iter().all(|line| line.chars().count() <= 80), "{args:?}: {kept:?}");
        let shown: Vec<&str> = kept.iter().flat_map(|line| words(line)).collect();
        let plain = wharf(args).stdout;
        let missing: Vec<&str> = words(&plain).filter(|word| !shown.contains(word)).collect();
        assert!(missing.is_empty() && kept.len() > 10, "{args:?}: {missing:?} of {kept:?}");
    }
}

/// Returns the words between blanks, commas and bars.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\n', ',', '|', '/']).filter(|word| !word.is_empty())
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
    let folder = common::Folder::new();
    let to = format!("virtio-user:{},server=on", text(&folder.path("none.sock")));
    let terminal = Terminal::new(120);
    let mut command = command(&["send", "--size", "60", "--count", "1", "--to", &to]);
    command.stderr(Stdio::from(terminal.theirs.try_clone().unwrap()));
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    common::signal(&child, "INT");
    common::wait(&mut child);
    let mut shown = vec![0; 65536];
    let count = File::from(terminal.ours).read(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown[..count]).into_owned();
    assert!(shown.contains(": waiting up to 60 s for its other side, "), "{shown:?}");
}

/// The session is gone, and no signal came: `wharf top` neither stays nor uses a processor.
#[test]
fn top_ends_with_its_terminal() {
    let folder = common::Folder::new();
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
    common::signal(&run, "INT");
    common::wait(&mut run);
    let code = ended.expect("it goes on without a terminal").code();
    assert_eq!(code, Some(1), "an error, and no panic");
}
