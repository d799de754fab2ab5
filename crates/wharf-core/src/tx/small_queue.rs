//! Small queues: how many bytes one sender may have inside (lane, qdisc, ring) before it waits.
//!
//! Assumptions: one sender counts what it sends; the owner of the queue counts what has left, in one sum that
//! the sender reads when it believes itself over the limit, and not before. Goal: about a millisecond of the
//! sender's own recent rate, so that what it cannot send yet stays with the application, where it can still be
//! changed, and does not delay others (`net/ipv4/tcp_output.c`, `tcp_small_queue_check`).
//!
//! The rate is what left in the last window: at least 1 ms, and until all is home that was inside at its start. While the
//! limit does not bind, it only grows: a sender that pauses has a low rate for no fault of the queue. To that millisecond comes the
//! sender's part of what the device may have, which is the byte limit: that has learnt how late completions are, and must not be
//! held back from learning more. How much of the rate may be inside beside that is the *horizon*, one window: where a sender that
//! was held up finds that nothing is under way any more, it was held up for nothing, since it was woken too late, and the horizon
//! doubles; when that has not happened for some windows it halves again.
//!
//! In a FIFO, shares would stay as they came to be: who has more inside has the higher rate, and may have more inside. So the limit
//! grows less than the rate does, by its power of 3/4: equals come to have equal shares within some windows, and 64 of them have
//! 2.8 times as much inside as one alone would.
//!
//! The sum of what has left is a u32 and wraps. Frames of an earlier sender in the same place that come home late are
//! counted, too: what is in flight then comes out too small, at worst 0, by less than that sender's own limit.

mod rate;
mod tsq_window;

use rate::Rate;
use std::ops::RangeInclusive;
pub(crate) use tsq_window::TsqWindow;
use wharf_mem::{Batch, Frame};

/// The limit never falls below this many bytes: at 64 B a packet, a burst.
const FLOOR_BYTES: u32 = 4096;
/// The limit before any rate is known: what the kernel lets a UDP socket have inside (`net.core.wmem_default`).
const FIRST_BYTES: u32 = 212_992;
/// The default of the most that the limit may grow to: the kernel's `tcp_limit_output_bytes`.
pub const SMALL_QUEUE_BYTES: u32 = 1 << 20;
/// What such a bound may be: bytes in flight compare as signed 32-bit numbers.
pub const SMALL_QUEUE_BOUNDS: RangeInclusive<u32> = FLOOR_BYTES..=1 << 30;
/// The shortest time that a rate is measured over, and the least of the rate that may be inside.
const WINDOW_NS: u64 = 1_000_000;

/// What the queue as a whole does, as it says when a sender looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueProgress<'a> {
    /// Bytes that the device has taken, in all.
    pub(crate) taken_bytes: u64,
    /// Bytes that the device may have at a time; 0 where it says nothing of completions.
    pub(crate) limit_bytes: u64,
    /// Whether nothing is under way, of any sender.
    pub(crate) is_dry: bool,
    pub(crate) tsq_window: &'a TsqWindow,
}

/// One sender's account.
#[derive(Debug, Clone)]
pub(crate) struct Credit {
    /// What may still go in, as far as is known; below zero where the limit has fallen, or two packets exceed it.
    room_bytes: i64,
    /// The sum of what has left, which wraps, when it was last looked at.
    returned_bytes: u32,
    limit_bytes: u32,
    max_bytes: u32,
    /// The packet that was refused last.
    wanted_bytes: u32,
    /// How much of the limit is for what the device has.
    device_bytes: u32,
    rate: Rate,
    window_start_ns: u64,
    window_returned_bytes: u32,
    /// What the queue's device had taken at the window's start.
    window_taken_bytes: u64,
    /// What was inside at the window's start.
    window_inside_bytes: i64,
    /// It waits for what is inside to leave.
    is_held: bool,
    /// It did so in this window.
    was_held: bool,
    /// In this window it was held up although nothing was inside any more.
    was_starved: bool,
}

impl Credit {
    /// A fresh account, where what has left is counted from `start`: at most `max_bytes` inside; `None` for no
    /// limit.
    pub(crate) fn new(max_bytes: Option<u32>, start: u32, now_ns: u64) -> Self {
        let unlimited = i32::MAX as u32;
        let limit_bytes = max_bytes.map_or(unlimited, |max_bytes| FIRST_BYTES.min(max_bytes));
        Self {
            room_bytes: limit_bytes.into(),
            returned_bytes: start,
            limit_bytes,
            max_bytes: max_bytes.unwrap_or(unlimited),
            wanted_bytes: 1,
            device_bytes: 0,
            rate: Rate::default(),
            window_start_ns: now_ns,
            window_returned_bytes: start,
            window_taken_bytes: 0,
            window_inside_bytes: 0,
            is_held: false,
            was_held: false,
            was_starved: false,
        }
    }

    fn in_flight_bytes(&self) -> i64 {
        i64::from(self.limit_bytes) - self.room_bytes
    }

    /// The limit in force.
    pub(crate) fn limit_bytes(&self) -> u32 {
        self.limit_bytes
    }

