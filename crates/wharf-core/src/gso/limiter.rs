//! `GsoLimiter`: segments super-packets that are longer than a token bucket, before they enter the queue.
//!
//! Assumption: the caller shows the frames that `send` has left in a burst again, at the front, before any other. Goal: no super-packet
//! with more bytes than a token bucket holds enters the queue whole, as by the kernel's `tbf_segment` (`net/sched/sch_tbf.c`). Order
//! is kept. A frame stays in the burst until all its segments have gone, so that it counts as not sent.
//!
//! Segments lie in memory of the sender. If there is none for the first segment, the packet goes whole: the bucket accepts it, and no
//! thread waits for memory that may never come. A packet that cannot be segmented goes whole, too, and the device fails it with the reason.

use super::{SegmentJob, SoftwareGso};
use crate::pool::{Burst, PagePool};
use crate::qdisc::wire_bytes;
use crate::tx::sender::{SendError, SendNow};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Frame, Region};

/// Segments packets that are too long, on their way to a sender.
#[derive(Debug)]
pub struct GsoLimiter {
    longest_bytes: u64,
    software: SoftwareGso,
    /// The job of the first packet of the burst, while it is being segmented.
    current: Option<SegmentJob>,
    /// Segments of that packet that the sender has not taken; empty between calls otherwise.
    out: Burst,
    segmented_packets: u64,
    pieces: u64,
}

impl GsoLimiter {
    /// Makes a limiter for packets of `pool`: those of more than `longest_bytes` on a wire, all headers counted, are segmented.
    pub fn new(pool: &PagePool, longest_bytes: u64) -> Self {
        let (software, out) = (SoftwareGso::default(), pool.burst(BATCH_FRAMES_MAX));
        Self { longest_bytes, software, current: None, out, segmented_packets: 0, pieces: 0 }
    }

    /// Returns the packets that have been segmented, and the segments that the sender has taken.
    pub fn counts(&self) -> (u64, u64) {
        (self.segmented_packets, self.pieces)
    }

    /// Forgets the packet that is being segmented, which the caller shows no more.
    #[doc(hidden)]
    pub fn give_up(&mut self) {
        self.current = None;
        self.out.clear();
    }

    /// Sends the packets of `burst` in order, as far as the sender takes them now. The caller shows the others again.
    ///
    /// # Errors
    /// Those of the sender. Packets not sent are still in the burst, a packet sent in part included.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst, by: &mut dyn SendNow) -> Result<(), SendError> {
        if self.current.is_none() && !burst.batch_mut().any_meta() {
            return by.send_now(burst);
        }
        let sent = self.send_with_care(burst, by);
        if sent.is_err() {
            self.give_up();
        }
        sent
    }

    #[inline(never)]
    fn send_with_care(&mut self, burst: &mut Burst, by: &mut dyn SendNow) -> Result<(), SendError> {
        while !burst.is_empty() {
            if self.current.is_none() {
                let region = burst.pool().region();
                let long = burst.frames().iter().enumerate();
                let long = long.filter_map(|(at, frame)| Some((at, self.job(frame, region)?))).next();
                let (count, job) = long.map_or((burst.len(), None), |(at, job)| (at, Some(job)));
                if count > 0 && !self.pass(burst, count, by)? {
                    return Ok(());
                }
                self.current = job;
            }
            if self.current.is_some() && !self.send_pieces(burst, by)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Plans the segmentation of a packet that is too long.
    fn job(&self, frame: &Frame, region: &Region) -> Option<SegmentJob> {
        if !frame.has_meta() || wire_bytes(frame, region) <= self.longest_bytes {
            return None;
        }
        SegmentJob::segment(frame, region).ok().filter(|job| job.pieces() > 1)
    }

    /// Sends the first `count` packets as they are. Returns true if the sender took all of them.
    fn pass(&mut self, burst: &mut Burst, count: usize, by: &mut dyn SendNow) -> Result<bool, SendError> {
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

    /// Segments the first packet of the burst, which stays there until then, and sends its segments. Returns true if the sender took
    /// all of them.
    fn send_pieces(&mut self, burst: &mut Burst, by: &mut dyn SendNow) -> Result<bool, SendError> {
        loop {
            let (Some(job), Some(frame)) = (&mut self.current, burst.frames().first()) else {
                return Ok(true);
            };
            if self.out.is_empty() {
                if job.is_done() {
                    drop(burst.pop());
                    self.current = None;
                    self.segmented_packets += 1;
                    return Ok(true);
                }
                if self.software.segment(job, frame, by, self.out.batch_mut())? == 0 {
                    if job.has_begun() {
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
