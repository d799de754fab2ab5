//! A device without offloads that records the frames it was given.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};

/// The device's record for a test.
#[derive(Debug, Default)]
pub struct Seen {
    /// Bytes and time stamp of each frame taken.
    pub frames: Vec<(Vec<u8>, u64)>,
    /// Doorbells rung.
    pub doorbells: u64,
}

/// See the module.
pub struct Plain {
    ring: usize,
    segments_max: u16,
    /// It segments TCP itself.
    pub segments_tcp: bool,
    held: VecDeque<Frame>,
    /// Frames with a doorbell: no others leave.
    rung: usize,
    region: Option<Arc<Region>>,
    /// The record.
    pub seen: Arc<Mutex<Seen>>,
    closed: bool,
}

impl Plain {
    /// Makes one with a ring of `ring` frames of up to `segments_max` buffers.
    pub fn new(ring: usize, segments_max: u16) -> Self {
        let (held, seen) = (VecDeque::new(), Arc::default());
        Self { ring, segments_max, segments_tcp: false, held, rung: 0, region: None, seen, closed: false }
    }
}

impl Notify for Plain {}

impl Device for Plain {
    fn name(&self) -> String {
        "plain".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        Ok(())
    }
}

impl TxDevice for Plain {
    fn info(&self) -> TxInfo {
        let (ring_frames, segments_max) = (Some(self.ring as u32), self.segments_max);
        let (completions, tcp_segmentation) = (CompletionMode::Real, self.segments_tcp);
        TxInfo {
            ring_frames,
            completions,
            segments_max,
            tcp_segmentation,
            timestamps: false,
            checksum: tcp_segmentation,
            ..TxInfo::default()
        }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let region = self.region.as_ref().unwrap();
        let mut seen = self.seen.lock().unwrap();
        while self.held.len() < self.ring && !self.closed {
            let Some(frame) = batch.pop() else { break };
            let meta = region.meta(&frame).unwrap();
            let is_plain = meta.gso_bytes == 0 && meta.gso_kind == 0 && !meta.needs_checksum;
            assert!(is_plain || self.segments_tcp, "{meta:?}");
            let chunks: Vec<&[u8]> = region.chunks(&frame).unwrap().collect();
            assert!(chunks.len() <= usize::from(self.segments_max), "{} chunks", chunks.len());
            seen.frames.push((chunks.concat(), meta.time_ns));
            self.held.push_back(frame);
        }
        drop(seen);
        let stopped = self.held.len() == self.ring;
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    fn flush(&mut self) -> bool {
        let is_owed = self.rung < self.held.len();
        self.rung = self.held.len();
        self.seen.lock().unwrap().doorbells += u64::from(is_owed);
        is_owed
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let room = into.sent.room();
        for _ in 0..budget.min(self.rung).min(room) {
            into.sent.push(self.held.pop_front().unwrap()).unwrap();
            self.rung -= 1;
        }
        if self.closed {
            let left = self.held.drain(..).map(|frame| (frame, "closed"));
            into.failed.extend(left);
            self.rung = 0;
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}
