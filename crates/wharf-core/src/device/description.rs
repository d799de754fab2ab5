//! `Description`: how a device presents itself, once it is attached.

use super::{Device, ModeReason};
use std::os::fd::RawFd;

/// How a device presents itself, once it is attached: its queue answers for it without the device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Description {
    pub(crate) name: String,
    /// How it works on this machine, and the cause that the mode is no better one.
    pub(crate) mode: Option<&'static str>,
    pub(crate) mode_reason: Option<ModeReason>,
    /// The descriptor that it notifies by.
    pub(crate) wait_fd: Option<RawFd>,
}

impl Description {
    /// Asks `device`.
    pub(crate) fn of(device: &(impl Device + ?Sized)) -> Self {
        Self {
            name: device.name(),
            mode: device.mode(),
            mode_reason: device.mode_reason(),
            wait_fd: device.wait_fd(),
        }
    }
}
