//! A wait of one sender, or of several at once, as a thread or as a task: the senders of a [`Spread`](super::Spread) wait for
//! memory together. `waiting.rs` says when a wait is over.
//!
//! For a task, a poller ([`crate::poller::Poller`]) or a dedicated owner should run the queue meanwhile. Without one, a
//! waiting task asks to be polled again at once, and runs the queue itself each time.

use super::cancel::Waiting;
use super::{Burst, PoolError, QueueError, Sender, Watch};
use crate::host::{Clock, Wake};
use crate::tx::queue::waiters::Need;
use crate::wakeup::TaskWake;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The end of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deadline {
    /// There is none.
    Never,
    /// This long after the first wait begins.
    Within(Duration),
    /// At a time of the queue's clock, ns.
    At(u64),
}

impl Deadline {
    /// Starts the time of a wait: the only call that reads the clock before the wait.
    pub(super) fn started(self, clock: &dyn Clock) -> Self {
        let Self::Within(time) = self else { return self };
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self::At(clock.exact_ns().saturating_add(time_ns))
    }

    /// Returns the time left; `u64::MAX` without an end.
    fn left_ns(self, clock: &dyn Clock) -> u64 {
        match self.started(clock) {
            Self::At(at_ns) if at_ns < u64::MAX => at_ns.saturating_sub(clock.exact_ns()),
            _ => u64::MAX,
        }
    }
}

/// The packets that a burst is filled with, and the sender whose memory is taken first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) len_bytes: u32,
}

/// A wait of a task, by a place among the waiters of each sender.
#[derive(Debug)]
pub(super) struct TaskWait {
    wake: Arc<TaskWake>,
    watches: Vec<Watch>,
    cancel: Option<Waiting>,
    pub(super) need: Need,
}

fn register(senders: &mut [Sender], need: Need, wake: &Arc<dyn Wake>) -> Vec<Watch> {
    senders.iter_mut().map(|sender| sender.register(need, wake.clone())).collect()
}

fn look(senders: &mut [Sender], watches: &mut [Watch]) -> Option<Result<(), QueueError>> {
    senders.iter_mut().zip(watches).find_map(|(sender, watch)| sender.look(watch))
}

/// Registers, and sleeps as a thread until a sender is served, the first one is cancelled, or the deadline has passed.
#[cold]
pub(super) fn wait(senders: &mut [Sender], need: Need, deadline: Deadline) -> Result<(), QueueError> {
    let shared = senders[0].shared.clone();
    let (wake, deadline) = (shared.setup().park.waker(), deadline.started(&*shared.setup().clock));
    let waiting = senders[0].cancel.as_ref().map(|cancel| cancel.enter(&wake));
    let mut watches = register(senders, need, &wake);
    loop {
        if let Some(seen) = look(senders, &mut watches) {
            return seen;
        }
        if waiting.as_ref().is_some_and(|waiting| waiting.is_cancelled()) {
            return Err(QueueError::Cancelled);
        }
        let left_ns = deadline.left_ns(&*shared.setup().clock);
        if left_ns == 0 {
            return Err(QueueError::TimedOut);
        }
        let naps_ns = senders.iter().zip(&watches).map(|(sender, watch)| sender.nap_ns(watch));
        shared.setup().park.park(naps_ns.fold(left_ns, u64::min));
    }
}

/// Waits as a task until a sender is served. The future may be dropped at any time: the places go to the next ones.
pub(super) async fn wait_async(senders: &mut [Sender], need: Need) -> Result<(), QueueError> {
    let mut wait = None;
    poll_fn(|context| poll_wait(senders, context, need, &mut wait)).await
}

/// Registers a wait, or looks at the one that is under way. Clears `wait` once it is over.
pub(super) fn poll_wait(
    senders: &mut [Sender], context: &mut Context<'_>, need: Need, wait: &mut Option<TaskWait>,
) -> Poll<Result<(), QueueError>> {
    let TaskWait { wake, watches, cancel, .. } = wait.get_or_insert_with(|| {
        let wake = Arc::new(TaskWake::default());
        wake.set(context.waker());
        let woken: Arc<dyn Wake> = wake.clone();
        let cancel = senders[0].cancel.as_ref().map(|cancel| cancel.enter(&woken));
        TaskWait { watches: register(senders, need, &woken), wake, cancel, need }
    });
    wake.set(context.waker());
    if let Some(seen) = look(senders, watches) {
        *wait = None;
        return Poll::Ready(seen);
    }
    if cancel.as_ref().is_some_and(Waiting::is_cancelled) {
        *wait = None;
        return Poll::Ready(Err(QueueError::Cancelled));
    }
    if !senders.iter().all(Sender::is_driven) {
        context.waker().wake_by_ref();
    }
    Poll::Pending
}

/// Fills `burst` from the first sender whose cache has frames, in turn.
pub(super) fn fill(senders: &mut [Sender], burst: &mut Burst, what: Fill) -> Result<usize, PoolError> {
    let (rest, first) = senders.split_at_mut(what.first);
    let mut in_turn = first.iter_mut().chain(rest);
    let mut filled = Ok(0);
    for sender in &mut in_turn {
        filled = sender.fill(burst, what.count, what.len_bytes);
        if !matches!(filled, Err(PoolError::Exhausted { .. })) {
            break;
        }
    }
    filled
}

/// Works like [`fill`], and waits for memory as a thread.
pub(super) fn fill_by(
    senders: &mut [Sender], burst: &mut Burst, what: Fill, mut deadline: Deadline,
) -> Result<usize, QueueError> {
    loop {
        match fill(senders, burst, what) {
            Err(PoolError::Exhausted { .. }) => {
                deadline = deadline.started(&*senders[0].shared.setup().clock)
            }
            filled => return Ok(filled?),
        }
        wait(senders, Need::Memory, deadline)?;
    }
}

/// Works like [`fill`], and waits for memory as a task.
pub(super) async fn fill_async(
    senders: &mut [Sender], burst: &mut Burst, what: Fill,
) -> Result<usize, QueueError> {
    loop {
        match fill(senders, burst, what) {
            Err(PoolError::Exhausted { .. }) => wait_async(senders, Need::Memory).await?,
            filled => return Ok(filled?),
        }
    }
}

/// Works like [`fill`], until the burst has its packets. The first sender counts those for which there is no memory.
pub(super) fn fill_or_drop(
    senders: &mut [Sender], burst: &mut Burst, what: Fill,
) -> Result<usize, PoolError> {
    let (mut left, mut may_drive) = (what.count, true);
    while left > 0 {
        match fill(senders, burst, Fill { count: left, ..what }) {
            Ok(0) => break,
            Ok(filled) => left -= filled,
            // Without a poller only senders find completed frames.
            Err(PoolError::Exhausted { .. }) if may_drive => {
                may_drive = false;
                senders.iter_mut().filter(|sender| !sender.is_driven()).for_each(|sender| _ = sender.drive());
            }
            Err(PoolError::Exhausted { .. }) => {
                let missing = left.min(burst.batch_mut().room());
                senders[what.first].counters.memory_drops.add(missing as u64);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(what.count - left)
}
