//! Supervision of a run: progress, time, signals, and a path that is stuck at the end.

use crate::output::grouped;
use crate::progress::Progress;
use crate::send::plan::Plan;
use crate::signals::Signals;
use crate::stall::Stall;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use wharf::devices::host::{ExactClock, HostClock};
use wharf::devices::spec::DeviceSpec;
use wharf::host::Clock;
use wharf::queue::TxQueue;
use wharf_tools::traffic::{DriveError, Driven};

/// Longest time between two looks at the signals.
const LOOK: Duration = Duration::from_millis(20);
/// Time for frames inside to leave once the end was asked for; the rest then comes back unsent. All in all a run ends within half a
/// second.
const GRACE: Duration = Duration::from_millis(350);
/// The same when the time is over without a signal: on a busy machine the sending thread may not run for a while.
const GRACE_OF_TIME: Duration = Duration::from_secs(1);

/// The supervisor of one run.
pub(super) struct Supervisor<'a> {
    device: &'a DeviceSpec,
    queues: &'a [TxQueue],
    signals: &'a Signals,
    stop: &'a AtomicBool,
    /// Senders that end by themselves.
    senders: u16,
    began: Instant,
    time: Option<Duration>,
    /// One for each queue.
    stalls: RefCell<Vec<Stall>>,
    /// Time at which frames inside are given up; none before the end.
    overdue: Cell<Option<Instant>>,
    progress: Progress,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        plan: &'a Plan<'a>, queues: &'a [TxQueue], signals: &'a Signals, stop: &'a AtomicBool,
    ) -> Self {
        let (began, overdue, progress) = (Instant::now(), Cell::new(None), Progress::new());
        let stalls = RefCell::new(queues.iter().map(|_| Stall::default()).collect());
        Self {
            device: &plan.args.to,
            queues,
            signals,
            stop,
            senders: plan.args.senders,
            began,
            time: plan.time,
            stalls,
            overdue,
            progress,
        }
    }

    /// Waits until each sender has ended: by itself, because its time is over, or because the path was closed.
    pub(super) fn wait(
        &self, ended: &Receiver<Result<Driven, DriveError>>,
    ) -> Result<Vec<Driven>, DriveError> {
        let (mut driven, mut failed) = (Vec::new(), None);
        let mut closed = false;
        loop {
            match ended.recv_timeout(self.next_look()) {
                Ok(Ok(one)) => {
                    driven.push(one);
                    self.end_the_endless(driven.len());
                }
                Ok(Err(error)) => {
                    failed.get_or_insert(error);
                    self.ask_for_the_end(GRACE);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.is_overdue() && !closed {
                self.queues.iter().for_each(|queue| drop(queue.shutdown(0)));
                closed = true;
            }
        }
        failed.map_or(Ok(driven), Err)
    }

    /// Ends the sender of the sparse flow once the others, of which `ended` have, are done.
    fn end_the_endless(&self, ended: usize) {
        if ended >= usize::from(self.senders) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until all sent frames have left. Returns the time then, nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn settle(&self) -> u64 {
        let soon_ns = || HostClock.now_ns() + LOOK.as_nanos() as u64;
        let drained = || self.queues.iter().all(|queue| queue.drain(soon_ns()));
        while !drained() && !self.is_overdue() {}
        ExactClock.now_ns()
    }

    /// Shows progress, checks time, signals and a lost device. Returns the time until it is to be called again.
    fn next_look(&self) -> Duration {
        self.show();
        for (stall, queue) in self.stalls.borrow_mut().iter_mut().zip(self.queues) {
            stall.look(self.device, queue);
        }
        let left = self.time.map(|time| time.saturating_sub(self.began.elapsed()));
        let lost = self.queues.iter().any(|queue| queue.counters().lost.get() > 0);
        if lost || self.signals.asked() {
            self.ask_for_the_end(GRACE);
        } else if left.is_some_and(|left| left.is_zero()) {
            self.ask_for_the_end(GRACE_OF_TIME);
        }
        left.filter(|left| !left.is_zero()).map_or(LOOK, |left| left.min(LOOK))
    }

    /// Gives frames inside `grace` from now, unless they had less before.
    fn ask_for_the_end(&self, grace: Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let overdue = Instant::now() + grace;
        self.overdue.set(self.overdue.get().map_or(Some(overdue), |before| Some(before.min(overdue))));
    }

    /// True if frames inside have had their time.
    fn is_overdue(&self) -> bool {
        self.next_look();
        self.overdue.get().is_some_and(|overdue| Instant::now() >= overdue)
    }

    fn show(&self) {
        self.progress.say(|| {
            let packets: u64 = self.queues.iter().map(|queue| queue.counters().packets.get()).sum();
            let seconds = self.began.elapsed().as_secs_f64();
            let mpps = packets as f64 / seconds.max(1e-9) / 1e6;
            format!("{seconds:.1} s: {} packets, {mpps:.2} Mpps", grouped(packets))
        });
    }
}
