//! `Ready`: handles that hear when a sender may go on, and the calls of a sender that are polled.
//!
//! (A) A handle registers its waker, then checks whether the sender is blocked. (B) The sender marks itself
//! blocked, then joins the waiters. The owner that serves it clears the mark, then wakes all handles. A new
//! handle is in the list before it checks (loom: `ready.rs`). So no handle sleeps while the
//! sender may go on. No lock is held, so that a task that is stopped holds up no owner.

use super::wait::{self, Fill, poll_wait};
use super::watch::pass_on;
use super::{SendError, Sender, Sent, Watch};
use crate::host::{self, Wake};
use crate::pool::{Burst, Packet};
use crate::tx::queue::Shared;
use crate::tx::queue::waiters::Need;
use crate::wait::{Deadline, Wait};
use crate::wakeup::TaskWake;
use arc_swap::ArcSwap;
use std::mem::discriminant;
use std::slice::{from_mut, from_ref};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, ready};

/// What a sender, or those of a spread, and the handles share.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// A call that did not wait has found no room, or no memory.
    is_blocked: AtomicBool,
    handles: ArcSwap<Vec<Arc<TaskWake>>>,
}

impl Wake for Readiness {
    /// Wakes all handles: the sender may go on.
    fn wake(&self) {
        self.is_blocked.store(false, SeqCst);
        self.handles.load().iter().for_each(|handle| _ = host::wake(handle.clone()));
    }
}

/// A handle that hears when a [`Sender`] may go on, or one of a [`Spread`](super::Spread), once a call
/// without waiting ([`Wait::Never`]) has found no room, or no memory. Each clone wakes a task of its own. The
/// sender itself may stand behind a lock, or with another task.
#[derive(Debug)]
pub struct Ready {
    queues: Arc<[Arc<Shared>]>,
    readiness: Arc<Readiness>,
    wake: Arc<TaskWake>,
}

impl Ready {
    /// A handle of `senders`, which share what they know.
    pub(super) fn of(senders: &[Sender]) -> Self {
        let queues = senders.iter().map(|sender| sender.shared.clone()).collect();
        Self::new(queues, senders[0].readiness.clone())
    }

    fn new(queues: Arc<[Arc<Shared>]>, readiness: Arc<Readiness>) -> Self {
        let wake = Arc::<TaskWake>::default();
        readiness.handles.rcu(|handles| handles.iter().chain([&wake]).cloned().collect::<Vec<_>>());
        Self { queues, readiness, wake }
    }

    /// Asks whether the sender may go on; pending, the task is woken once it may, and once the queue ends.
    /// Without a poller, it runs the queue, and asks to be polled again at once.
    ///
    /// # Cancel safety
    /// It may be polled no more at any time: the next poll asks anew.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.wake.set(context.waker());
        if self.readiness.is_blocked.load(SeqCst) {
            let undriven = self.queues.iter().filter(|queue| !queue.has_poller());
            undriven.for_each(|queue| {
                pass_on(queue);
                context.waker().wake_by_ref();
            });
        }
        if self.readiness.is_blocked.load(SeqCst) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Clone for Ready {
    fn clone(&self) -> Self {
        Self::new(self.queues.clone(), self.readiness.clone())
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let is_other = |other: &&Arc<TaskWake>| !Arc::ptr_eq(other, &self.wake);
        self.readiness.handles.rcu(|handles| handles.iter().filter(is_other).cloned().collect::<Vec<_>>());
    }
}

impl Sender {
    /// Returns a handle that hears when this sender may go on.
    pub fn ready(&self) -> Ready {
        Ready::of(from_ref(self))
    }

    /// Sends packets of `burst`, as many as there is room for. Pending if there is room for none: the task
    /// is woken, in turn. A later call goes on with the same place among the waiters, and dropping the
    /// sender gives it up.
    ///
    /// # Cancel safety
    /// It may be polled no more at any time: packets not sent stay in the burst.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn poll_send(
        &mut self, context: &mut Context<'_>, burst: &mut Burst,
    ) -> Poll<Result<Sent, SendError>> {
        let offered = burst.len();
        loop {
            self.send_what_fits(burst)?;
            let accepted = offered - burst.len();
            if accepted > 0 || burst.is_empty() {
                // It needs no place among the waiters now.
                self.ready_wait = None;
                return Poll::Ready(Ok(Sent { accepted, dropped: 0, left: burst.len() }));
            }
            ready!(self.poll_ready(context))?;
        }
    }

