//! Watching over a run: progress, its time, signals, and a path that is stuck at the end.

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
/// How long what is under way may still take once the end was asked for; what is left then comes back unsent. With what
/// follows it a run ends within half a second.
const GRACE: Duration = Duration::from_millis(350);
/// The same where nobody asked and the time is over: on a busy machine whoever is to send it may not run for a while.
const GRACE_OF_TIME: Duration = Duration::from_secs(1);

/// What watches over one run.
pub(super) struct Supervisor<'a> {
    device: &'a DeviceSpec,
    queues: &'a [TxQueue],
    signals: &'a Signals,
    stop: &'a AtomicBool,
    /// That end by themselves.
    senders: u16,
    began: Instant,
    time: Option<Duration>,
    /// One for each queue.
    stalls: RefCell<Vec<Stall>>,
    /// When what is under way has had its time; none before the end.
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

    /// The sender of the sparse flow goes on until the others have ended, of which `ended` have.
    fn end_the_endless(&self, ended: usize) {
        if ended >= usize::from(self.senders) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until what was sent has left; when that was, nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn settle(&self) -> u64 {
        let soon_ns = || HostClock.now_ns() + LOOK.as_nanos() as u64;
        let drained = || self.queues.iter().all(|queue| queue.drain(soon_ns()));
        while !drained() && !self.is_overdue() {}
        ExactClock.now_ns()
    }

    /// Shows how far it is, sees to time, signals and a device that is lost, and says when to look again.
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

    /// What is under way has `grace` from now, unless it was told of less before.
    fn ask_for_the_end(&self, grace: Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let overdue = Instant::now() + grace;
        self.overdue.set(self.overdue.get().map_or(Some(overdue), |before| Some(before.min(overdue))));
    }

    /// Whether what is under way has had its time.
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
