//! `Ready`: handles that hear when a sender may go on, and the calls of a sender that are polled.
//!
//! (A) A handle registers its waker, then checks whether the sender is blocked. (B) The sender marks itself
//! blocked, then joins the waiters. The owner that serves it clears the mark, then wakes all handles. A new
//! handle is in the list before it checks (loom: `ready.rs`). So no handle sleeps while the
//! sender may go on. No lock is held, so that a task that is stopped holds up no owner.

use super::wait::poll_wait;
use super::watch::pass_on;
use super::{SendError, Sender, Sent};
use crate::host::{self, Wake};
use crate::pool::{Burst, Packet};
use crate::tx::queue::Shared;
use crate::tx::queue::waiters::Need;
use crate::wait::Wait;
use crate::wakeup::TaskWake;
use arc_swap::ArcSwap;
use std::mem::discriminant;
use std::slice::from_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, ready};

/// What a sender and its handles share.
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

/// A handle that hears when a [`Sender`] may go on, once a call without waiting ([`Wait::Never`]) has found
/// no room, or no memory. Each clone wakes a task of its own. The sender itself may stand behind a lock, or
/// with another task.
#[derive(Debug)]
pub struct Ready {
    shared: Arc<Shared>,
    readiness: Arc<Readiness>,
    wake: Arc<TaskWake>,
}

impl Ready {
    fn new(shared: &Arc<Shared>, readiness: &Arc<Readiness>) -> Self {
        let (shared, readiness, wake) = (shared.clone(), readiness.clone(), Arc::<TaskWake>::default());
        readiness.handles.rcu(|handles| handles.iter().chain([&wake]).cloned().collect::<Vec<_>>());
        Self { shared, readiness, wake }
    }

    /// Asks whether the sender may go on; pending, the task is woken once it may, and once the queue ends.
    /// Without a poller, it runs the queue, and asks to be polled again at once.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.wake.set(context.waker());
        if self.readiness.is_blocked.load(SeqCst) && !self.shared.has_poller() {
            pass_on(&self.shared);
            context.waker().wake_by_ref();
        }
        if self.readiness.is_blocked.load(SeqCst) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Clone for Ready {
    fn clone(&self) -> Self {
        Self::new(&self.shared, &self.readiness)
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
        Ready::new(&self.shared, &self.readiness)
    }

    /// Sends packets of `burst`, as many as there is room for. Pending if there is room for none: the task
    /// is woken, in turn. A later call goes on with the same place among the waiters, and dropping the
    /// sender gives it up.
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
    /// # Errors
    /// The errors of [`Sender::packet`], and those of [`Sender::send`].
    pub fn poll_packet(
        &mut self, context: &mut Context<'_>, len_bytes: u32,
    ) -> Poll<Result<Packet, SendError>> {
        loop {
            // Goes on with the wait for memory, too.
            ready!(self.poll_ready(context))?;
            match self.packet(len_bytes, Wait::Never) {
                Err(SendError::NoMemory { .. }) => {
                    let mut wait = None;
                    let polled = poll_wait(from_mut(self), context, Need::Memory, &mut wait);
                    self.ready_wait = wait;
                    ready!(polled)?;
                }
                packet => return Poll::Ready(packet),
            }
        }
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
        let mut watch = before.unwrap_or_else(|| self.register(need, self.readiness.clone()));
        let is_met = self.look(&mut watch).is_some();
        if is_met {
            // A handle may have found it blocked meanwhile.
            self.readiness.wake();
        } else {
            self.ready_watch = Some(watch);
        }
        is_met
    }

    /// Ends the wait of the handles if it has been served. True if one goes on.
    pub(super) fn goes_on_blocking(&mut self) -> bool {
        let Some(mut watch) = self.ready_watch.take() else { return false };
        let is_over = self.look(&mut watch).is_some();
        if is_over {
            self.readiness.wake();
        } else {
            self.ready_watch = Some(watch);
        }
        !is_over
    }
}
