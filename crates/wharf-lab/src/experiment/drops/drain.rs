//! `Drain`: a dummy device that keeps its caller busy for a while, as draining a packet did in 2011.

use super::super::host::spin;
use std::sync::Arc;
use wharf_core::device::{Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo};
use wharf_devices::null::Null;
use wharf_mem::{Batch, Frame, Region};

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

impl Notify for Drain {}

impl Device for Drain {
    fn name(&self) -> String {
        self.null.name()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.null.attach(region)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.null.visit(see);
    }
}

impl TxDevice for Drain {
    fn info(&self) -> TxInfo {
        self.null.info()
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let offered = batch.len();
        let done = self.null.transmit(batch, more);
        spin(self.drain_ns * (offered - batch.len()) as u64);
        done
    }

    fn flush(&mut self) -> bool {
        self.null.flush()
    }

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.null.reap(budget, urgent, into)
    }

    fn outstanding(&self) -> usize {
        self.null.outstanding()
    }
}
