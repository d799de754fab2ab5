//! `wharf show` and `wharf set`: clients of a control socket.

use super::change::KEYS;
use super::control::{Answer, Request};
use super::snapshot::{PathCounters, Snapshot};
use super::{places, text};
use crate::args::{SetArgs, ShowArgs};
use crate::output::{print, print_json, table as new_table, text as table_text, warn};
use crate::usage;
use anyhow::{Context, anyhow, bail};
use serde_json::json;
use std::fmt::{Display, Formatter};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wharf_sys::unix_socket;

/// Time for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(1);
/// Time for the answer to a change.
const ANSWER_TO_CHANGE: Duration = Duration::from_secs(5);
/// An answer that comes in pieces has so many times the time of its first.
const PIECES: u32 = 5;
/// Longest answer, with its line end: that of 5000 paths has less than half of it.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Longest text of an error that is shown.
const TEXT_MAX: usize = 400;
/// Time that rates are over.
const SAMPLE: Duration = Duration::from_millis(300);

/// A connection to a running process.
#[derive(Debug)]
pub(super) struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    /// Time for the next piece of an answer.
    patience: Duration,
    /// The part of an answer that has come.
    came: Vec<u8>,
}

/// The process has not answered in time: it is stopped, or its machine is busy.
#[derive(Debug)]
pub(super) struct Silent(String);

impl Display for Silent {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} does not answer", self.0)
    }
}

impl std::error::Error for Silent {}

impl Client {
    /// Connects to the process at `path`. A request to it has `patience` for its answer.
    pub(super) fn connect(path: &Path, patience: Duration) -> anyhow::Result<Self> {
        let connect = || {
            let stream = unix_socket::connect(path, unix_socket::Kind::Stream)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        };
        let stream: std::io::Result<UnixStream> = connect();
        let stream = stream.map_err(|error| match error.kind() {
            // It is stopped, with a full backlog.
            ErrorKind::TimedOut => Silent(places::process(path)).into(),
            _ => anyhow::Error::new(error).context(format!("{}: no process answers there", path.display())),
        })?;
        Ok(Self { path: path.into(), stream: BufReader::new(stream), patience, came: Vec::new() })
    }

    /// Sends a request, and returns the counters of the answer.
    pub(super) fn ask(&mut self, request: &Request) -> anyhow::Result<Snapshot> {
        self.request(request)?;
        self.answer()
    }

    /// Sends a request.
    pub(super) fn request(&mut self, request: &Request) -> anyhow::Result<()> {
        let line = format!("{}\n", serde_json::to_string(request)?);
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|error| self.failed(error))
    }

    /// Returns the counters of an answer. After [`Silent`], it may be called again.
    pub(super) fn answer(&mut self) -> anyhow::Result<Snapshot> {
        let came = self.read_line();
        if came.map_err(|error| self.failed(error))? == 0 {
            bail!("{}: the process has ended", self.path.display());
        }
        let line = std::mem::take(&mut self.came);
        let what = || format!("{}: no answer", self.path.display());
        let answer: Result<Answer, _> = serde_json::from_slice(&line);
        // The error of the parser may quote all of the answer.
        let answer = answer.map_err(|_| anyhow!("{}: what came is no answer of wharf", what()))?;
        match answer {
            Answer { error: Some(error), .. } => {
                Err(anyhow!(error.chars().take(TEXT_MAX).collect::<String>()))
            }
            Answer { snapshot, .. } => snapshot.with_context(what),
        }
    }

    /// Reads the rest of a line. Returns its bytes; 0 at the stream's end.
    fn read_line(&mut self) -> std::io::Result<usize> {
        let until = Instant::now() + self.patience * PIECES;
        loop {
            let piece = match self.stream.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            let end = piece.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(piece.len());
            self.came.extend_from_slice(&piece[..taken]);
            self.stream.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(if end.is_some() { self.came.len() } else { 0 });
            }
            if self.came.len() > ANSWER_BYTES_MAX {
                let what = format!("it is longer than {} MiB: no wharf answers so", ANSWER_BYTES_MAX >> 20);
                return Err(std::io::Error::new(ErrorKind::InvalidData, what));
            }
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    fn failed(&self, error: std::io::Error) -> anyhow::Error {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Silent(places::process(&self.path)).into(),
            _ => anyhow::Error::new(error).context(format!("{}: no answer", self.path.display())),
        }
    }
}

