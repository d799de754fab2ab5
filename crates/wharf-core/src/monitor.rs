//! `Monitor`: hears what happens to a queue: a device's errors, panics, and stalls by its [`Watchdog`].
//!
//! Owners tell errors and panics where they find them, which is off the hot path. A poller calls [`Monitor::look`] while
//! it polls, every [`LOOK_NS`], and before it sleeps if something is the matter: packets cost nothing.

mod watchdog;

pub use watchdog::{Sign, Watchdog};

use crate::counters::QueueCounters;
use crate::device::{DeviceError, DeviceListener};

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

    /// Returns the counters of its transmit side, if it has one.
    fn counters(&self) -> Option<&QueueCounters> {
        None
    }

    /// Takes completions at once. Returns true if the device has some to come, in its own time; `None` if another
    /// thread owns the queue.
    fn has_completions_due(&self) -> Option<bool> {
        None
    }

    /// Ends the transmit side for its senders, whose calls return `why` from now on.
    fn fail(&self, _why: &str) {}
}
