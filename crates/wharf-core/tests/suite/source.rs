//! A receiver of numbered packets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_core::device::{Device, DeviceError, Notify, RxDevice};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// A test's controls of a [`Source`].
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Numbers of the packets that have arrived.
    pub waiting: Mutex<VecDeque<u64>>,
    /// True if none follow.
    pub ended: AtomicBool,
    /// Concurrent calls: work done twice.
    inside: AtomicUsize,
}

/// A device that receives packets of 64 bytes with their numbers in front, and refuses concurrent calls.
pub struct Source(pub Arc<Arrivals>);

impl Notify for Source {}

impl Device for Source {
    fn name(&self) -> String {
        "source".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Source {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        assert_eq!(self.0.inside.fetch_add(1, SeqCst), 0, "one at a time");
        let mut waiting = self.0.waiting.lock().unwrap();
        let count = budget.min(waiting.len());
        let taken = if count == 0 { 0 } else { cache.take(to, count, 64).unwrap_or(0) };
        let region = cache.pool().region().clone();
        let start = to.len() - taken;
        for frame in &mut to.frames_mut()[start..] {
            let number = waiting.pop_front().unwrap();
            region.bytes_mut(frame).unwrap()[..8].copy_from_slice(&number.to_be_bytes());
        }
        self.0.inside.fetch_sub(1, SeqCst);
        Ok(taken)
    }

    fn ended(&self) -> bool {
        self.0.ended.load(SeqCst) && self.0.waiting.lock().unwrap().is_empty()
    }
}
