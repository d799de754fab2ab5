//! Supervision of a run: progress, time, signals, and a path that is stuck at the end.

use crate::counts::Counts;
use crate::errors::Errors;
use crate::live::{Before, dropped};
use crate::news::News;
use crate::output::grouped_on_stderr;
use crate::outside::Outside;
use crate::overload::Overload;
use crate::queues::{drops, sum};
use crate::repeats::Lines;
use crate::send::account::lost;
use crate::send::plan::Plan;
use crate::send::sending::Sending;
use crate::session::{LOOK, Watch};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use wharf::SendError;
use wharf::queue::TxQueue;
use wharf_core::host::Clock;
use wharf_devices::host::{ExactClock, HostClock};
use wharf_tools::traffic::{Driven, Echo};

/// Time for frames inside to leave once the end was asked for; the rest then comes back unsent. All in all a run ends within half a
/// second.
const GRACE: Duration = Duration::from_millis(350);
/// The same when the time is over without a signal: on a busy machine the sending thread may not run for a while.
const GRACE_OF_TIME: Duration = Duration::from_secs(1);

/// The supervisor of one run.
pub(super) struct Supervisor<'a> {
    queues: &'a [TxQueue],
    echo: Option<&'a Echo>,
    stop: &'a AtomicBool,
    /// Senders that end by themselves.
    senders: u16,
    watch: Watch<'a>,
    news: RefCell<&'a mut News>,
    /// One for each queue.
    errors: RefCell<Vec<Errors>>,
    lines: RefCell<Lines>,
    /// Packets dropped for want of room, and those that fail.
    overloads: RefCell<[Overload; 2]>,
    given_up: RefCell<Option<String>>,
    /// See [`Supervisor::lost_before_end`], once the path is closed.
    lost: Cell<Option<Option<u64>>>,
    /// Frames of memory but those that the senders' bursts take.
    shared_frames: u64,
    /// Datagrams refused, and when the last one was.
    refused: Cell<(u64, Option<Instant>)>,
    /// Looks, and those at which all memory was in use.
    looks: Cell<[u64; 2]>,
    /// Counts at the live line before.
    before: RefCell<Before>,
    outside: &'a Outside,
}

