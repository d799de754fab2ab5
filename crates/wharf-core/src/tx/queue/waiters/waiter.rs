//! `Waiter`: one wait of a sender, which the sender and the owners of the queue know, and its need.

use crate::host::Wake;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};

/// The need of a waiting sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Room for `frames` in a band.
    Space { band: u8, frames: usize },
    /// Free buffers, by the pool's wait list.
    Memory,
    /// Completions: the sum of the sender's completed bytes reaches `returned_bytes`.
    Credit { returned_bytes: u32 },
}

/// The progress of a wait.
const WAITS: u8 = 0;
const SERVED: u8 = 1;
const LEFT: u8 = 2;
/// The ticket of a waiter that no owner has listed yet.
const UNLISTED: u64 = u64::MAX;

/// One wait of a sender, which the sender and the owners of the queue know.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The sender's place in the queue.
    pub(crate) place: u16,
    pub(crate) need: Need,
    pub(super) wake: Arc<dyn Wake>,
    progress: AtomicU8,
    /// Its number in its list, by arrival.
    ticket: AtomicU64,
    /// The list, once it has a ticket.
    list: AtomicU8,
}

impl Waiter {
    pub(super) fn new(place: u16, need: Need, wake: Arc<dyn Wake>) -> Self {
        let (progress, ticket, list) = (AtomicU8::new(WAITS), AtomicU64::new(UNLISTED), AtomicU8::new(0));
        Self { place, need, wake, progress, ticket, list }
    }

    /// Its ticket; `None` if no owner has listed it.
    pub(super) fn ticket(&self) -> Option<u64> {
        Some(self.ticket.load(SeqCst)).filter(|&ticket| ticket != UNLISTED)
    }

    /// The list of its ticket: senders may classify only since it was listed.
    pub(super) fn list(&self) -> usize {
        self.list.load(SeqCst).into()
    }

    pub(super) fn set_ticket(&self, list: usize, ticket: u64) {
        self.list.store(list as u8, SeqCst);
        self.ticket.store(ticket, SeqCst);
    }

    pub(super) fn is_served(&self) -> bool {
        self.progress.load(SeqCst) == SERVED
    }

    /// Ends the wait as its sender. True if it was served.
    pub(super) fn leave(&self) -> bool {
        self.progress.swap(LEFT, SeqCst) == SERVED
    }

    /// Ends the wait of a waiter for which there is room. False if it has left.
    pub(super) fn serve(&self) -> bool {
        self.progress.compare_exchange(WAITS, SERVED, SeqCst, SeqCst).is_ok()
    }

    pub(super) fn has_left(&self) -> bool {
        self.progress.load(SeqCst) == LEFT
    }

    pub(super) fn is_for_memory(&self) -> bool {
        self.need == Need::Memory
    }

    /// True if the need of a waiter for completions of its own is met.
    pub(super) fn is_due(&self, returned_bytes: Option<u32>, has_memory: bool) -> bool {
        match (self.need, returned_bytes) {
            (Need::Credit { returned_bytes: wanted }, Some(there)) => has_reached(there, wanted),
            (Need::Credit { .. }, None) => true,
            (Need::Memory | Need::Space { .. }, _) => has_memory,
        }
    }
}

impl Need {
    /// Returns the frames that room is reserved for once the sender has been served.
    pub(crate) fn frames(self) -> usize {
        if let Need::Space { frames, .. } = self { frames.max(1) } else { 0 }
    }
}

/// True if the wrapping sum `there` has reached `wanted`.
pub(crate) fn has_reached(there: u32, wanted: u32) -> bool {
    there.wrapping_sub(wanted) as i32 >= 0
}