/// Shows the counters of a process, or lists those that run.
pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let Some(which) = &args.which else { return list(args.json) };
    let mut client = Client::connect(&places::find(which)?, ANSWER)?;
    // Rates are since the request before.
    client.ask(&Request::Show)?;
    std::thread::sleep(SAMPLE);
    let snapshot = client.ask(&Request::Show)?;
    if args.json { print_json(&snapshot) } else { print(&text::table(&snapshot)) }
}

/// Lists the running processes.
fn list(json: bool) -> anyhow::Result<()> {
    let all = answers();
    if json {
        let object = |(path, answer): &Found| match answer {
            Ok(snapshot) => json!(snapshot),
            Err(error) => json!({ "pid": places::pid(path), "paths": [], "error": error.to_string() }),
        };
        return print_json(&all.iter().map(object).collect::<Vec<_>>());
    }
    if all.is_empty() {
        return print(&places::none());
    }
    let mut table = new_table(&["process", "command", "for", "directions", "socket"]);
    for (path, answer) in &all {
        let Ok(snapshot) = answer else {
            let pid = places::pid(path).to_string();
            table.add_row([&pid, "", "", "does not answer", &path.display().to_string()]);
            continue;
        };
        let Snapshot { pid, command, time_s, paths, .. } = snapshot;
        let directions = paths.iter().map(PathCounters::ends).collect::<Vec<_>>().join("\n");
        let (pid, time) = (pid.to_string(), format!("{time_s:.0} s"));
        table.add_row([pid, command.clone(), time, directions, path.display().to_string()]);
    }
    print(&table_text(&table))
}

/// A socket, and the counters of its process.
pub(super) type Found = (PathBuf, anyhow::Result<Snapshot>);

/// Returns the sockets of all processes, each with the counters, or with [`Silent`]. They are asked at the same time.
pub(super) fn answers() -> Vec<Found> {
    let ask = |path: &Path| Client::connect(path, ANSWER).and_then(|mut client| client.ask(&Request::Show));
    let paths = places::all();
    std::thread::scope(|scope| {
        let asking: Vec<_> = paths.iter().map(|path| scope.spawn(move || ask(path))).collect();
        let found = paths.iter().cloned().zip(asking);
        let found = found.filter_map(|(path, thread)| Some((path, thread.join().ok()?)));
        // Other errors are those of a process that has ended meanwhile.
        found.filter(|(_, answer)| answer.as_ref().err().is_none_or(|error| error.is::<Silent>())).collect()
    })
}

/// Changes settings of a running process.
pub(crate) fn set(args: &SetArgs) -> anyhow::Result<()> {
    if args.words.is_empty() {
        return Err(usage(format!("want KEY=VALUE, such as rate=20mbit; the keys are {KEYS}")));
    }
    // The first word may be a change: then there is one process only.
    let (which, changes) = match args.words.split_first() {
        Some((first, rest)) if !first.contains('=') => (places::find(first)?, rest),
        _ => (places::only()?, &args.words[..]),
    };
    if changes.is_empty() {
        return Err(usage("want KEY=VALUE behind the process, such as rate=20mbit"));
    }
    let request = Request::Set { changes: changes.to_vec() };
    let mut client = Client::connect(&which, ANSWER_TO_CHANGE)?;
    let snapshot = client.ask(&request).map_err(|error| match error.downcast::<Silent>() {
        Ok(silent) => anyhow!("{silent}; the change may still be made when it does"),
        Err(error) => error,
    })?;
    if args.json {
        return print_json(&snapshot);
    }
    for path in &snapshot.paths {
        path.warning.iter().for_each(|what| warn(&format!("{}: {what}", path.path)));
        print(&format!("{}: {}", path.path, path.settings_texts().collect::<Vec<_>>().join(" ")))?;
    }
    Ok(())
}
