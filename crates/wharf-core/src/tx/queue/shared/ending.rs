//! The end of a queue: closed by its user, failed with its device, or dead by a panic of its owner.

use super::{QueueError, Shared};
use crate::tx::sender::SendError;
use std::sync::atomic::{Ordering, fence};
use wharf_mem::word::DEAD;

impl Shared {
    /// Lets senders in no more.
    pub(in crate::tx::queue) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // `Waiters::wake_all` comes after it, and finds a sender that registers meanwhile; or that sender
        // finds the queue closed.
        fence(Ordering::SeqCst);
        self.sender_settings.note_change();
    }

    /// True if it is closed to senders.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the queue with its device, which is of no use any more.
    pub(in crate::tx::queue) fn fail(&self, why: &str) {
        _ = self.failure.set(why.into());
        self.close();
        self.waiters.wake_all();
        self.setup.pool.wake_served();
    }

    /// Closes the queue after its owner has panicked, and wakes all waiters, which would wait for ever.
    #[cold]
    pub(crate) fn die(&self) {
        self.close();
        self.waiters.wake_all();
        self.setup.pool.wake_served();
        let listener = self.counters.listener.get();
        listener.inspect(|listener| listener.panicked("its device or discipline panicked", true));
    }

    /// Returns the error of a closed queue: its death, or the end of its device.
    #[cold]
    pub(crate) fn closed_error(&self) -> SendError {
        let device = &self.setup.device.name;
        match self.failure.get() {
            _ if self.cell.word() & DEAD != 0 => self.dead(),
            Some(why) => SendError::Ended { why: format!("the queue of {device} has ended: {why}").into() },
            None => SendError::Closed,
        }
    }

    #[cold]
    pub(crate) fn dead(&self) -> SendError {
        let device = &self.setup.device.name;
        let why = format!("the queue is dead: its owner panicked inside the device {device}");
        SendError::Ended { why: why.into() }
    }

    /// Checks that the queue takes senders.
    pub(crate) fn check_open(&self) -> Result<(), QueueError> {
        match self.is_closed().then(|| self.closed_error()) {
            None => Ok(()),
            Some(SendError::Ended { why }) => Err(QueueError::Ended { why }),
            Some(_) => Err(QueueError::Closed),
        }
    }
}
