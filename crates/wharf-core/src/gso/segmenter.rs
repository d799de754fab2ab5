//! `Segmenter`: a wrapper around a device without segmentation, checksums, or enough gather entries (`validate_xmit_skb`).
//!
//! A frame is segmented after it has left the batch, so that it is one packet until then. Frames without metadata pass in whole
//! batches, and so do completions while no segment is in flight: the wrapper then costs two tests of a bit per batch.
//!
//! A packet completes when all its segments have: as sent, or with the reason of the first segment that failed. Packets that cannot be
//! segmented fail with a reason of their own: `gso-header`, `gso-size`, `gso-kind`; `too-many-chunks` if a segment needs more
//! buffers than the device gathers; `unfinished-checksum` if there is no place for the checksum; `no-cache` if the pool serves no
//! further thread; `closed`.
//!
//! Each call rings one doorbell. When a device stops in the middle of a packet, the other segments follow as completions are
//! reaped; doorbells that are rung then are not counted.

use super::work::{Handover, Work};
use crate::delegate;
use crate::device::{
    Completions, Device, DeviceError, Duplex, Notify, RxDevice, Transmitted, TxDevice, TxInfo, TxSide,
};
use crate::pool::PagePool;
use std::sync::Arc;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Region};

/// Bytes of the longest IP packet behind an Ethernet header with two tags.
const SUPER_BYTES: u32 = 65535 + 22;

/// A device that takes any frame of its pool, around one that does not.
pub struct Segmenter<D> {
    device: D,
    can: TxInfo,
    pool: PagePool,
    /// Present from the first batch on in which a frame has metadata.
    work: Option<Box<Work>>,
    /// True if `work` holds packets.
    busy: bool,
    done: Completions,
    closed: bool,
}

/// Puts `device`, which is attached, into a [`Segmenter`] if there are frames of `pool` that it would not take as they are.
pub(crate) fn with_segmenter(device: TxSide, pool: &PagePool) -> TxSide {
    let TxInfo { segmentation, checksum, segments_max, .. } = device.info();
    let buffers = SUPER_BYTES.div_ceil(pool.region().data_bytes_max());
    if segmentation && checksum && u32::from(segments_max) >= buffers {
        return device;
    }
    match device {
        TxSide::Tx(device) => TxSide::Tx(Box::new(Segmenter::new(device, pool))),
        TxSide::Duplex(device) => TxSide::Duplex(Box::new(Segmenter::new(device, pool))),
    }
}

impl<D: TxDevice> std::fmt::Debug for Segmenter<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segmenter({}, {:?})", self.device.name(), self.work)
    }
}

impl<D: TxDevice> Segmenter<D> {
    /// Wraps `device`, which is attached, for frames of `pool`.
    pub fn new(device: D, pool: &PagePool) -> Self {
        let (can, done) = (device.info(), Completions::new(BATCH_FRAMES_MAX));
        Self { device, can, pool: pool.clone(), work: None, busy: false, done, closed: false }
    }

    fn has_failed(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.has_failed())
    }

    #[inline(never)]
    fn transmit_with_care(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if self.closed {
            return self.device.transmit(batch, more);
        }
        let work = self.work.get_or_insert_with(|| Box::new(Work::new(&self.pool, self.can)));
        let mut rang = false;
        let stopped = work.send(batch, &mut self.device, &mut rang) == Handover::Stopped;
        self.busy = !work.is_idle();
        Transmitted { doorbell: ((!more || stopped) && self.device.flush()) || rang, stopped }
    }

    #[inline(never)]
    fn reap_with_care(
        &mut self, budget: usize, urgent: bool, into: &mut Completions,
    ) -> Result<(), DeviceError> {
        let Some(work) = &mut self.work else { return self.device.reap(budget, urgent, into) };
        let mut left = budget - work.give_failed(budget, into);
        loop {
            let room = left.min(into.sent.room()).min(BATCH_FRAMES_MAX);
            let reaped = self.device.reap(room, urgent, &mut self.done);
            let came = self.done.len();
            left = left.saturating_sub(work.sort(&mut self.done, into));
            if !self.closed {
                // Segments that waited for room or memory.
                work.push(&mut self.device, &mut false);
                self.device.flush();
            }
            if reaped.is_err() || came == 0 {
                self.busy = !work.is_idle();
                return reaped;
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> Notify for Segmenter<D> {
    delegate!(device: disarm, wait_fd, signals);

    fn arm(&mut self) -> bool {
        self.device.arm() && !self.has_failed()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> Device for Segmenter<D> {
    delegate!(device: name, mode, mode_reason, facts, set_line, link);

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.device.attach(region)?;
        // A device may learn its offloads as it is attached.
        self.can = self.device.info();
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.device.visit(see);
        if let Some(work) = &self.work {
            work.visit(see);
        }
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        let closed = self.device.close();
        if let Some(work) = &mut self.work {
            work.close();
        }
        closed
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> TxDevice for Segmenter<D> {
    delegate!(device: flush);

    fn info(&self) -> TxInfo {
        TxInfo { segments_max: u16::MAX, segmentation: true, checksum: true, ..self.can }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if self.busy || batch.any_meta() {
            return self.transmit_with_care(batch, more);
        }
        self.device.transmit(batch, more)
    }

    #[inline]
    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if self.busy {
            self.reap_with_care(budget, urgent, into)
        } else {
            self.device.reap(budget, urgent, into)
        }
    }

    fn outstanding(&self) -> usize {
        let inside = self.device.outstanding();
        self.work.as_ref().map_or(inside, |work| work.outstanding(inside))
    }

    fn next_completion_ns(&self) -> Option<u64> {
        if self.has_failed() { Some(0) } else { self.device.next_completion_ns() }
    }

    delegate!(device: set_patience);
}

#[deny(clippy::missing_trait_methods)]
impl<D: Duplex> RxDevice for Segmenter<D> {
    delegate!(device: receive, ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);
}
