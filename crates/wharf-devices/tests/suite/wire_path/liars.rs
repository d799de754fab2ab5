//! Devices that lie about completions.

use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// Completes at once, and more than it should.
pub struct Liar {
    held: Batch,
    region: Option<Arc<Region>>,
    len_bytes: Option<u32>,
    own: Option<Cache>,
}

impl Liar {
    /// Makes one that completes every frame as `len_bytes` long, and a frame of `own` with every run.
    pub fn new(len_bytes: Option<u32>, own: Option<Cache>) -> Self {
        Self { held: Batch::new(256), region: None, len_bytes, own }
    }
}

impl Notify for Liar {}

impl Device for Liar {
    fn name(&self) -> String {
        "liar".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.frames().iter().for_each(see);
    }
}

impl TxDevice for Liar {
    fn info(&self) -> TxInfo {
        TxInfo { completions: CompletionMode::Real, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        Transmitted { doorbell: self.held.append(batch, usize::MAX) > 0, stopped: self.held.room() == 0 }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if let (Some(own), false) = (&mut self.own, self.held.is_empty()) {
            own.take(&mut into.sent, 1, 60).unwrap();
        }
        into.sent.append(&mut self.held, budget - into.sent.len());
        if let (Some(len_bytes), Some(region)) = (self.len_bytes, &self.region) {
            into.sent.frames_mut().iter_mut().for_each(|frame| region.set_len(frame, len_bytes).unwrap());
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}

/// Frequency of each fault in 256 calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Takes fewer frames than it has room for.
    pub partial: u8,
    /// Says that it is stopped though it has room.
    pub stopped: u8,
    /// Completes a slot that holds nothing.
    pub not_held: u8,
    /// Completes nothing though it could.
    pub lazy: u8,
    /// Completes a frame as longer than it was.
    pub longer: u8,
    /// Fails a frame that was sent.
    pub failed: u8,
}

/// A device with faults.
pub struct Faulty<D> {
    inner: D,
    ring: usize,
    rates: Rates,
    random: u64,
    region: Option<Arc<Region>>,
    part: Batch,
}

impl<D: TxDevice> Faulty<D> {
    /// Puts faults of these rates around `inner`, which has a ring of `ring` frames.
    pub fn new(inner: D, ring: usize, rates: Rates, seed: u64) -> Self {
        Self { inner, ring, rates, random: seed | 1, region: None, part: Batch::new(256) }
    }

    fn happens(&mut self, rate: u8) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) as u8 <= rate && rate > 0
    }
}

impl<D: TxDevice> Notify for Faulty<D> {}

impl<D: TxDevice> Device for Faulty<D> {
    fn name(&self) -> String {
        "faulty".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.inner.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.inner.close()
    }
}

impl<D: TxDevice> TxDevice for Faulty<D> {
    fn info(&self) -> TxInfo {
        self.inner.info()
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let room = self.ring - self.inner.outstanding();
        let max =
            if self.happens(self.rates.partial) { room.min(1 + self.random as usize % 3) } else { room };
        self.part.append(batch, max);
        let mut done = self.inner.transmit(&mut self.part, more);
        assert!(self.part.is_empty());
        done.stopped |= self.happens(self.rates.stopped);
        done
    }

    fn flush(&mut self) -> bool {
        self.inner.flush()
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if !self.happens(self.rates.lazy) {
            self.inner.reap(budget, false, into)?;
        }
        if self.happens(self.rates.longer)
            && let (Some(region), Some(frame)) = (&self.region, into.sent.frames_mut().first_mut())
        {
            region.set_len(frame, region.data_bytes_max()).unwrap();
        }
        if self.happens(self.rates.failed)
            && let Some(frame) = into.sent.pop()
        {
            into.failed.push((frame, "faulty"));
        }
        if self.happens(self.rates.not_held) {
            return Err(DeviceError::NotHeld { device: self.name(), slot: 7, ring_frames: self.ring as u32 });
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}
