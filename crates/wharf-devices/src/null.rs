//! `null`: the dummy device. It takes every frame, and each is complete at the next reap.

use crate::spec::{Can, Kind, Opened, QueueLayout};
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};

/// Frames held between two reaps: far more than an owner's quota.
const RING_FRAMES: usize = wharf_mem::batch::BATCH_FRAMES_MAX;

/// The `null` kind.
pub(crate) static KIND: Kind = Kind {
    queues: QueueLayout::Devices,
    can: Can { stays_inside: true, ignores_addresses: true, ..Can::SEND },
    ..Kind::new("null", "null", "takes everything, infinitely fast", |spec, opening| {
        Ok((0..spec.devices(opening.queues)).map(|_| Opened::tx(Null::default())).collect())
    })
};

/// The dummy device.
#[derive(Debug)]
pub struct Null {
    held: Batch,
    owes_doorbell: bool,
}

impl Default for Null {
    fn default() -> Self {
        Self { held: Batch::new(RING_FRAMES), owes_doorbell: false }
    }
}

impl Null {
    /// Takes frames beside those already held, or with the doorbell left out.
    #[inline(never)]
    fn transmit_beside(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let taken = self.held.append(batch, usize::MAX) > 0;
        let stopped = self.held.room() == 0;
        let owed = std::mem::replace(&mut self.owes_doorbell, false) || taken;
        let rings = !more || stopped;
        self.owes_doorbell = owed && !rings;
        Transmitted { doorbell: owed && rings, stopped }
    }
}

impl Notify for Null {}

impl Device for Null {
    fn name(&self) -> String {
        "null".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.frames().iter().for_each(see);
    }
}

impl TxDevice for Null {
    fn info(&self) -> TxInfo {
        TxInfo::of_any_frame(RING_FRAMES, CompletionMode::Real)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if !more && !batch.is_empty() && self.held.replace(batch) {
            // The whole batch: the usual case.
            self.owes_doorbell = false;
            return Transmitted { doorbell: true, stopped: self.held.room() == 0 };
        }
        self.transmit_beside(batch, more)
    }

    #[inline]
    fn flush(&mut self) -> bool {
        std::mem::take(&mut self.owes_doorbell)
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        into.sent.append(&mut self.held, budget);
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}