/// What the supervisor knows once all sent frames have left.
pub(super) struct Settled {
    /// The time then, nanoseconds of CLOCK_MONOTONIC.
    pub(super) end_ns: u64,
    /// The error if the supervisor gave the device up.
    pub(super) given_up: Option<String>,
    /// See [`Supervisor::lost_before_end`].
    pub(super) lost: Option<u64>,
    /// Share of the looks at which all memory was in use.
    pub(super) short_share: f64,
    /// Seconds since a datagram was refused last, if one was.
    pub(super) unrefused_seconds: Option<f64>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        plan: &Plan, sending: &'a Sending, news: &'a mut News, echo: Option<&'a Echo>, stop: &'a AtomicBool,
        outside: &'a Outside,
    ) -> Self {
        let (queues, device, senders) = (&sending.queues, plan.args.to.name(), plan.args.senders);
        let overloads = [Overload::new, Overload::of_failures].map(|watch| watch(device.clone()));
        let watch = Watch::new(&outside.signals, plan.time);
        let of_bursts = u64::from(plan.threads()) * plan.burst as u64;
        Self {
            queues,
            echo,
            stop,
            senders,
            watch,
            news: RefCell::new(news),
            errors: RefCell::new(queues.iter().map(|_| Errors::default()).collect()),
            lines: RefCell::default(),
            overloads: RefCell::new(overloads),
            given_up: RefCell::default(),
            lost: Cell::default(),
            shared_frames: u64::from(plan.frames()).saturating_sub(of_bursts),
            refused: Cell::default(),
            looks: Cell::default(),
            before: RefCell::default(),
            outside,
        }
    }

    /// Waits until each sender has ended: by itself, because its time is over, or because the path was closed.
    pub(super) fn wait(&self, ended: &Receiver<Result<Driven, SendError>>) -> Result<Vec<Driven>, SendError> {
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
                    self.watch.end_within(GRACE);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.is_overdue() && !closed {
                self.lost.set(Some(self.lost_before_end()));
                self.queues.iter().for_each(|queue| drop(queue.shutdown(Duration::ZERO)));
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

    /// Waits until all sent frames have left.
    pub(super) fn settle(self) -> Settled {
        let [looks, short] = self.looks.get();
        let soon_ns = || HostClock.now_ns() + LOOK.as_nanos() as u64;
        let drained = || self.queues.iter().all(|queue| queue.drain_until(soon_ns()));
        while !drained() && !self.is_overdue() {}
        self.outside.page.end(&self.outside.board);
        Settled {
            end_ns: ExactClock.now_ns(),
            lost: self.lost.get().unwrap_or_else(|| self.lost_before_end()),
            given_up: self.given_up.into_inner(),
            short_share: short as f64 / looks.max(1) as f64,
            unrefused_seconds: self.refused.get().1.map(|last| last.elapsed().as_secs_f64()),
        }
    }

    /// Returns the frames that the device has lost by now; `None` in a stall, whose frames count as lost before the end, too.
    fn lost_before_end(&self) -> Option<u64> {
        (!self.news.borrow().is_stalled()).then(|| lost(self.queues))
    }

    /// Shows progress, checks time, signals and a lost device. Returns the time until it is to be called again.
    fn next_look(&self) -> Duration {
        self.show();
        self.look_at_memory();
        self.look_at_refusals();
        self.outside.page.look(&self.outside.board);
        if let Some(error) = self.look_at_device() {
            self.given_up.borrow_mut().get_or_insert(error);
            self.watch.end_within(Duration::ZERO);
        }
        self.overloads.borrow_mut().iter_mut().for_each(|overload| overload.look(|| self.gone()));
        // Either side of a device hears first that it is lost.
        let has_ended = self.echo.is_some_and(|echo| echo.receiver().has_ended());
        let is_lost = !self.news.borrow().is_automatic()
            && self.queues.iter().any(|queue| queue.counters().lost.get() > 0);
        if has_ended || is_lost {
            self.watch.end_within(GRACE);
        }
        let next = self.watch.look(GRACE, GRACE_OF_TIME);
        if self.watch.is_ending() {
            self.stop.store(true, Ordering::Relaxed);
        }
        next
    }

    /// Prints news of the device. Returns the error once it is given up.
    fn look_at_device(&self) -> Option<String> {
        let mut lines = self.lines.borrow_mut();
        let given_up = self.news.borrow_mut().look(&mut lines);
        let mut errors = self.errors.borrow_mut();
        errors
            .iter_mut()
            .zip(self.queues)
            .for_each(|(errors, queue)| errors.look(queue.counters(), &mut lines));
        given_up
    }

    /// Returns the packets sent, and the device's drops. Those of `--when-full` were asked for.
    fn gone(&self) -> (u64, BTreeMap<String, u64>) {
        let mut drops = drops(self.queues).by_reason;
        drops.retain(|reason, _| !matches!(reason.as_str(), "drop-tail" | "drop-head"));
        (sum(self.queues, |all| all.sent.get()), drops)
    }

    /// Notes when datagrams are refused.
    fn look_at_refusals(&self) {
        let (before, _) = self.refused.get();
        let now = sum(self.queues, |all| all.undelivered.get());
        if now > before {
            self.refused.set((now, Some(Instant::now())));
        }
    }

    /// Counts a look, and whether all memory was in use.
    fn look_at_memory(&self) {
        let inside = |queue: &TxQueue| {
            let gone = queue.counters().gone();
            queue.sender_totals().packets.get().saturating_sub(gone)
        };
        let inside: u64 = self.queues.iter().map(inside).sum();
        let [looks, short] = self.looks.get();
        self.looks.set([looks + 1, short + u64::from(inside >= self.shared_frames)]);
    }

    /// True if frames inside have had their time.
    fn is_overdue(&self) -> bool {
        self.next_look();
        self.watch.is_overdue()
    }

    fn show(&self) {
        self.watch.say(|now| {
            let Counts { sent, sent_bytes, .. } =
                Counts::sum(self.queues.iter().map(|queue| Counts::of(queue, false)), None);
            let rates = self.before.borrow_mut().rates(now, sent, sent_bytes);
            let dropped = dropped(&drops(self.queues).by_reason);
            format!("{rates}, sent {}{dropped}", grouped_on_stderr(sent))
        });
    }
}
