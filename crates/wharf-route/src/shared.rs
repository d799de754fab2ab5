//! `Shared`: what a router's senders have in common.

use crate::counts::{Cells, Counts};
use crate::waiting::Waiting;
use std::sync::{Arc, Mutex};
use wharf_net::{Tables, Watch};

#[derive(Debug)]
pub(crate) struct Shared {
    /// Follows the kernel while this lives.
    pub(crate) _watch: Watch,
    pub(crate) tables: Tables,
    pub(crate) waiting: Waiting,
    pub(crate) all: Mutex<All>,
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