    /// Takes one packet of `len_bytes` once there is room to send it, and memory. Pending without either:
    /// the task is woken, in turn.
    ///
    /// # Cancel safety
    /// It may be polled no more at any time: no packet is lost, and a later call goes on with the same place.
    ///
    /// # Errors
    /// The errors of [`Sender::packet`], and those of [`Sender::send`].
    pub fn poll_packet(
        &mut self, context: &mut Context<'_>, len_bytes: u32,
    ) -> Poll<Result<Packet, SendError>> {
        poll_packet(from_mut(self), context, Fill { first: 0, count: 1, len_bytes })
    }

    /// Shares `readiness` with other senders: handles of its own hear no more.
    pub(super) fn share(&mut self, readiness: &Arc<Readiness>) {
        self.ready_watch = None;
        std::mem::replace(&mut self.readiness, readiness.clone()).wake();
    }

    /// Says, after a call to several senders that share handles, whether this one, with packets left, may go
    /// on: one that blocked after it has set the mark again.
    pub(super) fn may_go_on(&mut self) -> bool {
        !self.goes_on_blocking()
    }

    /// Wakes the handles, if they take it for blocked.
    pub(super) fn wake_handles(&self) {
        if self.readiness.is_blocked.load(SeqCst) {
            self.readiness.wake();
        }
    }

    fn waits_for_memory(&self) -> bool {
        self.ready_wait.as_ref().is_some_and(|wait| wait.need == Need::Memory)
    }

    /// Has the handles woken once `need` is met. Returns true if it is met already.
    #[cold]
    pub(super) fn blocks(&mut self, need: Need) -> bool {
        if self.readiness.handles.load().is_empty() {
            return false;
        }
        // The next call looks after the wait.
        self.settings_version = self.settings_version.wrapping_sub(1);
        self.readiness.is_blocked.store(true, SeqCst);
        let before =
            self.ready_watch.take().filter(|watch| discriminant(&watch.need()) == discriminant(&need));
        let watch = before.unwrap_or_else(|| self.register(need, self.readiness.clone()));
        self.is_met(watch)
    }

    /// Ends the wait of the handles if it has been served. True if one goes on.
    pub(super) fn goes_on_blocking(&mut self) -> bool {
        let Some(watch) = self.ready_watch.take() else { return false };
        !self.is_met(watch)
    }

    /// Returns true if the wait of `watch` is over, and wakes the handles; else keeps it.
    fn is_met(&mut self, mut watch: Watch) -> bool {
        let is_met = self.look(&mut watch).is_some();
        if is_met {
            // A handle may have found it blocked meanwhile.
            self.readiness.wake();
        } else {
            self.ready_watch = Some(watch);
        }
        is_met
    }
}

/// Takes a packet once each of `senders` has room for one, and one has memory.
pub(super) fn poll_packet(
    senders: &mut [Sender], context: &mut Context<'_>, what: Fill,
) -> Poll<Result<Packet, SendError>> {
    loop {
        if senders.iter().any(Sender::waits_for_memory) {
            ready!(poll_memory(senders, context))?;
        }
        ready!(poll_ready(senders, context))?;
        match wait::packet_by(senders, what, Deadline::Of(Wait::Never)) {
            Err(SendError::NoMemory { .. }) => ready!(poll_memory(senders, context))?,
            packet => return Poll::Ready(packet),
        }
    }
}

/// Asks whether every one of `senders` is ready; each that is not joins its waiters.
pub(super) fn poll_ready(senders: &mut [Sender], context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
    let mut is_ready = true;
    for sender in senders {
        is_ready &= sender.poll_ready(context)?.is_ready();
    }
    if is_ready { Poll::Ready(Ok(())) } else { Poll::Pending }
}

/// Waits for memory of any of `senders`. Once one has it, none waits.
fn poll_memory(senders: &mut [Sender], context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
    let mut polled = Poll::Pending;
    for sender in &mut *senders {
        let mut wait = sender.ready_wait.take().filter(|wait| wait.need == Need::Memory);
        polled = poll_wait(from_mut(sender), context, Need::Memory, &mut wait);
        sender.ready_wait = wait;
        if polled.is_ready() {
            senders.iter_mut().for_each(|sender| sender.ready_wait = None);
            break;
        }
    }
    polled
}
