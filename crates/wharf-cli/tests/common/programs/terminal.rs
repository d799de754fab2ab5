//! A terminal.

use super::running::Output;
use super::{Running, command, eventually, wait, wharf};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// A terminal of some columns.
pub struct Terminal {
    pub ours: OwnedFd,
    pub theirs: File,
}

impl Terminal {
    pub fn new(columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let terminal = Self { ours, theirs };
        terminal.resize(columns);
        terminal
    }

    pub fn resize(&self, columns: u16) {
        tcsetwinsize(&self.ours, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
    }

    /// Runs `wharf` with this as its standard error. Returns all that was shown.
    pub fn shows(self, args: &[&str], meanwhile: impl FnOnce(&Shown)) -> String {
        let mut command = command(args);
        command.stderr(Stdio::from(self.theirs.try_clone().unwrap()));
        self.shows_of(command, meanwhile)
    }

    /// Runs `wharf` with this as its standard output.
    pub fn prints(self, args: &[&str]) -> String {
        let mut command = command(args);
        command.stdout(Stdio::from(self.theirs.try_clone().unwrap()));
        self.shows_of(command, |_| {})
    }

    pub fn shows_of(self, mut command: Command, meanwhile: impl FnOnce(&Shown)) -> String {
        let run = Running::of(command.env("TERM", "xterm"));
        // It holds the other side of the terminal, too.
        drop(command);
        let text = Output::of(File::from(self.ours.try_clone().unwrap()));
        let mut shown = Shown { terminal: self, run, text };
        meanwhile(&shown);
        wait(&mut shown.run.child);
        drop(shown.terminal);
        shown.text.all()
    }
}

/// A program on a terminal.
pub struct Shown {
    pub terminal: Terminal,
    run: Running,
    text: Output,
}

impl Shown {
    /// Waits until `look` takes a line that the terminal has shown, drawn or kept. Returns what it makes of it.
    #[track_caller]
    pub fn until<T>(&self, look: impl Fn(&str) -> Option<T>) -> T {
        eventually(|| {
            let text = self.text.so_far();
            let (drawn, kept) = lines(&text);
            drawn.iter().chain(&kept).find_map(|line| look(line)).ok_or(text)
        })
    }

    pub fn signal(&self, name: &str) {
        self.run.signal(name);
    }
}

/// Returns the lines that were drawn and erased again, and those that stay.
pub fn lines(shown: &str) -> (Vec<String>, Vec<String>) {
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

/// Every word of the tables that a program gets is on the terminal, too: none is cut in the middle.
pub fn assert_wrapped(commands: &[&[&str]]) {
    for args in commands {
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
