//! `Drain`: a dummy device that keeps its caller busy for a while, as draining a packet did in 2011.

use super::super::host::spin;
use wharf_core::delegate;
use wharf_core::device::{Device, Notify, Transmitted, TxDevice};
use wharf_devices::null::Null;
use wharf_mem::Batch;

#[derive(Debug)]
pub(super) struct Drain {
    null: Null,
    /// Time per frame.
    drain_ns: u64,
}

impl Drain {
    pub(super) fn new(drain_ns: u64) -> Self {
        Self { null: Null::default(), drain_ns }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Notify for Drain {
    delegate!(null: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl Device for Drain {
    delegate!(null: name, mode, mode_reason, link, attach, visit, close);
}

#[deny(clippy::missing_trait_methods)]
impl TxDevice for Drain {
    delegate!(null: info, flush, reap, outstanding, next_completion_ns);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let offered = batch.len();
        let done = self.null.transmit(batch, more);
        spin(self.drain_ns * (offered - batch.len()) as u64);
        done
    }
}
