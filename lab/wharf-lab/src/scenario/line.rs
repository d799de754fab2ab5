//! The line of a measured scenario: a device in this process whose frames leave at times that it computes,
//! as those of the model do.
//! No other thread takes part. Each packet's delay is known without a far end: from its making until its
//! last bit has left.

use super::stamps::Stamps;
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_core::host::Clock;
use wharf_devices::host::ExactClock;
use wharf_devices::wire::{ETHERNET_OVERHEAD_BYTES, rate};
use wharf_mem::{Batch, Frame, Region};

/// A device with a line.
#[derive(Debug)]
pub(super) struct Line {
    rate: rate::Line,
    ring_frames: usize,
    /// Frames with the times at which they leave, in order; behind them those that wait for the doorbell.
    frames: VecDeque<(Frame, u64)>,
    /// Frames that wait for it.
    unrung: usize,
    is_closed: bool,
    stamps: Arc<Stamps>,
}

impl Line {
    pub(super) fn new(bits_per_second: u64, ring_frames: u32, stamps: Arc<Stamps>) -> Self {
        let ring_frames = ring_frames as usize;
        Self {
            rate: rate::Line::new(bits_per_second, ETHERNET_OVERHEAD_BYTES),
            ring_frames,
            frames: VecDeque::with_capacity(ring_frames),
            unrung: 0,
            is_closed: false,
            stamps,
        }
    }
}

impl Notify for Line {}

impl Device for Line {
    fn name(&self) -> String {
        "line".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.frames.iter().for_each(|(frame, _)| see(frame));
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.is_closed = true;
        Ok(())
    }
}

impl TxDevice for Line {
    fn info(&self) -> TxInfo {
        TxInfo::of_any_frame(self.ring_frames, CompletionMode::Real)
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let taken = batch.len().min(self.ring_frames - self.frames.len());
        self.frames.extend(batch.pop_each().take(taken).map(|frame| (frame, u64::MAX)));
        self.unrung += taken;
        let stopped = self.frames.len() == self.ring_frames;
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    fn flush(&mut self) -> bool {
        if self.unrung == 0 {
            return false;
        }
        let (now_ns, first) = (ExactClock.now_ns(), self.frames.len() - std::mem::take(&mut self.unrung));
        for (frame, leaves_ns) in self.frames.range_mut(first..) {
            *leaves_ns = self.rate.send(frame.len_bytes().max(FRAME_BYTES_MIN), now_ns);
        }
        true
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let on_line = self.frames.len() - self.unrung;
        if on_line > 0 {
            let now_ns = ExactClock.now_ns();
            let due = self.frames.partition_point(|&(_, leaves_ns)| leaves_ns <= now_ns);
            let done = due.min(budget).min(into.sent.room());
            for (frame, leaves_ns) in self.frames.drain(..done) {
                self.stamps.see(&frame, leaves_ns);
                into.sent.push_within(frame);
            }
        }
        if self.is_closed {
            let rest = self.frames.len().min(budget.saturating_sub(into.len()));
            into.failed.extend(self.frames.drain(..rest).map(|(frame, _)| (frame, "closed")));
            self.unrung = self.unrung.min(self.frames.len());
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.frames.len()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        let &(_, leaves_ns) = self.frames.front().filter(|_| self.frames.len() > self.unrung)?;
        Some(leaves_ns.saturating_sub(ExactClock.now_ns()))
    }
}

/// The shortest frame on a line, without its check sequence.
const FRAME_BYTES_MIN: u32 = 60;
