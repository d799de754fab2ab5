//! A receive queue as pollers and monitors see it.

use super::{EndOnPanic, RxShared};
use crate::monitor::{Link, Monitor, Watched};
use crate::poller::PollTarget;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::tx::queue::TxQueue;
use crate::wakeup::Call;
use std::os::fd::RawFd;
use std::sync::{Arc, TryLockError};

impl Watched for RxShared {
    fn link(&self) -> Link {
        match &self.of {
            Some(queue) => queue.link(),
            None => self.state.try_lock().ok()?.device.as_mut()?.link(),
        }
    }

    fn queue(&self) -> Option<&TxQueue> {
        self.of.as_ref()
    }
}

impl PollTarget for RxShared {
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => {
                return PollOutcome { busy: true, receives: true, ..PollOutcome::default() };
            }
            // The handler or the device has panicked.
            Err(TryLockError::Poisoned(poisoned)) => {
                // Other caches wait for the buffers that it would gather.
                poisoned.into_inner().wait_for_memory_in_turn(false);
                self.end();
                return PollOutcome { over: true, ..PollOutcome::default() };
            }
        };
        let panicked = EndOnPanic(self);
        let (found, has_news) = self.poll_state(&mut state, irq, away, budget_packets);
        std::mem::forget(panicked);
        drop(state);
        if has_news {
            self.tell();
        }
        found
    }

    fn monitored(&self) -> Option<(&dyn Monitor, &dyn Watched)> {
        Some((&**self.monitor.get()?, self))
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.wait_fd
    }

    fn enroll(&self, call: &Arc<Call>) {
        self.callers.add(call);
        self.of.iter().for_each(|queue| queue.shared.add_poller(call));
    }

    fn leave(&self, call: &Arc<Call>) {
        self.step_aside();
        self.callers.remove(call);
        self.callers.call_one();
        self.of.iter().for_each(|queue| queue.shared.remove_poller(call));
    }
}
