//! The mode of the device of a receive queue.

use super::RxQueue;
use crate::device::ModeReason;

/// The mode, and the cause that it is no better one.
pub(super) type DeviceMode = (Option<&'static str>, Option<ModeReason>);

impl RxQueue {
    /// Returns how the device works on this machine: see [`Device::mode`](crate::device::Device::mode).
    pub fn device_mode(&self) -> Option<&'static str> {
        self.shared.mode.0
    }

    /// Returns the cause that the mode is no better one: see [`Device::mode_reason`](crate::device::Device::mode_reason).
    pub fn device_mode_reason(&self) -> Option<&ModeReason> {
        self.shared.mode.1.as_ref()
    }
}
