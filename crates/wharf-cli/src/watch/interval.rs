//! The thread that prints the counters: on SIGUSR1, and at an interval.

use super::board::Board;
use super::lines::Lines;
use super::minute;
use super::snapshot::Snapshot;
use super::text;
use crate::output::json_line;
use crate::plain::plain;
use crate::stream::{Stream, WRITE_ON, end, errors};
use crate::{log, log::Level, output};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use wharf_devices::pcap::flush_all;

/// Time until a reader that is behind is tried again.
const BEHIND: Duration = Duration::from_millis(100);
/// Ends the thread. A signal writes another byte.
pub(super) const STOP: u8 = 0;

/// See the module.
#[derive(Debug)]
pub(super) struct Printer {
    board: Board,
    json: bool,
    /// The file for the lines of the interval, in place of standard output and standard error.
    file: Option<Lines>,
    /// The file took no more.
    has_failed: bool,
    /// None if they go where errors go.
    reports: Option<Stream>,
    /// The last line of the interval.
    before: Option<Snapshot>,
    /// The last snapshot that a signal asked for.
    asked: Option<Snapshot>,
}

impl Printer {
    pub(super) fn new(board: Board, json: bool, file: Option<Lines>) -> Self {
        let reports = (!output::is_one_stream()).then(|| Stream::new(|| Box::new(std::io::stdout())));
        Self { board, json, file, has_failed: false, reports, before: None, asked: None }
    }

    /// Prints until it is told to stop by `woken`.
    pub(super) fn run(mut self, woken: UnixStream, every: Option<Duration>) {
        let mut due = every.map(|every| Instant::now() + every);
        let mut noted = Instant::now();
        loop {
            let next = due.into_iter().fold(noted + minute::EVERY, Instant::min);
            let is_behind = errors().is_behind() || self.reports.as_ref().is_some_and(Stream::is_behind);
            let next = if is_behind { next.min(Instant::now() + BEHIND) } else { next };
            // A timeout of zero would be an error.
            let left = next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if woken.set_read_timeout(Some(left)).is_err() {
                return;
            }
            let mut byte = [STOP];
            match (&woken).read(&mut byte) {
                Ok(1) if byte == [WRITE_ON] => {}
                Ok(1) if byte != [STOP] => self.print_all(),
                Ok(_) => return self.end(every.is_some()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let now = Instant::now();
                    errors().write_rest();
                    self.reports.iter_mut().for_each(Stream::write_rest);
                    if noted + minute::EVERY <= now {
                        self.board.note_minute();
                        noted = now;
                    }
                    if let Some((at, every)) = due.filter(|&due| due <= now).zip(every) {
                        self.print_line();
                        due = Some((at + every).max(now));
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Prints all counters on standard error, and has captures written as far as they have come.
    fn print_all(&mut self) {
        flush_all();
        let snapshot = self.board.snapshot().with_rates(self.asked.as_ref());
        // A record of a log is one line.
        let is_object = self.json || log::is_on();
        Self::tell(&if is_object { json_line(&snapshot) } else { text::table(&snapshot) });
        self.asked = Some(snapshot);
    }

    /// Prints a text on standard error: as it is, or as one record of the log.
    fn tell(text: &str) {
        let text = plain(text);
        if !log::is_on() {
            errors().print(&text);
        } else if errors().is_ready() {
            log::record(Level::Note, &text);
        }
    }

    /// Prints the line of an interval.
    fn print_line(&mut self) {
        let snapshot = self.board.snapshot().with_rates(self.before.as_ref());
        match &mut self.file {
            Some(file) => {
                if let Err(error) = file.write(&json_line(&snapshot)) {
                    output::complain(&format!(
                        "--stats-file: cannot write to it: {error}; no more is written"
                    ));
                    (self.file, self.has_failed) = (None, true);
                }
            }
            None if self.has_failed => {}
            None if self.json && log::is_on() => Self::tell(&json_line(&snapshot)),
            None if self.json => {
                let line = json_line(&snapshot);
                match &mut self.reports {
                    Some(reports) => reports.print(&line),
                    None => errors().print(&line),
                }
            }
            None if log::is_on() => Self::tell(&text::line(&snapshot)),
            None => Self::tell(&format!("wharf: {}", text::line(&snapshot))),
        }
        self.before = Some(snapshot);
    }

    /// Prints the last line of the interval: its counters are those of the summary.
    fn end(mut self, has_lines: bool) {
        if has_lines {
            self.print_line();
        }
        // The summary waits for its reader, too.
        match &mut self.reports {
            Some(reports) => reports.finish(None),
            None => errors().finish(None),
        }
        tell_left_out("--stats-file", self.file.as_ref().map_or(0, Lines::left_out));
        let left_out = self.reports.as_ref().map_or(0, Stream::left_out) + errors().left_out();
        tell_left_out("standard output and error", left_out);
        end();
    }
}

/// Notes the lines that were left out.
fn tell_left_out(place: &str, left_out: u64) {
    if left_out > 0 {
        let lines = if left_out == 1 { "1 line" } else { &format!("{left_out} lines") };
        output::note(&format!("{place}: {lines} left out, because it takes no more, or too slowly"));
    }
}
