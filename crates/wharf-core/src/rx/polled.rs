//! A receive queue as pollers and monitors see it.

use super::{EndOnPanic, RxQueue, RxShared};
use crate::counters::QueueCounters;
use crate::host::Wake;
use crate::monitor::{Link, Monitor, Watched};
use crate::poller::poll_target::PollTarget;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::tx::queue::TxQueue;
use crate::wakeup::Call;
use std::os::fd::RawFd;
use std::sync::{Arc, TryLockError, Weak};

impl Watched for RxShared {
    fn link(&self) -> Link {
        match &self.of {
            Some(queue) => queue.link(),
            None => self.state.try_lock().ok()?.device.as_mut()?.link(),
        }
    }

    fn counters(&self) -> Option<&QueueCounters> {
        self.of.as_ref().map(TxQueue::counters)
    }

    fn has_completions_due(&self) -> Option<bool> {
        self.of.as_ref()?.has_completions_due()
    }

    fn fail(&self, why: &str) {
        self.of.iter().for_each(|queue| queue.fail(why));
    }
}

impl Watched for RxQueue {
    fn link(&self) -> Link {
        self.shared.link()
    }
}

/// A wake-up of a queue's poller.
#[derive(Debug)]
struct CallPoller(Weak<RxShared>);

impl Wake for CallPoller {
    fn wake(&self) {
        self.0.upgrade().iter().for_each(|queue| queue.resume());
    }
}

impl RxQueue {
    /// Has `monitor` hear of the queue. The first one stays.
    #[doc(hidden)]
    pub fn set_monitor(&self, monitor: Arc<dyn Monitor>) {
        _ = self.shared.monitor.set(monitor);
    }

    /// Returns a wake-up of the queue's poller, for threads that have work for it.
    #[doc(hidden)]
    pub fn call_poller(&self) -> Arc<dyn Wake> {
        Arc::new(CallPoller(Arc::downgrade(&self.shared)))
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
