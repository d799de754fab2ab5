//! `Canceller`: ends a sender's wait from another thread.

use crate::host::Wake;
use crate::pool::lock;
use std::sync::{Arc, Mutex};

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
    /// The wake-up of the thread or task that waits.
    wake: Option<Arc<dyn Wake>>,
}

impl Canceller {
    /// Ends the sender's wait, or its next one if it does not wait now: the call returns
    /// [`QueueError::Cancelled`](crate::queue::QueueError::Cancelled), once. A need that is met at the same time wins,
    /// and the call counts for the next wait.
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.is_cancelled = true;
        let wake = state.wake.clone();
        drop(state);
        wake.map(crate::host::wake);
    }

    /// Registers a wait.
    pub(super) fn enter(&self, wake: &Arc<dyn Wake>) -> Waiting {
        lock(&self.state).wake = Some(wake.clone());
        Waiting(self.clone())
    }
}

/// A wait that can be cancelled.
#[derive(Debug)]
pub(super) struct Waiting(Canceller);

impl Waiting {
    /// True, once for each cancellation.
    pub(super) fn is_cancelled(&self) -> bool {
        std::mem::take(&mut lock(&self.0.state).is_cancelled)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.0.state).wake = None;
    }
}
