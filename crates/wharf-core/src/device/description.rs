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
    /// It has figures of its own, and may change its mode.
    pub(crate) has_facts: bool,
    /// The descriptor that it notifies by.
    pub(crate) wait_fd: Option<RawFd>,
}

impl Description {
    /// Asks `device`.
    pub(crate) fn of(device: &(impl Device + ?Sized)) -> Self {
        let mut has_facts = false;
        device.facts(&mut |_, _, _| has_facts = true);
        Self {
            name: device.name(),
            mode: device.mode(),
            mode_reason: device.mode_reason(),
            has_facts,
            wait_fd: device.wait_fd(),
        }
    }
}
