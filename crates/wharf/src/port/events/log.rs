//! `Log`: the last events of a port, for any number of readers. `Listener`: one reader's wake-ups.

use super::Event;
use atomic_waker::AtomicWaker;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;
use wharf_core::host::Wake;
use wharf_devices::host::WakeFd;

/// Events kept.
const KEPT: usize = 256;

/// Events by number, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: VecDeque<Event>,
    /// Number of the oldest event.
    first: u64,
}

impl Log {
    pub(super) fn push(&mut self, event: Event) {
        if self.events.len() == KEPT {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
    }

    /// Returns the number that the next event will have.
    pub(super) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Returns event `next`, which counts on, and the number of events missed before it.
    pub(super) fn read(&self, next: &mut u64) -> (Option<Event>, u64) {
        let missed = self.first.saturating_sub(*next);
        *next += missed;
        let event = self.events.get((*next - self.first) as usize).cloned();
        *next += u64::from(event.is_some());
        (event, missed)
    }
}

/// A reader's wake-ups: a descriptor, and the task or thread that waits.
#[derive(Debug)]
pub(super) struct Listener {
    fd: Arc<WakeFd>,
    task: AtomicWaker,
}

impl Listener {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { fd: WakeFd::new()?, task: AtomicWaker::new() })
    }

    pub(super) fn set_task(&self, waker: &Waker) {
        self.task.register(waker);
    }

    /// Tells of an event. Takes no lock.
    pub(super) fn ring(&self) {
        self.fd.wake();
        // A waker's panic is not its owner's.
        _ = wharf_core::host::outlive(|| self.task.wake());
    }

    /// Makes the descriptor unreadable: the caller looks for events once more.
    pub(super) fn clear(&self) {
        self.fd.clear();
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
