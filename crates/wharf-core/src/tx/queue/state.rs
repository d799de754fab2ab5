//! What the owner of a queue alone touches.

use crate::tx::engine::{Source, TxEngine};
use crate::tx::queue::lanes::Lanes;

/// What the owner alone touches.
pub(crate) struct QueueState {
    pub(crate) engine: TxEngine,
    pub(crate) lanes: Lanes,
    /// Somebody is, or may be, on the waiters' list.
    pub(crate) waiting: bool,
    /// What those who wait keep marked as full, as it was when they were last served.
    pub(crate) waited_bands: u32,
    pub(crate) poller: PollerState,
    /// How often who offers the queue looks whether somebody takes it.
    pub(crate) offer_looks: u32,
    /// Shut down: what still comes is given back.
    pub(crate) shut: bool,
}

/// What the poller was about when it last left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerState {
    /// There is none.
    None,
    /// It will look again by itself, soon.
    Awake,
    /// It will look again by itself, later, or when the device tells of a completion.
    Away,
    /// It sleeps until woken.
    Asleep,
}

impl std::fmt::Debug for QueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueState({:?}, {:?})", self.engine, self.poller)
    }
}

impl QueueState {
    /// Whether there is anything that somebody must come back for.
    pub(crate) fn is_pending(&self) -> bool {
        self.engine.in_device() > 0 || self.engine.backlog() > 0 || !self.lanes.is_empty()
    }
}
