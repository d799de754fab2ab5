//! `Canceller`: ends a sender's wait from another thread.

use crate::host::Wake;
use std::sync::{Arc, Mutex};
use wharf_mem::lock;

/// Ends a wait of one sender from another thread. A clone is another handle to the same sender.
///
/// ```
/// # use std::sync::Arc;
/// # use wharf_core::{host::NoClock, pool::PagePool};
/// # fn wait_of(sender: &mut wharf_core::sender::Sender) {
/// let canceller = sender.canceller();
/// std::thread::spawn(move || canceller.cancel());
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Canceller {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    /// The wake-ups of threads and tasks that wait, by the number of the wait: a task may have left one wait unfinished
    /// (`poll_ready`) and begun another, and the senders of a [`Spread`](super::Spread) share a canceller.
    wakes: Vec<(u64, Arc<dyn Wake>)>,
    /// Number of the next wait.
    next: u64,
}

impl Canceller {
    /// Ends the sender's wait, or its next one if it does not wait now: the call returns
    /// [`SendError::Cancelled`](super::SendError::Cancelled), once. A need that is met at the same time wins,
    /// and the call counts for the next wait. Of several waits of a task, the first that looks ends.
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.is_cancelled = true;
        let wakes: Vec<_> = state.wakes.iter().map(|(_, wake)| wake.clone()).collect();
        drop(state);
        wakes.into_iter().for_each(|wake| _ = crate::host::wake(wake));
    }

    /// Registers a wait.
    pub(super) fn enter(&self, wake: &Arc<dyn Wake>) -> Waiting {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.wakes.push((number, wake.clone()));
        Waiting { canceller: self.clone(), number }
    }
}

/// A wait that can be cancelled.
#[derive(Debug)]
pub(super) struct Waiting {
    canceller: Canceller,
    number: u64,
}

impl Waiting {
    /// True, once for each cancellation.
    pub(super) fn is_cancelled(&self) -> bool {
        std::mem::take(&mut lock(&self.canceller.state).is_cancelled)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.canceller.state).wakes.retain(|(number, _)| *number != self.number);
    }
}
