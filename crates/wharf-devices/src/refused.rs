//! `Refused`: the transmit side of a device that only receives. It takes frames, as every device must, and gives
//! them back as failed.

use wharf_core::device::{Completions, Transmitted};
use wharf_mem::{Batch, Frame};

#[derive(Debug)]
pub(crate) struct Refused {
    frames: Vec<Frame>,
    reason: &'static str,
}

impl Refused {
    pub(crate) fn new(reason: &'static str) -> Self {
        Self { frames: Vec::new(), reason }
    }

    pub(crate) fn transmit(&mut self, batch: &mut Batch) -> Transmitted {
        self.frames.extend(std::iter::from_fn(|| batch.pop()));
        Transmitted { doorbell: !self.frames.is_empty(), stopped: false }
    }

    pub(crate) fn reap(&mut self, budget: usize, into: &mut Completions) {
        let count = self.frames.len().min(budget);
        into.failed.extend(self.frames.drain(..count).map(|frame| (frame, self.reason)));
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.frames.iter().for_each(see);
    }
}
