//! Running the program of the package under test, `wharf` or one that it runs, each time with a bound; and what holds for each of them.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

pub mod manners;
pub mod running;
pub mod terminal;
pub mod threads;

pub use running::{Running, catches, eventually, finish, signal, started, wait};

use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The program under test.
pub const PROGRAM: &str = {
    let others = (option_env!("CARGO_BIN_EXE_wharf-lab"), option_env!("CARGO_BIN_EXE_wharf-bench"));
    match (option_env!("CARGO_BIN_EXE_wharf"), others) {
        (Some(program), _) | (None, (Some(program), _)) | (None, (None, Some(program))) => program,
        (None, (None, None)) => panic!("no program to test"),
    }
};

/// The capture that the repository comes with.
pub const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sample.pcap");
pub const SAMPLE_FRAMES: u64 = 2200;
pub const SAMPLE_BYTES: u64 = 1_321_639;

/// A UDP port of the loopback that refuses what a stranger sends, for as long as the socket lives: no other process gets the port
/// meanwhile, and the socket takes datagrams of its peer alone.
pub fn refusing_port() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect("127.0.0.1:1").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// The exit code and the output of a run.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// The JSON object on standard output, behind the lines of `--stats`.
    pub fn json(&self) -> Value {
        let summary = self.stdout.find("\n{\n").map_or(&*self.stdout, |at| &self.stdout[at..]);
        serde_json::from_str(summary).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The lines of news on standard error.
    pub fn news(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| is_news(line)).collect()
    }

    /// Exit code 0, no news on standard error, and a summary that adds up.
    #[track_caller]
    pub fn good_json(&self) -> Value {
        assert_eq!((self.code, &self.news()[..]), (Some(0), &[][..]), "{}", self.stdout);
        self.json()
    }

    /// The one line of news on standard error.
    #[track_caller]
    pub fn line(&self) -> &str {
        let [line] = self.news()[..] else { panic!("one line: {self:?}") };
        assert!(line.starts_with("wharf: ") && self.stderr.ends_with('\n'), "one line: {self:?}");
        line
    }
}

/// False for what a busy machine has the program say: something takes long to open, or a thread does not run.
pub fn is_news(line: &str) -> bool {
    let waits = [": waiting for it to open", "waiting for the reader of the fifo", "ing the capture"];
    let pauses = ["this process did not run", "; packets wait", ": it takes packets again, after "];
    !waits.iter().any(|end| line.ends_with(end)) && !pauses.iter().any(|words| line.contains(words))
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub fn wharf(args: &[&str]) -> Done {
    finish(command(args).spawn().unwrap())
}

/// Asserts that a command line is refused, with these words.
#[track_caller]
pub fn assert_wrong(args: &str, what: &str) {
    let done = wharf(&args.split_whitespace().collect::<Vec<_>>());
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args}: {done:?}");
    assert!(done.line().contains(what), "{args}: {done:?}");
}

/// Copies a program to `path`, by a process of its own: a test beside this one starts processes, and one that has the file open for
/// writing would keep it from being executed.
pub fn install(program: &str, path: &Path) {
    assert!(Command::new("install").args(["-D", "-m", "755", program]).arg(path).status().unwrap().success());
}

/// A folder of its own for each test, gone with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wharf-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a file; its path as text.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}
