//! A port's treatment of a device that stalls or has gone.

use std::sync::Arc;
use std::time::Duration;
use wharf_devices::reopen::{OnGone, Reopener};

/// A port's treatment of a device that stalls: it holds frames, and completes none for longer than it ever takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStall {
    /// Tells of it: [`Event::Stalled`](super::Event::Stalled).
    #[default]
    Report,
    /// Also closes the device, whose frames fail as `lost`, and opens it again on the same memory. Senders keep their handles and
    /// wait meanwhile.
    Reset,
    /// Also ends the queue: senders get [`SendError::Ended`](crate::SendError::Ended).
    Fail,
}

/// The settings of a port, and its way to open the device again, if it has one.
#[derive(Debug, Clone, Default)]
pub(super) struct Recovery {
    pub(super) on_stall: OnStall,
    pub(super) on_gone: OnGone,
    /// See [`Watchdog::new`](wharf_core::monitor::Watchdog::new).
    pub(super) stall_after: Option<Duration>,
    /// The time for which a line must be down before an event reports it.
    pub(super) down_after: Duration,
    /// The time after which `on_stall` is done, if that is not at once.
    pub(super) remedy_after: Option<Duration>,
    pub(super) reopener: Option<Arc<Reopener>>,
}
