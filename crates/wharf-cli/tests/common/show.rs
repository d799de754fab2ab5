//! A client of `--control`, which waits for an answer longer than `wharf show` does: a second.

use super::{Done, eventually, wharf};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to a run. What is recent, in an answer, is so since the answer before.
pub struct Connection(BufReader<UnixStream>);

impl Connection {
    pub fn to(control: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(control)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Asks for the counters.
    pub fn show(&mut self) -> std::io::Result<Value> {
        self.0.get_mut().write_all(b"{\"request\":\"show\"}\n")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(serde_json::from_str::<Value>(&line)?["snapshot"].take())
    }
}

/// Waits until `is` holds of the counters of the run at `control`. Returns them.
#[track_caller]
pub fn until_shown(control: &Path, is: impl Fn(&Value) -> bool) -> Value {
    eventually(|| {
        let shown = Connection::to(control).and_then(|mut connection| connection.show());
        let shown = shown.map_err(|error| format!("{}: {error}", control.display()))?;
        if is(&shown) { Ok(shown) } else { Err(shown.to_string()) }
    })
}

/// Waits until `is` holds of the first direction of the run at `control`. Returns the direction.
#[track_caller]
pub fn until_path(control: &Path, is: impl Fn(&Value) -> bool) -> Value {
    let holds = |shown: &Value| shown["paths"][0].is_object() && is(&shown["paths"][0]);
    until_shown(control, holds)["paths"][0].take()
}

/// Waits until the first direction of the run at `control` has sent or received `packets` packets.
#[track_caller]
pub fn until_moved(control: &Path, packets: u64) {
    let moved = |path: &Value| path["sent"].as_u64().max(path["received_packets"].as_u64());
    until_path(control, |path| moved(path) >= Some(packets));
}

/// Waits until the first direction of the run at `control` has sent `packets` packets, and no more in 0.1 s.
#[track_caller]
pub fn until_at_rest(control: &Path, packets: u64) {
    until_moved(control, packets);
    let sent = || until_path(control, |_| true)["sent"].take();
    eventually(|| {
        let before = sent();
        std::thread::sleep(Duration::from_millis(100));
        (sent() == before).then_some(()).ok_or("it sends")
    });
}

/// Runs `wharf show` or `wharf set` until the run answers in the time that they wait.
#[track_caller]
pub fn answered(args: &[&str]) -> Done {
    eventually(|| {
        let done = wharf(args);
        if done.stderr.contains("does not answer") { Err(done.stderr) } else { Ok(done) }
    })
}
