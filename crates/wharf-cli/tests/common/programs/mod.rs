//! Running the program of the package under test, `wharf` or one that it runs, each time with a bound; and what holds for each of them.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod manners;
pub mod terminal;
pub mod threads;

use serde_json::Value;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything here takes, on the slowest machine.
const BOUND: Duration = Duration::from_secs(120);

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

    /// Exit code 0, nothing said on standard error, and a summary that adds up. On a busy machine a device may take so long to open
    /// that the program says so.
    #[track_caller]
    pub fn good_json(&self) -> Value {
        let mut said = self.stderr.lines().filter(|line| !line.ends_with(": waiting for it to open"));
        assert_eq!((self.code, said.next()), (Some(0), None), "{}", self.stdout);
        self.json()
    }

    /// The one line on standard error.
    #[track_caller]
    pub fn line(&self) -> &str {
        let line = self.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {self:?}"));
        assert!(!line.contains('\n') && line.starts_with("wharf: "), "one line: {self:?}");
        line
    }
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

/// Collects what a process prints, and its end.
pub fn finish(mut child: Child) -> Done {
    let collect = |source: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut text = String::new();
            source.map(|mut source| source.read_to_string(&mut text)).transpose().unwrap();
            text
        })
    };
    let stdout = collect(child.stdout.take().map(|out| Box::new(out) as _));
    let stderr = collect(child.stderr.take().map(|out| Box::new(out) as _));
    let status = wait(&mut child);
    Done { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Waits for the end of a process, and ends it when it takes too long.
pub fn wait(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > BOUND {
            child.kill().unwrap();
            panic!("still running after {BOUND:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the program listens to signals. It starts to send before that.
pub fn started(child: &Child) {
    for _ in 0..10_000 {
        if catches(child, 2) && catches(child, 15) {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("does not listen to signals");
}

/// True if a process has a handler for a signal, by its number (signal(7)).
pub fn catches(child: &Child, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) >> (signal - 1) & 1 == 1
}

/// Asserts that a command line is refused, with these words.
#[track_caller]
pub fn assert_wrong(args: &str, what: &str) {
    let done = wharf(&args.split_whitespace().collect::<Vec<_>>());
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args}: {done:?}");
    assert!(done.line().contains(what), "{args}: {done:?}");
}

/// Sends `signal` ("INT") to a process.
pub fn signal(child: &Child, signal: &str) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
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
