//! `Owners`: the threads that run a port's transmit queue.

use wharf_core::poller::{Mode, Settings};
use wharf_core::queue::Claimants;

/// The threads that run a port's transmit queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owners {
    /// A sender that is alone, in its own call: its packets leave at once, and no other thread is busy. From the second
    /// sender on, the port's poller, as with [`Owners::Poller`]. A sender that is made while the sole one is stopped in
    /// its own call waits for it.
    #[default]
    Auto,
    /// The senders, by turns, each for a quota; the port's poller for what they leave. A sender that is stopped while it
    /// runs the queue, or that its low priority keeps from a processor, holds up the others.
    Senders,
    /// The port's poller, which sleeps while there is nothing to do. Senders only publish: one that is stopped or has a
    /// low priority holds up no other, unless it then holds the pool's lock, or the allocator's.
    Poller {
        /// The processor that it keeps to.
        cpu: Option<usize>,
    },
    /// Works like [`Owners::Poller`], but never sleeps: for a processor of its own.
    Busy {
        /// The processor that it keeps to.
        cpu: usize,
    },
}

impl Owners {
    pub(super) fn cpu(self) -> Option<usize> {
        match self {
            Owners::Auto | Owners::Senders => None,
            Owners::Poller { cpu } => cpu,
            Owners::Busy { cpu } => Some(cpu),
        }
    }

    pub(super) fn claimants(self) -> Claimants {
        match self {
            Owners::Auto => Claimants::PollersOrSoleSender,
            Owners::Senders => Claimants::All,
            Owners::Poller { .. } | Owners::Busy { .. } => Claimants::Pollers,
        }
    }

    /// Returns the poller's settings.
    pub(super) fn settings(self, settings: Settings) -> Settings {
        match self {
            Owners::Busy { .. } => Settings { mode: Mode::Busy, ..settings },
            _ => settings,
        }
    }
}
