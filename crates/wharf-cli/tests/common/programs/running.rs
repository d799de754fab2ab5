//! A program while it runs: what it has said so far, signals to it, and its end.

use super::{Done, command};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Display;
use std::io::Read;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Far longer than a run takes here, on the slowest machine.
const BOUND: Duration = Duration::from_secs(120);
/// The same of one of its steps.
const STEP_BOUND: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// Waits until `check` has an answer. Its last error says what there was instead.
#[track_caller]
pub fn eventually<T, E: Display>(mut check: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match check() {
            Ok(found) => return found,
            Err(instead) => assert!(began.elapsed() < STEP_BOUND, "not in {STEP_BOUND:?}: {instead}"),
        }
        thread::sleep(LOOK);
    }
}

/// One output of a program, which a thread collects.
pub struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Output {
    pub fn of(mut source: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let collected = bytes.clone();
        let collect = move || {
            let mut part = [0; 4096];
            // An error: a terminal is closed.
            while let Ok(count @ 1..) = source.read(&mut part) {
                collected.lock().unwrap().extend_from_slice(&part[..count]);
            }
        };
        Self { bytes, thread: thread::spawn(collect) }
    }

    fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    pub fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// Returns all of it, once the program has closed it.
    pub fn all(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8(std::mem::take(&mut self.bytes.lock().unwrap())).unwrap()
    }
}

/// A program that runs. It is killed if a test fails meanwhile.
pub struct Running {
    pub child: Child,
    stdout: Option<Output>,
    stderr: Option<Output>,
}

impl From<Child> for Running {
    /// Collects what it says on those outputs that no test has taken.
    fn from(mut child: Child) -> Self {
        let (stdout, stderr) = (child.stdout.take().map(Output::of), child.stderr.take().map(Output::of));
        Self { child, stdout, stderr }
    }
}

impl Running {
    /// Starts the program under test.
    pub fn start(args: &[&str]) -> Self {
        Self::of(&mut command(args))
    }

    pub fn of(command: &mut Command) -> Self {
        command.spawn().unwrap().into()
    }

    /// What it has said so far, on standard output and on standard error.
    pub fn said(&self) -> [String; 2] {
        [&self.stdout, &self.stderr].map(|output| output.as_ref().map(Output::so_far).unwrap_or_default())
    }

    /// Waits until it has said so many whole lines for which `is` holds, on either output. Returns them.
    #[track_caller]
    pub fn until_lines(&mut self, count: usize, is: impl Fn(&str) -> bool) -> Vec<String> {
        eventually(|| {
            let is_over = self.is_over();
            let said = self.said();
            let whole = said
                .iter()
                .flat_map(|text| text.split_inclusive('\n'))
                .filter_map(|line| line.strip_suffix('\n'));
            let lines: Vec<String> = whole.filter(|line| is(line)).map(String::from).collect();
            assert!(!is_over || lines.len() >= count, "it has ended: {said:?}");
            if lines.len() >= count { Ok(lines) } else { Err(format!("{said:?}")) }
        })
    }

    /// Waits until it has said a line with `words`. Returns the line.
    #[track_caller]
    pub fn until_said(&mut self, words: &str) -> String {
        self.until_lines(1, |line| line.contains(words)).remove(0)
    }

    /// True if it has not ended.
    pub fn goes_on(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// True if it has ended, and all that it said is here.
    fn is_over(&mut self) -> bool {
        !self.goes_on() && [&self.stdout, &self.stderr].into_iter().flatten().all(Output::is_over)
    }

    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Has it end by a signal, and collects the rest.
    pub fn end(self) -> Done {
        self.signal("INT");
        self.finish()
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Done {
        let status = wait(&mut self.child);
        let [stdout, stderr] = [&mut self.stdout, &mut self.stderr]
            .map(|output| output.take().map(Output::all).unwrap_or_default());
        Done { code: status.code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.goes_on() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Collects what a process prints, and its end.
pub fn finish(child: Child) -> Done {
    Running::from(child).finish()
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
        thread::sleep(LOOK);
    }
}

/// Waits until the program listens to signals, or has ended. It opens its devices after that.
pub fn started(child: &Child) {
    eventually(|| match [Signal::INT, Signal::TERM].iter().all(|&signal| catches(child, signal)) {
        true => Ok(()),
        false => Err("does not listen to signals"),
    });
}

/// True if a process has a handler for a signal (signal(7)), or has ended.
pub fn catches(child: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();
    let mask = u64::from_str_radix(value("SigCgt:"), 16).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1 || ["", "Z (zombie)"].contains(&value("State:"))
}

/// Sends a signal ("INT") to a process, one that ends or asks it once the process listens to it.
pub fn signal(child: &Child, name: &str) {
    let signal = match name {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "HUP" => Signal::HUP,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "KILL" => Signal::KILL,
        _ => panic!("{name}: which signal is that?"),
    };
    match signal {
        Signal::INT | Signal::TERM => started(child),
        Signal::USR1 | Signal::USR2 => eventually(|| catches(child, signal).then_some(()).ok_or(name)),
        _ => {}
    }
    kill_process(Pid::from_child(child), signal).unwrap();
}
