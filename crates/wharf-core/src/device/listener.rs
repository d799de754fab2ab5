//! `DeviceListener`: hears of a device's errors, and of the panics that end its queue.

use super::DeviceError;
use std::fmt::Debug;

/// Hears of a device's errors, and of the panics that end its queue. Owners call it, also senders: neither method
/// takes a lock.
pub trait DeviceListener: Send + Sync + Debug {
    /// The device has reported `error`.
    fn error(&self, error: &DeviceError);

    /// A handler, a discipline or a device has panicked: `what` has ended.
    fn panicked(&self, what: &'static str, is_dead: bool);
}
