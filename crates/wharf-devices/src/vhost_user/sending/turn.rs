//! One turn at one virtqueue: frames from the front of a source, while the driver has buffers.

use super::super::link::Link;
use super::super::vring::{DESCRIPTORS_AT_A_TIME, Running, with_ring};
use super::deliver::{Buffers, Delivery, Writer, deliver_plain};
use crate::virtio::DeviceRing;
use std::collections::VecDeque;
use std::time::Instant;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::event::EventFd;

/// State of a pair between two turns.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// Segments of the first frame that have been delivered.
    pub(super) segments: usize,
    /// Descriptors of the buffers that were there and too few for the first frame.
    pub(super) too_few: u16,
    /// True if there are used buffers of which the driver was not notified.
    pub(super) owes_call: bool,
    /// Its frames wait, and none has left since.
    pub(super) stood: Option<Stood>,
}

/// Frames that wait for buffers of a driver that is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stood {
    /// A moment with nothing else to do.
    pub(super) since: Instant,
    /// Some have failed: the driver serves other pairs.
    pub(super) is_unserved: bool,
}

/// Frames to be delivered, in order.
pub(super) trait Front {
    /// Frames from the first on: not all of them.
    fn ahead(&self) -> &[Frame];
    /// Notes that the first `count` frames were delivered.
    fn done(&mut self, count: usize);
    /// Notes that the frame can never be delivered.
    fn failed(&mut self, reason: &'static str);
}

/// Frames in a batch, of which at most `room` are taken.
pub(super) struct Standing<'a> {
    pub(super) batch: &'a mut Batch,
    pub(super) done: &'a mut Batch,
    pub(super) failed: &'a mut Vec<(Frame, &'static str)>,
    pub(super) room: usize,
    /// Frames at the front that were delivered: they are moved together.
    pub(super) count: usize,
}

impl Standing<'_> {
    pub(super) fn settle(&mut self) {
        self.done.append(self.batch, self.count);
        (self.room, self.count) = (self.room - self.count, 0);
    }
}

impl Front for Standing<'_> {
    #[inline(always)]
    fn ahead(&self) -> &[Frame] {
        let frames = self.batch.frames();
        frames.get(self.count..self.room.min(frames.len())).unwrap_or_default()
    }

    #[inline(always)]
    fn done(&mut self, count: usize) {
        self.count += count;
    }

    #[cold]
    fn failed(&mut self, reason: &'static str) {
        self.settle();
        self.failed.extend(self.batch.pop().map(|frame| (frame, reason)));
        self.room -= 1;
    }
}

/// Frames that wait in line; `done` and `failed` have room for all of them.
pub(super) struct InLine<'a> {
    pub(super) frames: &'a mut VecDeque<Frame>,
    pub(super) done: &'a mut Batch,
    pub(super) failed: &'a mut Vec<(Frame, &'static str)>,
}

impl Front for InLine<'_> {
    fn ahead(&self) -> &[Frame] {
        self.frames.as_slices().0
    }

    fn done(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(Err(frame)) = self.frames.pop_front().map(|frame| self.done.push(frame)) {
                return self.frames.push_front(frame);
            }
        }
    }

    fn failed(&mut self, reason: &'static str) {
        self.failed.extend(self.frames.pop_front().map(|frame| (frame, reason)));
    }
}

/// Delivers frames by `pair`. Returns true if the driver was notified; with `more` the notification waits.
pub(super) fn turn(
    link: &Link, pair: usize, front: &mut impl Front, lane: &mut LaneState, writer: &mut Writer,
    region: &Region, more: bool,
) -> bool {
    let Some(mut vring) = link.vring(2 * pair) else { return false };
    let Some((running, call)) = vring.open() else { return false };
    let (memory, agreed) = (&*running.memory, running.agreed);
    let Some((chain, ahead)) = running.chains.split_first_mut() else { return false };
    lane.too_few = 0;
    let broken = with_ring!(&mut running.ring, ring => {
        let mut to = Buffers { ring, memory, agreed, chain, ahead, left: DESCRIPTORS_AT_A_TIME };
        let broken = loop {
            let plain = deliver_plain(&mut to, region, front.ahead());
            front.done(plain);
            let Some(frame) = front.ahead().first().filter(|_| to.left > 0) else { break None };
            if plain > 0 {
                continue;
            }
            match writer.deliver(&mut to, region, frame, &mut lane.segments) {
                Delivery::Done => front.done(1),
                Delivery::Full(too_few) => {
                    lane.too_few = too_few;
                    break None;
                }
                Delivery::Failed(reason) => front.failed(reason),
                Delivery::Broken(error) => break Some(error),
            }
        };
        lane.owes_call |= to.ring.publish();
        broken
    });
    running.note_written();
    let rang = !more && tell(link, 2 * pair, running, lane, call);
    if running.is_broken() {
        link.lost_memory();
    } else if let Some(error) = broken {
        vring.fail();
        drop(vring);
        link.broken(2 * pair, &error);
        link.changed();
    }
    rang
}

/// Notifies the driver of used buffers, if there are new ones and it asks for that. Returns true if it did.
pub(super) fn tell(
    link: &Link, index: usize, running: &mut Running, lane: &mut LaneState, call: Option<&EventFd>,
) -> bool {
    let told = std::mem::take(&mut lane.owes_call) && running.tell(call);
    if told {
        link.note_call(index);
    }
    told
}
