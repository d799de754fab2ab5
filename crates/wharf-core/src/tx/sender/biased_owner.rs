//! `BiasedOwner`: lets the only active sender of a queue keep its ownership between two sends.
//!
//! Claiming a queue and leaving it are two locked instructions, nearly half the cost of a burst of one packet. A
//! sender that is alone keeps the queue's *bias* instead: it then enters and leaves by plain stores, and its own
//! frames return to its cache without the return ring. Any other thread that wants the queue (a sender, a poller,
//! a control message) revokes the bias, at the price of a system call (`membarrier`) and of waiting for one burst.
//! After each revocation the sender waits for twice as many runs before it asks for the bias again.

use crate::tx::queue::QueueState;
use wharf_mem::{Bias, BiasedOwnership, OwnerCell};

/// Runs as an ordinary owner, alone on the queue, before a sender asks for the bias.
const RUNS_FIRST: u64 = 16;
/// The most of such runs, however often the bias was revoked.
const RUNS_MAX: u64 = 1 << 16;

/// One sender's bias, or the runs that are left until it asks for it.
#[derive(Debug)]
pub(crate) struct BiasedOwner {
    /// `None` while another sender has it.
    bias: Option<Bias>,
    /// Runs left until the next request.
    due: u64,
    /// Runs until the next request once the bias has been revoked again.
    runs: u64,
}

impl BiasedOwner {
    pub(crate) fn new() -> Self {
        Self { bias: None, due: RUNS_FIRST, runs: RUNS_FIRST }
    }

    /// Makes one that never asks (2^64 runs take centuries): each run of the sender is then an ordinary one,
    /// and can be logged.
    pub(crate) fn never() -> Self {
        Self { due: u64::MAX, ..Self::new() }
    }

    /// Enters the queue by the bias. Returns `None` if the bias is not held.
    #[inline(always)]
    pub(crate) fn try_enter<'a>(
        &'a mut self, cell: &'a OwnerCell<QueueState>,
    ) -> Option<BiasedOwnership<'a, QueueState>> {
        let bias = self.bias.as_mut().filter(|bias| bias.is_held())?;
        let entered = cell.enter(bias);
        if entered.is_none() {
            (self.due, self.runs) = (self.runs, (2 * self.runs).min(RUNS_MAX));
        }
        entered
    }

    /// Counts a run as an ordinary owner in which no other thread used the queue; asks for the bias when it is due.
    #[inline]
    pub(crate) fn after_sole_run(&mut self, cell: &OwnerCell<QueueState>) {
        self.due -= 1;
        if self.due == 0 {
            self.due = self.runs;
            self.bias = self.bias.take().or_else(|| cell.take_bias());
            self.bias.iter_mut().for_each(|bias| acquire_if_sole(cell, bias));
        }
    }

    /// Releases the bias, before the sender claims the queue like any other.
    #[inline]
    pub(crate) fn release(&mut self, cell: &OwnerCell<QueueState>) {
        if let Some(bias) = self.bias.as_mut().filter(|bias| bias.is_held()) {
            cell.release(bias);
        }
    }

    /// Gives the bias back for another sender: this one is gone.
    pub(crate) fn retire(&mut self, cell: &OwnerCell<QueueState>) {
        if let Some(bias) = self.bias.take() {
            cell.return_bias(bias);
        }
    }
}

/// Acquires the bias, unless another thread has used the queue since the sole run. While the bias is held the queue stays
/// as it is: another thread that changes it revokes the bias first.
#[cold]
fn acquire_if_sole(cell: &OwnerCell<QueueState>, bias: &mut Bias) {
    cell.acquire(bias);
    let Some(mut entered) = cell.enter(bias) else { return };
    let is_sole = entered.with(|state| state.is_sole());
    entered.leave();
    if !is_sole {
        cell.release(bias);
    }
}
