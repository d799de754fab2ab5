//! The receive side of a device that is replaced.

use super::super::side::Side;
use super::{LOOK_NS, Reopened};
use wharf_core::device::{DeviceError, Passes, RxDevice};
use wharf_core::pool::Cache;
use wharf_mem::Batch;

#[deny(clippy::missing_trait_methods)]
impl<D: ?Sized + Side + RxDevice> RxDevice for Reopened<D> {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if !self.posted.is_empty() {
            self.give_posted(cache);
        }
        let Some(device) = self.device() else { return Ok(0) };
        let before = to.len();
        match device.receive(cache, to, budget) {
            Ok(count) => Ok(count),
            // Packets may have come before the error.
            Err(error) => self.failed(error).map(|()| to.len() - before),
        }
    }

    fn ended(&self) -> bool {
        self.inner.as_ref().map_or(self.is_ended, |inner| inner.ended())
    }

    fn reclaim(&mut self, to: &mut Batch) -> usize {
        let count = self.inner.as_mut().map_or(0, |inner| inner.reclaim(to));
        count + to.fill_by(|| self.posted.pop())
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        match &mut self.inner {
            Some(inner) => self.before.drops_with(|see| inner.drops(see), see),
            None => self.before.drops_with(|_| {}, see),
        }
    }

    /// Shows those since it was opened last.
    fn queue_packets(&mut self, see: &mut dyn FnMut(u32, u64)) {
        if let Some(inner) = &mut self.inner {
            inner.queue_packets(see);
        }
    }

    fn holds_back(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.holds_back())
    }

    fn thin(&mut self, passes: Option<&Passes>) -> bool {
        self.inner.as_mut().is_some_and(|inner| inner.thin(passes))
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        match &self.inner {
            Some(inner) => inner.next_arrival_ns(),
            None => Some(LOOK_NS).filter(|_| !self.is_ended),
        }
    }
}

impl<D: ?Sized + Side + RxDevice> Reopened<D> {
    /// Gives back memory that the device before had posted for arrivals.
    #[cold]
    fn give_posted(&mut self, cache: &mut Cache) {
        let mut batch = Batch::new(self.posted.len().min(wharf_mem::batch::BATCH_FRAMES_MAX));
        while batch.fill_by(|| self.posted.pop()) > 0 {
            cache.give_all(&mut batch);
        }
    }
}