    /// Whether `bytes` more are within the limit, as far as is known.
    #[inline(always)]
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        bytes as i64 <= self.room_bytes
    }

    /// `bytes` went in.
    #[inline(always)]
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.room_bytes -= bytes as i64;
    }

    /// `bytes` went in, and `returned_bytes`, of these or earlier ones, came home by the sender's own hand.
    #[inline(always)]
    pub(crate) fn charge_but(&mut self, bytes: u64, returned_bytes: u64) {
        self.room_bytes += returned_bytes as i64 - bytes as i64;
    }

    /// Whether what was refused last, or one byte more, would be refused again.
    pub(crate) fn is_short(&self) -> bool {
        let bytes = i64::from(self.wanted_bytes);
        self.in_flight_bytes() + bytes > self.most_inside(bytes)
    }

    /// The most that may be inside with a packet of `bytes`: two of these are within any limit.
    fn most_inside(&self, bytes: i64) -> i64 {
        i64::from(self.limit_bytes).max(2 * bytes)
    }

    /// How many frames from the front of `batch` are within the limit: two in flight always are, and those that
    /// `is_urgent`, which would else wait behind what they are to overtake.
    pub(crate) fn admitted(&mut self, batch: &Batch, is_urgent: impl Fn(&Frame) -> bool) -> usize {
        let mut in_flight_bytes = self.in_flight_bytes();
        let fits = |frame: &&Frame| {
            let bytes = i64::from(frame.len_bytes());
            in_flight_bytes += bytes;
            in_flight_bytes <= self.most_inside(bytes) || is_urgent(frame)
        };
        let count = batch.frames().iter().take_while(fits).count();
        self.wanted_bytes = batch.frames().get(count).map_or(1, Frame::len_bytes);
        count
    }

    /// Over the limit, or so it seemed: by `now_ns`, the sum of what has left is `returned_bytes`, and the queue has done `queue`.
    pub(crate) fn look(&mut self, returned_bytes: u32, queue: QueueProgress<'_>, now_ns: u64) {
        let left_bytes = returned_bytes.wrapping_sub(self.returned_bytes);
        let in_flight_bytes = (self.in_flight_bytes() - i64::from(left_bytes)).max(0);
        self.returned_bytes = returned_bytes;
        self.was_starved |= self.is_held && in_flight_bytes == 0 && queue.is_dry;
        self.is_held = false;
        let elapsed_ns = now_ns.saturating_sub(self.window_start_ns);
        let left_bytes = returned_bytes.wrapping_sub(self.window_returned_bytes);
        if elapsed_ns >= WINDOW_NS && i64::from(left_bytes) >= self.window_inside_bytes {
            self.end_window(left_bytes, queue, now_ns);
            (self.window_start_ns, self.window_returned_bytes) = (now_ns, returned_bytes);
            (self.window_taken_bytes, self.window_inside_bytes) = (queue.taken_bytes, in_flight_bytes);
        }
        self.room_bytes = i64::from(self.limit_bytes) - in_flight_bytes;
    }

    /// The sender waits: what the sum of bytes that have left must reach for it to go on. Half of what may wait before the
    /// device is free then, and the packet that was refused is within the limit.
    pub(crate) fn hold(&mut self) -> u32 {
        (self.is_held, self.was_held) = (true, true);
        let half_free_bytes = i64::from(self.limit_bytes - (self.limit_bytes - self.device_bytes) / 2);
        let wanted_bytes = i64::from(self.wanted_bytes);
        let resume_bytes = half_free_bytes.min(self.most_inside(wanted_bytes) - wanted_bytes);
        let surplus_bytes = (self.in_flight_bytes() - resume_bytes).max(0);
        self.returned_bytes.wrapping_add(surplus_bytes as u32)
    }

    fn end_window(&mut self, left_bytes: u32, queue: QueueProgress<'_>, now_ns: u64) {
        self.measure(left_bytes, queue.taken_bytes, now_ns.saturating_sub(self.window_start_ns));
        if self.was_starved {
            queue.tsq_window.double(now_ns);
        } else if self.was_held {
            queue.tsq_window.was_enough(now_ns);
        }
        let levelled_bytes = self.rate.levelled_bytes();
        let waiting_bytes = levelled_bytes * f64::from(queue.tsq_window.windows());
        let device_bytes = queue.limit_bytes as f64 * levelled_bytes / self.rate.queue_bytes.max(1.0);
        // To integers, none of which overflows.
        let wanted_bytes = (waiting_bytes + device_bytes) as u32;
        let least_bytes = match (self.was_starved, self.was_held) {
            (false, true) => FLOOR_BYTES,
            _ => self.limit_bytes,
        };
        self.limit_bytes = wanted_bytes.max(least_bytes).min(self.max_bytes);
        self.device_bytes = (device_bytes as u32).min(self.limit_bytes / 2);
        (self.was_held, self.was_starved) = (false, false);
    }

    fn measure(&mut self, left_bytes: u32, taken_bytes: u64, elapsed_ns: u64) {
        let taken_bytes = taken_bytes.saturating_sub(self.window_taken_bytes).max(left_bytes.into());
        let per_window = |bytes: u64| bytes as f64 * WINDOW_NS as f64 / elapsed_ns as f64;
        let now = Rate { own_bytes: per_window(left_bytes.into()), queue_bytes: per_window(taken_bytes) };
        if self.was_held {
            self.rate.average(now);
        } else if now.own_bytes > self.rate.own_bytes {
            self.rate = now;
        }
    }
}

#[cfg(test)]
mod tests;
