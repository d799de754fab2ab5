//! SIGINT, SIGTERM and SIGHUP (a terminal closes) end a run with its summary within half a second. From then on another signal ends the
//! process at once, whatever it waits for. Before that it adds nothing: it often is the first again, sent to the process and to its group.
//! A run with a configuration file reads that again on SIGHUP instead.

use crate::output;
use crate::progress::Progress;
use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::{flag, low_level::pipe};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Signals that end any run.
const ENDING: [i32; 2] = [SIGINT, SIGTERM];
/// Longest time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Shorter waits are not announced.
const SILENT: Duration = Duration::from_millis(300);
/// Time after which the command prints one note about a wait where standard error is no terminal.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Time that work has left once a signal has come, on a busy machine, too.
const GRACE: Duration = Duration::from_millis(400);
/// Time in which a signal may be the first one again.
const AGAIN: Duration = Duration::from_millis(500);

/// A wait of an opening device or capture: its text, and its longest time.
#[derive(Debug)]
pub(crate) struct Waits {
    what: String,
    at_most: Option<Duration>,
}

impl Waits {
    /// Makes a wait that only the work itself bounds; `what` names the device and the other side.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), at_most: None }
    }

    /// Joins the text of `other` to this one.
    pub(crate) fn and(self, other: &Self) -> Self {
        Self { what: format!("{}; {}", self.what, other.what), ..self }
    }

    /// Sets the longest time, if there is one.
    pub(crate) fn at_most(self, time: Option<Duration>) -> Self {
        Self { at_most: time, ..self }
    }
}

/// A signal ended a wait before the run began: that is no fault, as it is none later.
#[derive(Debug)]
pub(crate) struct EndedBySignal(String);

impl std::fmt::Display for EndedBySignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ended by a signal", self.0)
    }
}

impl std::error::Error for EndedBySignal {}

/// The signals that have come.
#[derive(Debug, Clone)]
pub struct Signals {
    /// One asked for the end.
    asked: Arc<AtomicBool>,
    /// SIGHUP asked for the configuration to be read again.
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to signals from now on.
    pub fn listen() -> anyhow::Result<Self> {
        // A program started by `nohup` shall outlive the terminal.
        let ending: &[i32] = if is_ignored(SIGHUP) { &ENDING } else { &[SIGHUP, SIGINT, SIGTERM] };
        Ok(Self::listen_to(ending)?.0)
    }

    /// Works like [`Signals::listen`], with SIGHUP for another reading of the configuration.
    pub(crate) fn listen_with_reload() -> anyhow::Result<Self> {
        let (signals, came) = Self::listen_to(&ENDING)?;
        let reload = signals.reload.clone();
        let listened = flag::register(SIGHUP, reload).and_then(|_| pipe::register(SIGHUP, came));
        listened.context("cannot listen to signals")?;
        Ok(signals)
    }

    /// Listens to the signals that end a run. Returns the pipe by which a signal ends this thread's wait.
    fn listen_to(ending: &[i32]) -> anyhow::Result<(Self, UnixStream)> {
        let (asked, is_overdue) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (mut comes, came) = UnixStream::pair().context("cannot listen to signals")?;
        let (is_asked, overdue, main) = (asked.clone(), is_overdue.clone(), thread::current());
        let watch = move || {
            // An interrupted read goes on: the C library changes the user of each thread by a signal.
            while comes.read_exact(&mut [0]).is_ok() && !is_asked.load(Ordering::Relaxed) {
                main.unpark();
            }
            main.unpark();
            thread::sleep(AGAIN);
            overdue.store(true, Ordering::Relaxed);
        };
        thread::Builder::new().name("wharf-signals".into()).spawn(watch).context("cannot start a thread")?;
        for &signal in ending {
            let listen = || {
                // First: one that comes meanwhile is not lost.
                flag::register(signal, asked.clone())?;
                flag::register_conditional_shutdown(signal, 128 + signal, is_overdue.clone())?;
                pipe::register(signal, came.try_clone()?)
            };
            listen().context("cannot listen to signals")?;
        }
        Ok((Self { asked, reload: Arc::default() }, came))
    }

    /// True if a signal has asked for the end.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// True if SIGHUP has come since the last call.
    pub(crate) fn takes_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Runs `work` that may wait for a peer, such as opening a device whose other end is to connect. The command shows a long wait: on a
    /// terminal while the wait lasts, elsewhere by one note. After a signal the work has [`GRACE`] left; the command then abandons it.
    ///
    /// # Errors
    /// A signal came, or the wait reached its longest time.
    pub(crate) fn unless_asked<T: Send + 'static>(
        &self, Waits { what, at_most }: &Waits, work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let (ending, ended) = mpsc::channel();
        // Nothing listens any more if the work was abandoned.
        let run = move || drop(ending.send(work()));
        thread::Builder::new().name("wharf-opener".into()).spawn(run).context("cannot start a thread")?;
        let (mut until, mut is_told) = (None, false);
        let (progress, began) = (Progress::begin(), Instant::now());
        loop {
            match ended.recv_timeout(LOOK) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Disconnected) => bail!("a thread panicked: this is a bug in wharf"),
                Err(RecvTimeoutError::Timeout) if self.asked() => {
                    if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + GRACE) {
                        return Err(EndedBySignal(what.clone()).into());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let waited = began.elapsed();
            if at_most.is_some_and(|time| waited >= time) {
                bail!("{what}: given up after {:.1} s", waited.as_secs_f64());
            }
            if waited >= SILENT {
                progress.say(|| format!("{what}, {:.1} s so far", waited.as_secs_f64()));
            }
            if waited >= TOLD_AFTER && !std::mem::replace(&mut is_told, true) && !progress.is_shown() {
                output::note(what);
            }
        }
    }
}

/// Keeps signals from ending the process, as they do by default. A run that is watched prints its counters on
/// SIGUSR1. SIGPIPE comes with the error of a write that nobody reads, SIGXFSZ with that of one beyond the
/// limit on the size of files: the error says it all.
pub(crate) fn survive() -> anyhow::Result<()> {
    for signal in [SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ] {
        flag::register(signal, Arc::default()).context("cannot listen to signals")?;
    }
    Ok(())
}

/// True if the parent of this process had it ignore `signal` (proc_pid_status(5): bit N - 1 of SigIgn is signal N).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
