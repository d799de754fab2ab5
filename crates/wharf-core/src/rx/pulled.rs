//! `PulledTarget`: a receive queue that a receiver's calls poll.

use super::RxShared;
use crate::monitor::{Monitor, Watched};
use crate::poller::poll_target::PollTarget;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::tx::queue::TxQueue;
use crate::wakeup::Call;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A receive queue polled by calls of a user's thread, which may come late: no sender relies on it as a poller.
#[derive(Debug)]
pub(crate) struct PulledTarget(pub(crate) Arc<RxShared>);

impl PollTarget for PulledTarget {
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome {
        let found = self.0.poll(irq, away, budget_packets);
        if found.more {
            // The run ended by its quota, and senders know of no poller that would go on with it.
            self.0.of.iter().for_each(TxQueue::poll);
        }
        found
    }

    fn monitored(&self) -> Option<(&dyn Monitor, &dyn Watched)> {
        self.0.monitored()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.0.device.wait_fd
    }

    fn enroll(&self, call: &Arc<Call>) {
        self.0.callers.add(call);
    }

    fn leave(&self, call: &Arc<Call>) {
        self.0.step_aside();
        self.0.callers.remove(call);
        self.0.of.iter().for_each(TxQueue::poll);
    }
}
