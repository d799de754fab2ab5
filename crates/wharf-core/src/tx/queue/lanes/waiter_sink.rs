//! `WaiterSink`: recycles frames while a sender waits for memory or for completions of its own.
//!
//! The pool serves those that wait for memory, in order of arrival. A frame in a return ring lies there until its
//! sender comes, which may be never: so all frames go to the pool's waiters while there are any. The places whose
//! frames were completed are noted, so that senders that wait for their own completions are found without a search.

use super::Lanes;
use crate::tx::engine::Sink;
use crate::tx::queue::waiters::SenderReturns;
use wharf_mem::{Batch, Frame, Region};

/// A sink for the frames of a queue on which a sender waits.
pub(crate) struct WaiterSink<'a>(pub(crate) &'a mut Lanes);

impl WaiterSink<'_> {
    fn recycle_runs(&mut self, done: &mut Batch, are_charged: bool) {
        self.0.each_run(done, are_charged, |lanes, done, sender, (count, bytes)| {
            if are_charged {
                lanes.note(sender, bytes as u32);
            }
            let Lanes { pool, pieces, .. } = lanes;
            if pool.is_waited_for() {
                pool.give_to_waiters(done, pieces, count);
            } else {
                lanes.recycle_first(done, sender, count, 0);
            }
        });
    }
}

impl Lanes {
    fn note(&mut self, sender: u16, bytes: u32) {
        self.add_returned_bytes(sender, bytes);
        self.note_returned(sender);
    }
}

impl Sink for WaiterSink<'_> {
    fn recycle(&mut self, done: &mut Batch) {
        self.recycle_runs(done, true);
    }

    fn release(&mut self, sender: u16, bytes: u32) {
        self.0.note(sender, bytes);
    }

    fn note_drops(&self, frames: &[Frame], region: &Region) {
        self.0.note_drops(frames, region);
    }

    fn recycle_released(&mut self, done: &mut Batch) {
        self.recycle_runs(done, false);
    }
}

impl SenderReturns for Lanes {
    fn returned_bytes(&self, place: u16) -> Option<u32> {
        let lane = self.lanes.get(usize::from(place))?.as_ref()?;
        Some(lane.frames.returned_bytes())
    }

    fn has_drained(&mut self, place: u16) -> bool {
        let lane = self.lanes.get_mut(usize::from(place)).and_then(Option::as_mut);
        lane.is_none_or(|lane| 2 * lane.frames.ready_now() <= lane.frames.capacity())
    }

    fn has_returned(&mut self, place: u16) -> bool {
        let lane = self.lanes.get_mut(usize::from(place)).and_then(Option::as_mut);
        lane.and_then(|lane| lane.return_ring.as_mut()).is_some_and(|ring| ring.waiting() > 0)
    }

    fn next_returned(&mut self) -> Option<u16> {
        self.returned.pop()
    }
}
