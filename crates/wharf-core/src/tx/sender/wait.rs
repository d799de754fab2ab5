//! A wait of one sender, or of several at once, as a thread or as a task: the senders of a [`Spread`](super::Spread) wait for
//! memory together. `waiting.rs` says when a wait is over.
//!
//! For a task, a poller ([`crate::poller::Poller`]) or a dedicated owner should run the queue meanwhile. Without one, a
//! waiting task asks to be polled again at once, and runs the queue itself each time.

use super::cancel::Waiting;
use super::{Burst, Packet, PoolError, SendError, Sender, Watch};
use crate::host::Wake;
use crate::tx::queue::waiters::Need;
use crate::wait::Deadline;
use crate::wakeup::TaskWake;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

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

/// Registers, and sleeps as a thread until the need of a sender is met, or the first one is cancelled.
/// False if the deadline has passed.
#[cold]
pub(super) fn wait(needs: &mut [(&mut Sender, Need)], deadline: Deadline) -> Result<bool, SendError> {
    let shared = needs[0].0.shared.clone();
    let (wake, deadline) = (shared.setup().park.waker(), deadline.started(&*shared.setup().clock));
    let waiting = needs[0].0.cancel.as_ref().map(|cancel| cancel.enter(&wake));
    let register = |(sender, need): &mut (&mut Sender, Need)| sender.register(*need, wake.clone());
    let mut watches: Vec<_> = needs.iter_mut().map(register).collect();
    loop {
        let mut looks = needs.iter_mut().zip(&mut watches);
        if let Some(seen) = looks.find_map(|((sender, _), watch)| sender.look(watch)) {
            return seen.map(|()| true);
        }
        if waiting.as_ref().is_some_and(|waiting| waiting.is_cancelled()) {
            return Err(SendError::Cancelled);
        }
        let left_ns = deadline.left_ns(&*shared.setup().clock);
        if left_ns == 0 {
            return Ok(false);
        }
        let naps_ns = needs.iter().zip(&watches).map(|((sender, _), watch)| sender.nap_ns(watch));
        shared.setup().park.park(naps_ns.fold(left_ns, u64::min));
    }
}

/// Works like [`wait`], for memory of any of `senders`.
pub(super) fn wait_for_memory(senders: &mut [Sender], deadline: Deadline) -> Result<bool, SendError> {
    wait(&mut senders.iter_mut().map(|sender| (sender, Need::Memory)).collect::<Vec<_>>(), deadline)
}

/// Waits as a task until a sender is served. The future may be dropped at any time: the places go to the next ones.
pub(super) async fn wait_async(senders: &mut [Sender], need: Need) -> Result<(), SendError> {
    let mut wait = None;
    poll_fn(|context| poll_wait(senders, context, need, &mut wait)).await
}

/// Registers a wait, or looks at the one that is under way. Clears `wait` once it is over.
pub(super) fn poll_wait(
    senders: &mut [Sender], context: &mut Context<'_>, need: Need, wait: &mut Option<TaskWait>,
) -> Poll<Result<(), SendError>> {
    let TaskWait { wake, watches, cancel, .. } = wait.get_or_insert_with(|| {
        let wake = Arc::new(TaskWake::default());
        wake.set(context.waker());
        let woken: Arc<dyn Wake> = wake.clone();
        let cancel = senders[0].cancel.as_ref().map(|cancel| cancel.enter(&woken));
        let watches = senders.iter_mut().map(|sender| sender.register(need, woken.clone())).collect();
        TaskWait { watches, wake, cancel, need }
    });
    wake.set(context.waker());
    let mut looks = senders.iter_mut().zip(watches);
    if let Some(seen) = looks.find_map(|(sender, watch)| sender.look(watch)) {
        *wait = None;
        return Poll::Ready(seen);
    }
    if cancel.as_ref().is_some_and(Waiting::is_cancelled) {
        *wait = None;
        return Poll::Ready(Err(SendError::Cancelled));
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
        filled = sender.cache.fill(burst, what.count, what.len_bytes);
        if !matches!(filled, Err(PoolError::Exhausted { .. })) {
            break;
        }
    }
    filled
}

/// Works like [`fill`], and waits for memory as a thread. The first sender counts the packets for which
/// there was none in time.
#[cold]
pub(super) fn fill_by(
    senders: &mut [Sender], burst: &mut Burst, what: Fill, mut deadline: Deadline,
) -> Result<usize, SendError> {
    let mut may_drive = deadline.is_never();
    loop {
        match fill(senders, burst, what) {
            Err(PoolError::Exhausted { .. }) => {}
            filled => return Ok(filled?),
        }
        if may_drive && drive_undriven(senders) {
            may_drive = false;
            continue;
        }
        if deadline.is_never() {
            // The first that has memory already leaves the mark cleared.
            if !senders.iter_mut().any(|sender| sender.blocks(Need::Memory))
                && senders.iter_mut().any(Sender::may_go_on)
            {
                senders[0].wake_handles();
            }
            return Ok(0);
        }
        deadline = deadline.started(&*senders[0].shared.setup().clock);
        if !wait_for_memory(senders, deadline)? {
            let missing = what.count.min(burst.batch_mut().room());
            senders[what.first].counters.memory_drops.add(missing as u64);
            return Ok(0);
        }
    }
}

/// Takes one packet of the length in `what`, by [`fill_by`].
pub(super) fn packet_by(senders: &mut [Sender], what: Fill, deadline: Deadline) -> Result<Packet, SendError> {
    let mut burst = senders[0].burst(1);
    fill_by(senders, &mut burst, what, deadline)?;
    Ok(burst.pop().ok_or_else(|| senders[0].cache.pool().exhausted())?)
}

/// Runs queues without a poller: only senders find their completed frames. Returns true if there are such
/// queues.
fn drive_undriven(senders: &mut [Sender]) -> bool {
    let undriven = senders.iter_mut().filter(|sender| !sender.is_driven());
    undriven.fold(false, |_, sender| {
        sender.drive();
        true
    })
}

/// Works like [`fill`], and waits for memory as a task.
pub(super) async fn fill_async(
    senders: &mut [Sender], burst: &mut Burst, what: Fill,
) -> Result<usize, SendError> {
    loop {
        match fill(senders, burst, what) {
            Err(PoolError::Exhausted { .. }) => wait_async(senders, Need::Memory).await?,
            filled => return Ok(filled?),
        }
    }
}
