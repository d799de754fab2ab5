//! `wharf show` and `wharf set`: clients of a control socket.

use super::control::{Answer, Request};
use super::snapshot::Snapshot;
use super::{places, text};
use crate::args::{SetArgs, ShowArgs};
use crate::output::{print, print_json, table as new_table, text as table_text};
use crate::usage;
use anyhow::{Context, anyhow, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Time that rates are over.
const SAMPLE: Duration = Duration::from_millis(300);

/// A connection to a running process.
#[derive(Debug)]
pub(super) struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    pub(super) fn connect(path: &Path) -> anyhow::Result<Self> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.set_write_timeout(Some(ANSWER))?;
            Ok(stream)
        };
        let stream: std::io::Result<UnixStream> = connect();
        let stream = stream.with_context(|| format!("{}: no process answers there", path.display()))?;
        Ok(Self { path: path.into(), stream: BufReader::new(stream) })
    }

    /// Sends a request, and returns the counters of the answer.
    pub(super) fn ask(&mut self, request: &Request) -> anyhow::Result<Snapshot> {
        let what = || format!("{}: no answer", self.path.display());
        let line = format!("{}\n", serde_json::to_string(request)?);
        let mut answer = String::new();
        self.stream.get_mut().write_all(line.as_bytes()).with_context(what)?;
        if self.stream.read_line(&mut answer).with_context(what)? == 0 {
            bail!("{}: the process has ended", self.path.display());
        }
        let answer: Answer = serde_json::from_str(&answer).with_context(what)?;
        match answer {
            Answer { error: Some(error), .. } => Err(anyhow!(error)),
            Answer { snapshot, .. } => snapshot.with_context(what),
        }
    }
}

/// Shows the counters of a process, or lists those that run.
pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let Some(which) = &args.which else { return list(args.json) };
    let mut client = Client::connect(&places::find(which)?)?;
    // Rates are since the request before.
    client.ask(&Request::Show)?;
    std::thread::sleep(SAMPLE);
    let snapshot = client.ask(&Request::Show)?;
    if args.json { print_json(&snapshot) } else { print(&text::table(&snapshot)) }
}

/// Lists the running processes.
fn list(json: bool) -> anyhow::Result<()> {
    let all = running();
    if json {
        return print_json(&all.iter().map(|(_, snapshot)| snapshot).collect::<Vec<_>>());
    }
    if all.is_empty() {
        return print("no wharf with a control socket runs");
    }
    let mut table = new_table(&["process", "command", "for", "directions", "socket"]);
    for (path, snapshot) in &all {
        let Snapshot { pid, command, time_s, paths } = snapshot;
        let ends = |path: &super::snapshot::PathCounters| {
            [path.from.clone(), path.to.clone()].into_iter().flatten().collect::<Vec<_>>().join(" to ")
        };
        let directions = paths.iter().map(ends).collect::<Vec<_>>().join("\n");
        let (pid, time) = (pid.to_string(), format!("{time_s:.0} s"));
        table.add_row([pid, command.clone(), time, directions, path.display().to_string()]);
    }
    print(&table_text(&table))
}

/// Returns the sockets of all processes that answer, with their counters.
pub(super) fn running() -> Vec<(PathBuf, Snapshot)> {
    let ask = |path: PathBuf| {
        let snapshot = Client::connect(&path).and_then(|mut client| client.ask(&Request::Show)).ok()?;
        Some((path, snapshot))
    };
    places::all().into_iter().filter_map(ask).collect()
}

/// Changes settings of a running process.
pub(crate) fn set(args: &SetArgs) -> anyhow::Result<()> {
    // The first word may be a change: then there is one process only.
    let (which, changes) = match args.words.split_first() {
        Some((first, rest)) if !first.contains('=') => (places::find(first)?, rest),
        _ => (places::only()?, &args.words[..]),
    };
    if changes.is_empty() {
        return Err(usage("want KEY=VALUE behind the process, such as rate=20mbit"));
    }
    let snapshot = Client::connect(&which)?.ask(&Request::Set { changes: changes.to_vec() })?;
    if args.json {
        return print_json(&snapshot);
    }
    for path in &snapshot.paths {
        let settings = path.settings.iter().map(|(key, value)| format!("{key}={value}"));
        print(&format!("{}: {}", path.path, settings.collect::<Vec<_>>().join(" ")))?;
    }
    Ok(())
}
