//! `Guard`: a device from which only frames with source addresses of its own are received (`mac=`, `ip=`).
//! What [`Sources`] does not permit is dropped, and counted.

mod sources;

use crate::spec::{DeviceSpec, Opened};
use sources::Sources;
pub(crate) use sources::{IP, MAC};
use std::sync::Arc;
use wharf_core::device::{Device, DeviceError, Notify, RxDevice, TxDevice};
use wharf_core::pool::Cache;
use wharf_core::{delegate, wrap_device};
use wharf_mem::{Batch, Frame, Region};

/// Reason of a frame whose source is not the device's.
const SPOOFED: &str = "spoofed";

/// Checks the keys of a specification.
pub(crate) fn check(spec: &DeviceSpec) -> Result<(), DeviceError> {
    Sources::of(spec).map(drop)
}

/// Returns the MAC addresses of a specification's device.
pub(crate) fn macs(spec: &DeviceSpec) -> Result<Vec<[u8; 6]>, DeviceError> {
    Ok(Sources::of(spec)?.macs)
}

/// Puts a guard around each device, if the specification asks for one.
pub(crate) fn guarded(spec: &DeviceSpec, opened: Vec<Opened>) -> Result<Vec<Opened>, DeviceError> {
    let sources = Sources::of(spec)?;
    if sources == Sources::default() {
        return Ok(opened);
    }
    let guard = |opened: Opened| Opened {
        device: wrap_device!(opened.device, |inner| Guard::new(inner, sources.clone())),
        own_macs: sources.macs.clone(),
        ..opened
    };
    Ok(opened.into_iter().map(guard).collect())
}

/// See the module.
struct Guard<D> {
    inner: D,
    sources: Sources,
    region: Option<Arc<Region>>,
    /// Frames of one reception, the last one first.
    taken: Vec<Frame>,
    spoofed: u64,
}

impl<D> Guard<D> {
    fn new(inner: D, sources: Sources) -> Self {
        Self {
            inner,
            sources,
            region: None,
            taken: Vec::with_capacity(wharf_mem::batch::BATCH_FRAMES_MAX),
            spoofed: 0,
        }
    }

    fn permits(&self, frame: &Frame) -> bool {
        let Some(region) = &self.region else { return false };
        let (Ok(head), Ok(meta)) = (region.bytes(frame), region.meta(frame)) else { return false };
        match meta.needs_checksum {
            true => {
                let (start, offset) = (meta.checksum_start.into(), meta.checksum_offset.into());
                self.sources.permit_unfinished(head, start, offset)
            }
            false => self.sources.permit(head),
        }
    }

    /// Takes those of the last `received` frames out that the device may not send. Returns the number of the
    /// others.
    #[cold]
    fn sift(&mut self, cache: &mut Cache, to: &mut Batch, received: usize) -> usize {
        let mut taken = std::mem::take(&mut self.taken);
        taken.extend((0..received).map_while(|_| to.pop_back()));
        let mut permitted = 0;
        while let Some(frame) = taken.pop() {
            if self.permits(&frame) {
                permitted += usize::from(to.push(frame).is_ok());
            } else {
                self.spoofed += 1;
                // The cache has given it.
                _ = cache.give_one(frame);
            }
        }
        self.taken = taken;
        permitted
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Notify for Guard<D> {
    delegate!(inner: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Device for Guard<D> {
    delegate!(inner: name, mode, mode_reason, facts, set_line, link, visit, close);

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> TxDevice for Guard<D> {
    delegate!(inner: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

#[deny(clippy::missing_trait_methods)]
impl<D: RxDevice> RxDevice for Guard<D> {
    delegate!(inner: ended, reclaim, queue_packets, next_arrival_ns, thin, holds_back);

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let before = to.len();
        let received = self.inner.receive(cache, to, budget);
        let came = to.len() - before;
        if to.frames()[before..].iter().all(|frame| self.permits(frame)) {
            return received;
        }
        let permitted = self.sift(cache, to, came);
        received.map(|_| permitted)
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.inner.drops(see);
        see(SPOOFED, self.spoofed);
    }
}
