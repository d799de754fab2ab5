//! Queueing disciplines: what waits between the lanes and the device, and in which order it leaves.
//!
//! One policy per file. A discipline is owned by whoever owns the queue, so none locks. Back-pressure is by
//! band: a full band is published, and senders stop before they send more of it; what lies in their lanes
//! already is still taken, or a priority packet would be stuck behind bulk ones in its own lane. So storage
//! is for the limit plus one lane per sender.

pub(crate) mod classify;
mod drop_head;
mod fifo;
mod prio;
mod tbf;

pub use classify::{
    IpPacket, band_of_bytes, band_of_priority, ip_packet, priority_of_tos, set_priority, tos_of,
};
pub use drop_head::{DROP_HEAD, DropHead, Trim};
pub use fifo::{Fifo, FifoLimit};
pub use prio::Prio;
pub use tbf::{Rate, TBF_BURST_BYTES_MAX, TBF_RATE_MAX, Tbf, wire_bytes};

use std::collections::VecDeque;
use wharf_mem::{Batch, Frame};

/// The contract of a queueing discipline.
pub trait Qdisc: Send {
    /// Its name, as the command line knows it.
    fn name(&self) -> &'static str;

    /// Takes frames from the front of `from` while there is storage for them.
    fn enqueue(&mut self, from: &mut Batch);

    /// Frames that it has storage for, whatever their band: beyond its limit, by what was reserved.
    fn storage(&self) -> usize;

    /// Moves frames to the back of `to`, in the order in which they shall leave: at most `packets`, and no
    /// further one once `bytes` have been taken (so that it overshoots by one packet at most). How many.
    fn dequeue(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> usize;

    /// As [`Qdisc::dequeue`], of any frames, at the end, whatever keeps them back.
    fn give_up(&mut self, to: &mut Batch) -> usize {
        self.dequeue(to, to.room(), u64::MAX)
    }

    /// Frames inside.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames that `band` takes until it is full, about.
    fn room(&self, band: u8) -> usize;

    /// Whether `band` has drained to half its limit: waiting senders are woken then and not before, or each
    /// packet that leaves would wake one of them.
    fn has_drained(&self, band: u8) -> bool;

    /// Bit n is set while band n is full.
    fn full_bands(&self) -> u32;

    /// Moves frames that it gives up, oldest first, to the back of `to`; how many. `None`, the default: it gives up
    /// none, and senders wait while a band is full. Asked when a band is full.
    fn shed(&mut self, _to: &mut Batch) -> Option<usize> {
        None
    }

    /// Whether frames may pass it by while it is empty: true only where it would not reorder them.
    fn can_bypass(&self) -> bool;

    /// Whether it looks at bands: then senders classify their frames.
    fn uses_bands(&self) -> bool;

    /// Makes storage for `frames` further ones that may lie in lanes. Not on the hot path.
    fn reserve(&mut self, frames: usize);

    /// In how many nanoseconds it must be asked again although nothing happens, because it keeps frames back until then; `None`
    /// for never. A queue whose discipline ever does needs somebody who comes back: a poller, or a sender that waits.
    fn next_event_ns(&self) -> Option<u64>;

    /// Shows each frame inside to `see`, for audits.
    fn visit(&self, see: &mut dyn FnMut(&Frame));
}

// Whatever is not said here would be the default's answer, not that of what is inside.
#[deny(clippy::missing_trait_methods)]
impl<Q: Qdisc + ?Sized> Qdisc for Box<Q> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn enqueue(&mut self, from: &mut Batch) {
        (**self).enqueue(from);
    }

    fn storage(&self) -> usize {
        (**self).storage()
    }

    fn dequeue(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> usize {
        (**self).dequeue(to, packets, bytes)
    }

    fn give_up(&mut self, to: &mut Batch) -> usize {
        (**self).give_up(to)
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }

    fn room(&self, band: u8) -> usize {
        (**self).room(band)
    }

    fn has_drained(&self, band: u8) -> bool {
        (**self).has_drained(band)
    }

    fn full_bands(&self) -> u32 {
        (**self).full_bands()
    }

    fn shed(&mut self, to: &mut Batch) -> Option<usize> {
        (**self).shed(to)
    }

    fn can_bypass(&self) -> bool {
        (**self).can_bypass()
    }

    fn uses_bands(&self) -> bool {
        (**self).uses_bands()
    }

    fn reserve(&mut self, frames: usize) {
        (**self).reserve(frames);
    }

    fn next_event_ns(&self) -> Option<u64> {
        (**self).next_event_ns()
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        (**self).visit(see);
    }
}

/// A first-in first-out store whose capacity is fixed until `reserve`.
#[derive(Debug, Default)]
struct Store {
    frames: VecDeque<Frame>,
    bytes: u64,
    capacity: usize,
}

impl Store {
    fn with_capacity(capacity: usize) -> Self {
        Self { frames: VecDeque::with_capacity(capacity), bytes: 0, capacity }
    }

    fn reserve(&mut self, frames: usize) {
        self.capacity += frames;
        self.frames.reserve(self.capacity - self.frames.len());
    }

    /// Gives the frame back when it is full.
    #[inline]
    fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.frames.len() == self.capacity {
            return Err(frame);
        }
        self.bytes += u64::from(frame.len_bytes());
        self.frames.push_back(frame);
        Ok(())
    }

    /// Moves at most `packets` frames, and none after `bytes` have been moved; how many frames and bytes.
    fn drain(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> (usize, u64) {
        let (mut moved, mut moved_bytes) = (0, 0);
        while moved < packets.min(to.capacity()) && (moved_bytes < bytes || moved_bytes == 0) && to.room() > 0
        {
            let Some(frame) = self.frames.pop_front() else { break };
            moved_bytes += u64::from(frame.len_bytes());
            moved += 1;
            // There is room: it was asked for above.
            let pushed = to.push(frame);
            debug_assert!(pushed.is_ok());
        }
        self.bytes -= moved_bytes;
        (moved, moved_bytes)
    }
}
