//! A run, watched from outside: the counters so far on SIGUSR1, and at an interval.
//!
//! A run puts its paths on a [`Board`] once its devices are open. A thread of its own reads the board and prints: neither the path's
//! threads nor the supervisor of the run take part. All values are atomics, or are behind locks that no packet takes.

mod board;
mod change;
mod client;
mod control;
mod device;
mod interval;
mod lines;
#[cfg(feature = "metrics")]
mod metrics;
mod minute;
mod places;
mod running;
mod runtime;
mod snapshot;
mod socket;
mod text;
#[cfg(feature = "top")]
mod top;

pub(crate) use board::Board;
pub(crate) use change::{Change, Settings};
pub(crate) use client::{set, show};
pub(crate) use device::DeviceRow;
#[cfg(feature = "metrics")]
pub(crate) use metrics::Endpoint;
pub(crate) use places::runs;
pub(crate) use running::Running;
pub(crate) use snapshot::{PathCounters, Snapshot};
#[cfg(feature = "top")]
pub(crate) use top::top;

use crate::args::{ControlAt, WatchArgs};
use crate::output::{self, note};
use crate::stream;
use anyhow::Context;
use interval::{Printer, STOP};
use lines::Lines;
use signal_hook::consts::SIGUSR1;
use signal_hook::low_level::pipe;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Time for the last line to be printed; it is abandoned if the reader of standard error stalls.
const END: Duration = Duration::from_millis(500);
/// Time between two looks at the thread's end.
const LOOK: Duration = Duration::from_millis(1);

/// The watch over a run from outside. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    wakes: UnixStream,
    thread: Option<JoinHandle<()>>,
    #[cfg(feature = "metrics")]
    #[expect(dead_code, reason = "it ends when it is dropped")]
    metrics: Option<metrics::MetricsServer>,
    #[expect(dead_code, reason = "it ends when it is dropped")]
    control: Option<control::Control>,
}

impl Watching {
    /// Begins the watch over the run on `board`, before its devices are open. `json` asks for JSON on
    /// standard error.
    /// A run that `is_endless` has a control socket by default.
    pub(crate) fn start(
        args: &WatchArgs, board: &Board, json: bool, is_endless: bool,
    ) -> anyhow::Result<Self> {
        let file = args.stats_file.as_deref().map(|path| {
            Lines::create(path).with_context(|| format!("--stats-file {}: cannot create it", path.display()))
        });
        let (wakes, woken) = UnixStream::pair().context("cannot listen to signals")?;
        let listen = || pipe::register(SIGUSR1, wakes.try_clone()?);
        listen().context("cannot listen to signals")?;
        #[cfg(feature = "metrics")]
        let metrics = args
            .metrics
            .as_ref()
            .map(|endpoint| metrics::MetricsServer::start(endpoint, args.metrics_host.clone(), board.clone()))
            .transpose()?;
        let control = control(&args.control, is_endless, board)?;
        let printer = Printer::new(board.clone(), json, file.transpose()?);
        let every = args.stats;
        stream::watch(wakes.try_clone().context("cannot listen to signals")?);
        let run = move || printer.run(woken, every);
        let thread = Builder::new().name("wharf-stats".into()).spawn(run).context("cannot start a thread")?;
        Ok(Self {
            wakes,
            thread: Some(thread),
            #[cfg(feature = "metrics")]
            metrics,
            control,
        })
    }
}

/// Starts the control socket that was asked for, or the default one, without which a run goes on as well.
fn control(
    asked: &Option<ControlAt>, is_endless: bool, board: &Board,
) -> anyhow::Result<Option<control::Control>> {
    match asked {
        Some(ControlAt::Socket(path)) => control::Control::start(path, board.clone()).map(Some),
        Some(ControlAt::Off) => Ok(None),
        None if is_endless => {
            let started = places::own().and_then(|path| control::Control::start(&path, board.clone()));
            Ok(started.inspect_err(tell_no_socket).ok())
        }
        None => Ok(None),
    }
}

fn tell_no_socket(why: &anyhow::Error) {
    let why = output::with_causes(why);
    note(&format!(
        "no control socket for `wharf show` and `wharf set`: {why}; --control SOCKET names another"
    ));
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The thread is gone only if it panicked.
        let _ = self.wakes.write_all(&[STOP]);
        let Some(thread) = self.thread.take() else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < END {
            sleep(LOOK);
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}
