//! The end of a queue: closed by its user, failed with its device, or dead by a panic of its owner.

use super::{QueueError, Shared};
use std::sync::atomic::Ordering;
use wharf_mem::word::DEAD;

impl Shared {
    /// Lets senders in no more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.sender_settings.note_change();
    }

    /// Closes the queue after its owner has panicked, and wakes all waiters, which would wait for ever.
    #[cold]
    pub(crate) fn die(&self) {
        self.close();
        self.waiters.wake_all();
        self.pool.wake_served();
        let listener = self.counters.listener.get();
        listener.inspect(|listener| listener.panicked("its device or discipline panicked", true));
    }

    /// Returns the error of a closed queue: its death, or the end of its device.
    #[cold]
    pub(crate) fn closed_error(&self) -> QueueError {
        match self.failure.get() {
            _ if self.cell.word() & DEAD != 0 => self.dead(),
            Some(why) => QueueError::Failed { device: self.name.clone(), why: why.clone() },
            None => QueueError::Closed,
        }
    }

    #[cold]
    pub(crate) fn dead(&self) -> QueueError {
        QueueError::Dead { device: self.name.clone() }
    }
}
