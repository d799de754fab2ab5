//! `Monitor`: hears what happens to a queue: a device's errors, panics, and stalls by its [`Watchdog`].
//!
//! Owners tell errors and panics where they find them, which is off the hot path. A poller calls [`Monitor::look`] while
//! it polls, every [`LOOK_NS`], and before it sleeps if something is the matter: packets cost nothing.

mod watchdog;

pub use watchdog::{Sign, Watchdog};

use crate::device::{DeviceError, DeviceListener};
use crate::host::Wake;
use crate::rx::{RxQueue, RxShared};
use crate::tx::queue::{Shared, TxQueue};
use std::sync::{Arc, Weak};

/// Time between two looks of a poller that polls on, ns.
pub const LOOK_NS: u64 = 5_000_000;

/// Hears what happens to queues, and checks by the pollers' threads whether they are well.
pub trait Monitor: DeviceListener {
    /// True if a poller that is about to sleep should look first. Called at each sleep: cheap.
    fn wants_look(&self) -> bool;

    /// A poller looks at its transmit queue or receive queue. Returns the time of its clock at which it looks again even
    /// if it sleeps, ns; `u64::MAX` for none.
    fn look(&self, now_ns: u64, at: &dyn Watched) -> u64;
}

/// What a device says of its line: see [`Device::link`](crate::device::Device::link).
pub type Link = Option<Result<(), DeviceError>>;

/// A queue that a poller looks at.
pub trait Watched {
    /// Returns what the device says of its line, unless another thread has the device.
    fn link(&self) -> Link;

    /// Returns the transmit queue that it is.
    fn queue(&self) -> Option<&TxQueue> {
        None
    }
}

/// A wake-up of a queue's poller, for threads that have work for it.
#[derive(Debug)]
enum CallPoller {
    Tx(Weak<Shared>),
    Rx(Weak<RxShared>),
}

impl Wake for CallPoller {
    fn wake(&self) {
        match self {
            Self::Tx(queue) => queue.upgrade().iter().for_each(|queue| queue.wake_poller()),
            Self::Rx(queue) => queue.upgrade().iter().for_each(|queue| queue.resume()),
        }
    }
}

impl RxQueue {
    /// Has `monitor` hear of the queue. The first one stays.
    #[doc(hidden)]
    pub fn set_monitor(&self, monitor: Arc<dyn Monitor>) {
        _ = self.shared.monitor.set(monitor);
    }

    /// Returns a wake-up of the queue's poller.
    #[doc(hidden)]
    pub fn call_poller(&self) -> Arc<dyn Wake> {
        Arc::new(CallPoller::Rx(Arc::downgrade(&self.shared)))
    }
}

impl Watched for RxQueue {
    fn link(&self) -> Link {
        self.shared.link()
    }
}

impl TxQueue {
    /// Has `monitor` hear of the queue. The first one stays.
    #[doc(hidden)]
    pub fn set_monitor(&self, monitor: Arc<dyn Monitor>) {
        _ = self.shared.counters.listener.set(monitor.clone());
        _ = self.shared.monitor.set(monitor);
    }

    /// Returns a wake-up of the queue's poller.
    #[doc(hidden)]
    pub fn call_poller(&self) -> Arc<dyn Wake> {
        Arc::new(CallPoller::Tx(Arc::downgrade(&self.shared)))
    }

    /// Takes completions at once. Returns true if the device has some to come, in its own time; `None` if another
    /// thread owns the queue.
    #[doc(hidden)]
    pub fn has_completions_due(&self) -> Option<bool> {
        self.shared.inspect(1, |state| {
            state.engine.force_completion();
            state.reap();
            let due_ns = state.engine.device_mut().next_completion_ns();
            state.engine.in_device() == 0 || due_ns.is_some_and(|due_ns| due_ns != u64::MAX)
        })
    }
}

impl Watched for TxQueue {
    /// Clears a link error once the link is up again, or once the device is gone and reports no link.
    fn link(&self) -> Link {
        let link = self.shared.inspect(1, |state| state.engine.device_mut().link())?;
        if link.as_ref().is_none_or(Result::is_ok) {
            self.shared.counters.came_back();
        }
        link
    }

    fn queue(&self) -> Option<&TxQueue> {
        Some(self)
    }
}
