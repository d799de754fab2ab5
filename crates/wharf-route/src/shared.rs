//! `Shared`: what a router's senders have in common.

use crate::counts::{Cells, Counts};
use crate::icmp::Budget;
use crate::waiting::Waiting;
use std::sync::{Arc, Mutex, PoisonError};
use wharf_net::{Tables, Watch};

#[derive(Debug)]
pub(crate) struct Shared {
    /// Follows the kernel while this lives.
    pub(crate) _watch: Watch,
    pub(crate) tables: Tables,
    pub(crate) waiting: Waiting,
    /// ICMP errors that all senders together may send, as a host of the kernel's.
    pub(crate) errors: Mutex<Budget>,
    pub(crate) all: Mutex<All>,
}

impl Shared {
    /// Takes one ICMP error of those that all senders may send. Returns false if there is none.
    pub(crate) fn may_answer(&self) -> bool {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The counters of all senders.
#[derive(Debug, Default)]
pub(crate) struct All {
    /// Of those that are no more.
    pub(crate) past: Counts,
    pub(crate) cells: Vec<Arc<Cells>>,
}

/// Whoever may send holds one: as the last is dropped, the thread that sends to neighbours ends.
#[derive(Debug)]
pub(crate) struct Alive(pub(crate) Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.waiting.end();
    }
}
