//! The control socket: a JSON request a line, a JSON answer a line.
//!
//! A wrong request has an error as its answer, and changes nothing. A line is bounded, a silent client is let go, and when there are
//! [`CLIENTS_MAX`] clients the one that came first has to go: no client holds up another, and none the run.

use super::board::Board;
use super::snapshot::Snapshot;
use super::socket;
use anyhow::Context;
use rustix::net::Shutdown;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;
use wharf_sys::unix_socket::SocketFile;

/// Most clients at a time.
const CLIENTS_MAX: usize = 16;
/// Most bytes of a request, with its line end.
const LINE_BYTES_MAX: u64 = 4096;
/// Time for which a client may be silent, or not take its answer.
const SILENCE: Duration = Duration::from_secs(10);
/// Time before the next attempt to accept, when descriptors or threads have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A request. The keys are a promise.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum Request {
    /// The counters, with rates since this client's last request.
    Show,
    /// Changes, each `KEY=VALUE` or `PATH.KEY=VALUE`: all of them, or none.
    Set { changes: Vec<String> },
}

/// An answer. The keys are a promise.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// The counters, and the settings in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<Snapshot>,
}

/// The thread that listens. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Control {
    file: SocketFile,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens at `path`.
    pub(super) fn start(path: &Path, board: Board) -> anyhow::Result<Self> {
        let bound = socket::bind_private(path);
        let (listener, file) = bound.with_context(|| format!("--control {}", path.display()))?;
        let listener = Arc::new(listener);
        let accepting = listener.clone();
        let run = move || accept(&accepting, &board);
        let thread =
            Builder::new().name("wharf-control".into()).spawn(run).context("cannot start a thread")?;
        Ok(Self { file, listener, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A listening socket that is shut down accepts no more, and says so to the thread that waits.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        self.thread.take().map(JoinHandle::join);
        // The user that the run has become may not be allowed to: the next start does it.
        self.file.remove();
    }
}

fn accept(listener: &UnixListener, board: &Board) {
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::InvalidInput => break,
            Err(_) => {
                sleep(PAUSE);
                continue;
            }
        };
        clients.retain(|client| !client.thread.is_finished());
        if clients.len() >= CLIENTS_MAX {
            clients.pop_front().into_iter().for_each(Client::end);
        }
        match start(stream, board) {
            Ok(client) => clients.push_back(client),
            Err(_) => sleep(PAUSE),
        }
    }
    clients.into_iter().for_each(Client::end);
}

/// A client, and the thread that answers it.
struct Client {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Client {
    /// Ends the thread: it reads the end of its stream.
    fn end(self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.thread.join();
    }
}

fn start(stream: UnixStream, board: &Board) -> std::io::Result<Client> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let (reading, board) = (stream.try_clone()?, board.clone());
    let run = move || {
        // A client that breaks off, or is silent, has no answer.
        let _ = serve(&reading, &board);
        // The thread that accepts has the stream, too.
        let _ = reading.shutdown(std::net::Shutdown::Both);
    };
    let thread = Builder::new().name("wharf-client".into()).spawn(run)?;
    Ok(Client { stream, thread })
}

fn serve(stream: &UnixStream, board: &Board) -> std::io::Result<()> {
    let (mut lines, mut before) = (BufReader::new(stream), None);
    loop {
        let mut line = Vec::new();
        if (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let answer = match serde_json::from_slice(&line) {
            Ok(request) => answer(&request, board, &mut before),
            Err(_) if !is_whole => {
                failed(format!("want one JSON object a line, of at most {LINE_BYTES_MAX} bytes"))
            }
            Err(error) => failed(format!(
                "{error}; want {{\"request\":\"show\"}} or {{\"request\":\"set\",\"changes\":[\"KEY=VALUE\"]}}"
            )),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        (&*stream).write_all(text.as_bytes())?;
        if !is_whole {
            return Ok(());
        }
    }
}

fn failed(what: String) -> Answer {
    Answer { error: Some(what.replace('\n', " ")), snapshot: None }
}

fn answer(request: &Request, board: &Board, before: &mut Option<Snapshot>) -> Answer {
    let done = match request {
        Request::Show => Ok(()),
        Request::Set { changes } if changes.is_empty() => Err("no change is given".into()),
        Request::Set { changes } => board.set(changes),
    };
    match done {
        Err(what) => failed(what),
        Ok(()) => {
            let snapshot = board.snapshot().with_rates(before.as_ref());
            *before = Some(snapshot.clone());
            Answer { error: None, snapshot: Some(snapshot) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_be_silent_for_a_bounded_time() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let client = start(ours, &Board::new("send")).unwrap();
        let bounds = [client.stream.read_timeout(), client.stream.write_timeout()];
        assert_eq!(bounds.map(Result::unwrap), [Some(SILENCE); 2]);
        drop(theirs);
        client.end();
    }
}
