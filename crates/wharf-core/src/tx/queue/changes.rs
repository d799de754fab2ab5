//! `Changes`: settings of a queue that its owner has not put into force yet.
//!
//! A later value of a setting takes the place of an earlier one that never came into force. So what waits for the owner is bounded,
//! however fast another thread changes a setting.

use crate::bql::Bounds;
use crate::qdisc::{Qdisc, Rate};
use crate::tx::engine::{Batching, TxEngine};
use std::sync::Mutex;
use wharf_mem::lock;

/// The changes, which any thread notes and the owner takes.
#[derive(Default)]
pub(crate) struct PendingChanges(Mutex<Changes>);

impl PendingChanges {
    /// Notes a change by `set`. Returns true if there was none before: the owner is to be told; and what `set` returns.
    pub(super) fn note<R>(&self, set: impl FnOnce(&mut Changes) -> R) -> (bool, R) {
        let changes = &mut *lock(&self.0);
        (changes.is_empty(), set(changes))
    }

    /// Takes all changes.
    pub(super) fn take(&self) -> Changes {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) batching: Option<Batching>,
    pub(super) byte_limits: Option<Bounds>,
    qdisc: Option<Box<dyn Qdisc>>,
    /// Of the discipline above, or of the one in force.
    pub(super) rate: Option<Rate>,
}

impl Changes {
    /// True if there is nothing to put into force.
    fn is_empty(&self) -> bool {
        let Self { batching, byte_limits, qdisc, rate } = self;
        batching.is_none() && byte_limits.is_none() && qdisc.is_none() && rate.is_none()
    }

    /// Sets the discipline. It has a rate of its own. Returns the one whose place it takes, for the caller to drop.
    pub(super) fn set_qdisc(&mut self, qdisc: Box<dyn Qdisc>) -> Option<Box<dyn Qdisc>> {
        self.rate = None;
        self.qdisc.replace(qdisc)
    }

    /// Puts the changes into force. `classified` says that senders give each frame its band.
    pub(super) fn make(self, engine: &mut TxEngine, classified: bool) {
        if let Some(batching) = self.batching {
            engine.set_batching(batching);
        }
        if let Some(bounds) = self.byte_limits {
            engine.set_byte_limits(bounds);
        }
        if let Some(qdisc) = self.qdisc {
            engine.set_qdisc(qdisc, classified);
        }
        if let Some(rate) = self.rate {
            engine.set_rate(rate);
        }
    }
}
