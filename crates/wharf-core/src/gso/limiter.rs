//! `GsoLimiter`: super-packets that a rate would let through only in one go, cut before they enter its queue.
//!
//! Assumptions: what `send` has left in a burst is shown again, at the front, before anything else. Goal: no super-packet of
//! more bytes than a token bucket holds goes into the queue whole, as the kernel's `tbf_segment` sees to (`net/sched/sch_tbf.c`);
//! nothing is reordered, and a frame stays in the burst until all its pieces have gone, so that whoever counts what is left
//! counts it.
//!
//! Pieces lie in memory of the sender's. Where there is none for the first of them the packet goes whole: the bucket takes
//! it all the same, and nobody waits for memory that might never come. What cannot be cut goes whole, too: the device says why.

use super::{SegmentJob, SoftwareGso};
use crate::pool::{Burst, PagePool};
use crate::qdisc::wire_bytes;
use crate::tx::queue::QueueError;
use crate::tx::sender::SendNow;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Frame, Region};

/// Cuts what is too long, on its way to a sender.
#[derive(Debug)]
pub struct GsoLimiter {
    longest_bytes: u64,
    software: SoftwareGso,
    /// Of the first packet of the burst, while it is being cut.
    current: Option<SegmentJob>,
    /// On their way to the sender: pieces of that packet, else nothing between calls.
    out: Burst,
    cut_packets: u64,
    pieces: u64,
}

impl GsoLimiter {
    /// For packets of `pool`: those of more than `longest_bytes` on a wire, all headers counted, are cut.
    pub fn new(pool: &PagePool, longest_bytes: u64) -> Self {
        let (software, out) = (SoftwareGso::default(), pool.burst(BATCH_FRAMES_MAX));
        Self { longest_bytes, software, current: None, out, cut_packets: 0, pieces: 0 }
    }

    /// Packets cut to their end so far, and pieces that the sender took.
    pub fn counts(&self) -> (u64, u64) {
        (self.cut_packets, self.pieces)
    }

    /// Sends the packets of `burst`, in order, as far as the sender takes them now. What is left is to be shown again.
    ///
    /// # Errors
    /// Those of the sender: what was not sent is still in the burst, a packet of which a part was included.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst, by: &mut impl SendNow) -> Result<(), QueueError> {
        if self.current.is_none() && !burst.batch_mut().any_meta() {
            return by.send_now(burst);
        }
        let sent = self.send_with_care(burst, by);
        if sent.is_err() {
            self.current = None;
            self.out.clear();
        }
        sent
    }

    #[inline(never)]
    fn send_with_care(&mut self, burst: &mut Burst, by: &mut impl SendNow) -> Result<(), QueueError> {
        while !burst.is_empty() {
            if self.current.is_none() {
                let region = burst.pool().region();
                let long = burst.frames().iter().enumerate();
                let long = long.filter_map(|(at, frame)| Some((at, self.plan(frame, region)?))).next();
                let (count, plan) = long.map_or((burst.len(), None), |(at, plan)| (at, Some(plan)));
                if count > 0 && !self.pass(burst, count, by)? {
                    return Ok(());
                }
                self.current = plan;
            }
            if self.current.is_some() && !self.send_pieces(burst, by)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// How a packet is cut that is too long.
    fn plan(&self, frame: &Frame, region: &Region) -> Option<SegmentJob> {
        if !frame.has_meta() || wire_bytes(frame, region) <= self.longest_bytes {
            return None;
        }
        SegmentJob::cut(frame, region).ok().filter(|plan| plan.pieces() > 1)
    }

    /// Sends the first `count` packets as they are; whether all of them went.
    fn pass(&mut self, burst: &mut Burst, count: usize, by: &mut impl SendNow) -> Result<bool, QueueError> {
        if count == burst.len() {
            by.send_now(burst)?;
            return Ok(burst.is_empty());
        }
        let out = &mut self.out;
        out.batch_mut().append(burst.batch_mut(), count);
        let sent = by.send_now(out);
        let is_through = out.is_empty();
        if !is_through {
            out.batch_mut().append(burst.batch_mut(), usize::MAX);
            std::mem::swap(out.batch_mut(), burst.batch_mut());
        }
        sent.map(|()| is_through)
    }

    /// Cuts the first packet of the burst, and sends its pieces; whether all of them went. It is in the burst until then.
    fn send_pieces(&mut self, burst: &mut Burst, by: &mut impl SendNow) -> Result<bool, QueueError> {
        loop {
            let (Some(plan), Some(frame)) = (&mut self.current, burst.frames().first()) else {
                return Ok(true);
            };
            if self.out.is_empty() {
                if plan.is_done() {
                    drop(burst.pop());
                    self.current = None;
                    self.cut_packets += 1;
                    return Ok(true);
                }
                if self.software.cut(plan, frame, by, self.out.batch_mut())? == 0 {
                    if plan.has_begun() {
                        return Ok(false);
                    }
                    self.current = None;
                    return self.pass(burst, 1, by);
                }
            }
            let offered = self.out.len();
            by.send_now(&mut self.out)?;
            self.pieces += (offered - self.out.len()) as u64;
            if !self.out.is_empty() {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
#[path = "limiter/tests.rs"]
mod tests;
