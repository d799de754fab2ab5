//! `PollTarget`: a device, or one side of it, that a poller looks after. `TxTarget` is a transmit queue.

use super::schedule::{IrqChange, PollOutcome};
use crate::monitor::{Monitor, Watched};
use crate::tx::queue::{TxQueue, poll_queue};
use crate::wakeup::Call;
use std::fmt::Debug;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A device, or one side of it, that a poller looks after.
pub(crate) trait PollTarget: Send + Sync + Debug {
    /// Applies `irq`, then polls once unless another thread is polling. `away`: the next poll may be long after this
    /// one.
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome;

    /// Returns the monitor that looks whether the device is well, if there is one, and what it looks at.
    fn monitored(&self) -> Option<(&dyn Monitor, &dyn Watched)>;

    /// The file descriptor that a notification makes readable or writable.
    fn wait_fd(&self) -> Option<RawFd>;

    /// Adds a poller, which comes when `call` is called.
    fn enroll(&self, call: &Arc<Call>);

    /// Removes the poller of `call`, and calls another one if there is any.
    fn leave(&self, call: &Arc<Call>);
}

/// A transmit queue as a poller's device.
#[derive(Debug)]
pub(super) struct TxTarget(pub(super) TxQueue);

impl PollTarget for TxTarget {
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome {
        poll_queue(&self.0.shared, irq, away, budget_packets, None)
    }

    fn monitored(&self) -> Option<(&dyn Monitor, &dyn Watched)> {
        Some((&**self.0.shared.monitor()?, &self.0))
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.0.shared.setup().device.wait_fd
    }

    fn enroll(&self, call: &Arc<Call>) {
        self.0.shared.add_poller(call);
    }

    fn leave(&self, call: &Arc<Call>) {
        self.0.shared.remove_poller(call);
    }
}
