//! Small queues: a bound on the bytes that one sender has inside (lane, qdisc, ring) before it waits.
//!
//! This is TCP small queues (TSQ) for any sender (`net/ipv4/tcp_output.c`, `tcp_small_queue_check`).
//!
//! Assumptions: a sender counts the bytes that it sends; the queue's owner counts those that have left, in one sum
//! that the sender reads only when it believes itself over the limit. Goal: about a millisecond of the sender's own
//! recent rate is inside. Packets beyond that stay with the application, which can still change them, and delay no
//! others.
//!
//! - The *rate* is the bytes that left in the last window: at least 1 ms, and until all frames have left that were inside
//!   at its start. While the limit does not bind, the rate only grows: a pausing sender has a low rate for no fault of the
//!   queue.
//! - The limit also includes the sender's part of the device's byte limit. That has learnt how late completions are, and
//!   must not be kept from learning more.
//! - The *TSQ window* (`TsqWindow`) is the number of windows of the rate that may be inside: one at first. If a held
//!   sender finds the whole queue empty, it was woken too late, and the window doubles; it halves again when that has not
//!   happened for some windows.
//! - In a FIFO, shares would never change: a sender with more inside has the higher rate, and so may have more inside. So
//!   the limit grows with the rate to the power of 3/4. Equal senders have equal shares after some windows, and 64 of them
//!   have 2.8 times as much inside as one alone.
//!
//! The sum of bytes that have left is a u32 and wraps. It also counts late completions of an earlier sender in the
//! same place: the bytes in flight are then too few, at worst 0, by less than that sender's own limit.

mod rate;
mod tsq_window;

use rate::Rate;
use std::ops::RangeInclusive;
pub use tsq_window::TsqWindow;
use wharf_mem::{Batch, Frame};

/// The lowest limit: a burst of 64 packets of 64 B.
pub const FLOOR_BYTES: u32 = 4096;
/// The limit before a rate is known: the kernel's for a UDP socket (`net.core.wmem_default`).
pub const FIRST_BYTES: u32 = 212_992;
/// The default of the highest limit: the kernel's `tcp_limit_output_bytes`.
pub const SMALL_QUEUE_BYTES: u32 = 1 << 20;
/// The range of the highest limit: bytes in flight are compared as signed 32-bit numbers.
pub const SMALL_QUEUE_BOUNDS: RangeInclusive<u32> = FLOOR_BYTES..=1 << 30;
/// The limit of an account without one.
const UNLIMITED_BYTES: u32 = i32::MAX as u32;
/// Bytes beyond the limit after which an account is renewed although its limit is waived: sums wrap at 2^32.
const WAIVED_BYTES_MAX: i64 = 1 << 30;
/// The shortest window, ns.
const WINDOW_NS: u64 = 1_000_000;

/// The figures of the whole queue when a sender renews its credit.
#[derive(Debug, Clone, Copy)]
pub struct QueueProgress<'a> {
    /// Bytes that the device has taken so far.
    pub taken_bytes: u64,
    /// Packets that the device has taken so far.
    pub taken_packets: u64,
    /// The device's byte limit; 0 if it has none.
    pub limit_bytes: u64,
    /// The device's limit in packets, which then counts; 0 if it has none.
    pub limit_packets: u64,
    /// True if no frame of any sender is inside.
    pub is_dry: bool,
    /// The windows that may be inside.
    pub tsq_window: &'a TsqWindow,
}

/// One sender's account of bytes inside.
#[derive(Debug, Clone)]
pub struct Credit {
    /// Bytes that may still go in, as far as is known. Below zero if the limit has fallen, or two packets exceed it.
    room_bytes: i64,
    /// The wrapping sum of bytes that have left, when it was last read.
    returned_bytes: u32,
    limit_bytes: u32,
    max_bytes: u32,
    /// Bytes of the packet that was refused last.
    wanted_bytes: u32,
    /// The part of the limit for bytes in the device.
    device_bytes: u32,
    rate: Rate,
    window_start_ns: u64,
    window_returned_bytes: u32,
    /// Bytes that the device had taken at the window's start.
    window_taken_bytes: u64,
    window_taken_packets: u64,
    /// Bytes inside at the window's start.
    window_inside_bytes: i64,
    /// The limit holds nothing back: see [`Credit::waive`].
    is_waived: bool,
    /// The sender waits for bytes to leave.
    is_held: bool,
    /// The sender has waited so in this window.
    was_held: bool,
    /// In this window the sender was held although the queue was empty.
    was_starved: bool,
}

impl Credit {
    /// Makes an account whose sum of bytes that have left begins at `start`, with a limit of at most `max_bytes`;
    /// `None` for no limit.
    pub fn new(max_bytes: Option<u32>, start: u32, now_ns: u64) -> Self {
        let limit_bytes = max_bytes.map_or(UNLIMITED_BYTES, |max_bytes| FIRST_BYTES.min(max_bytes));
        Self {
            room_bytes: limit_bytes.into(),
            returned_bytes: start,
            limit_bytes,
            max_bytes: max_bytes.unwrap_or(UNLIMITED_BYTES),
            wanted_bytes: 1,
            device_bytes: 0,
            rate: Rate::default(),
            window_start_ns: now_ns,
            window_returned_bytes: start,
            window_taken_bytes: 0,
            window_taken_packets: 0,
            window_inside_bytes: 0,
            is_waived: false,
            is_held: false,
            was_held: false,
            was_starved: false,
        }
    }

    /// Returns the bytes inside.
    pub fn in_flight_bytes(&self) -> i64 {
        i64::from(self.limit_bytes) - self.room_bytes
    }

    /// Sets the highest limit; `None` for no limit. A first one begins as in a new account.
    pub fn set_max_bytes(&mut self, max_bytes: Option<u32>) {
        let in_flight_bytes = self.in_flight_bytes();
        let before_bytes = if self.max_bytes == UNLIMITED_BYTES { FIRST_BYTES } else { self.limit_bytes };
        self.limit_bytes = max_bytes.map_or(UNLIMITED_BYTES, |max_bytes| before_bytes.min(max_bytes));
        self.max_bytes = max_bytes.unwrap_or(UNLIMITED_BYTES);
        self.device_bytes = self.device_bytes.min(self.limit_bytes / 2);
        self.room_bytes = i64::from(self.limit_bytes) - in_flight_bytes;
    }

    /// The limit in force.
    pub fn limit_bytes(&self) -> u32 {
        self.limit_bytes
    }

    /// True if `bytes` more are within the limit, as far as is known.
    #[inline(always)]
    pub fn admits(&self, bytes: u64) -> bool {
        bytes as i64 <= self.room_bytes
    }

    /// Waives the limit, or puts it in force again. Meanwhile the account goes on.
    #[inline(always)]
    pub fn waive(&mut self, is_waived: bool) {
        self.is_waived = is_waived;
    }

    /// True if the limit is waived, and the account need not be renewed.
    pub fn is_waived(&self) -> bool {
        self.is_waived && self.room_bytes > -WAIVED_BYTES_MAX
    }

    /// Charges `bytes` that went in.
    #[inline(always)]
    pub fn charge(&mut self, bytes: u64) {
        self.room_bytes -= bytes as i64;
    }

    /// Charges `bytes` that went in, less `returned_bytes` that the sender itself has reaped.
    #[inline(always)]
    pub fn charge_but(&mut self, bytes: u64, returned_bytes: u64) {
        self.room_bytes += returned_bytes as i64 - bytes as i64;
    }

    /// True if the packet refused last, or one byte, would be refused now.
    pub fn is_short(&self) -> bool {
        let bytes = i64::from(self.wanted_bytes);
        self.in_flight_bytes() + bytes > self.most_inside(bytes)
    }

    /// Returns the most bytes inside with a packet of `bytes`: two such packets are within any limit.
    fn most_inside(&self, bytes: i64) -> i64 {
        i64::from(self.limit_bytes).max(2 * bytes)
    }

    /// Returns the number of frames at the front of `batch` within the limit. Two packets in flight always are, and
    /// so are urgent ones, which would otherwise wait behind those that they should overtake.
    pub fn admitted(&mut self, batch: &Batch, is_urgent: impl Fn(&Frame) -> bool) -> usize {
        let mut in_flight_bytes = self.in_flight_bytes();
        let fits = |frame: &&Frame| {
            let bytes = i64::from(frame.len_bytes());
            in_flight_bytes += bytes;
            self.is_waived || in_flight_bytes <= self.most_inside(bytes) || is_urgent(frame)
        };
        let count = batch.frames().iter().take_while(fits).count();
        self.wanted_bytes = batch.frames().get(count).map_or(1, Frame::len_bytes);
        count
    }

    /// Renews the account at `now_ns`, with the sum of bytes that have left and the figures of the queue.
    pub fn look(&mut self, returned_bytes: u32, queue: QueueProgress<'_>, now_ns: u64) {
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
            self.window_taken_packets = queue.taken_packets;
        }
        self.room_bytes = i64::from(self.limit_bytes) - in_flight_bytes;
    }

    /// Notes that the sender waits. Returns the sum of bytes that have left at which it goes on: half of its part
    /// before the device is free then, and the refused packet is within the limit.
    pub fn hold(&mut self) -> u32 {
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
        let device_bytes =
            self.device_limit_bytes(queue) as f64 * levelled_bytes / self.rate.queue_bytes.max(1.0);
        // The conversions to integers saturate.
        let wanted_bytes = (waiting_bytes + device_bytes) as u32;
        let least_bytes = match (self.was_starved, self.was_held) {
            (false, true) => FLOOR_BYTES,
            _ => self.limit_bytes,
        };
        self.limit_bytes = wanted_bytes.max(least_bytes).min(self.max_bytes);
        self.device_bytes = (device_bytes as u32).min(self.limit_bytes / 2);
        (self.was_held, self.was_starved) = (false, false);
    }

    /// Returns the bytes that the queue's limit lets into the device: of a limit in packets, by the mean
    /// length of those that it took in this window, or of all.
    fn device_limit_bytes(&self, queue: QueueProgress<'_>) -> u64 {
        let bytes = queue.taken_bytes.saturating_sub(self.window_taken_bytes);
        let (bytes, packets) = match queue.taken_packets.saturating_sub(self.window_taken_packets) {
            0 => (queue.taken_bytes, queue.taken_packets.max(1)),
            packets => (bytes, packets),
        };
        if queue.limit_packets == 0 {
            queue.limit_bytes
        } else {
            queue.limit_packets.saturating_mul(bytes / packets)
        }
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
mod tests {
    use super::*;

    #[test]
    fn a_limit_in_packets_is_as_long_as_the_packets_of_the_window_are() {
        let tsq_window = TsqWindow::new();
        let progress = |packets: u64, bytes: u64, limit_packets| QueueProgress {
            taken_bytes: bytes,
            taken_packets: packets,
            limit_bytes: 15_140,
            limit_packets,
            is_dry: false,
            tsq_window: &tsq_window,
        };
        let mut credit = Credit::new(Some(1 << 20), 0, 0);
        assert_eq!(credit.device_limit_bytes(progress(100, 6000, 0)), 15_140);
        let small = progress(1_000_000, 60_000_000, 10);
        assert_eq!(credit.device_limit_bytes(small), 600);
        credit.look(0, small, WINDOW_NS);
        let then = progress(1_001_000, 60_000_000 + 1000 * 65_536, 10);
        assert_eq!(credit.device_limit_bytes(then), 655_360, "super-packets after small ones");
    }

    #[test]
    fn wait_ends_exactly_when_the_refused_packet_fits() {
        let pool =
            crate::pool::PagePool::builder().frames(8).frame_bytes(8192).huge_pages(false).build().unwrap();
        let tsq_window = TsqWindow::new();
        let queue = QueueProgress {
            taken_bytes: 0,
            taken_packets: 0,
            limit_bytes: 0,
            limit_packets: 0,
            is_dry: false,
            tsq_window: &tsq_window,
        };
        let mut cache = pool.cache("test").unwrap();
        for packet_bytes in [64, 1000, 1514, 2500, 5000] {
            let mut packet = Batch::new(1);
            cache.take(&mut packet, 1, packet_bytes).unwrap();
            for (limit_bytes, device_bytes) in [4096, 6000, 16_384, FIRST_BYTES]
                .into_iter()
                .flat_map(|limit| [0, limit / 4, limit / 2].map(|device| (limit, device)))
            {
                let mut credit = Credit::new(Some(limit_bytes), 0, 0);
                credit.device_bytes = device_bytes;
                while credit.admitted(&packet, |_| false) > 0 {
                    credit.charge(packet_bytes.into());
                }
                let what =
                    format!("{packet_bytes} B, limit {limit_bytes} B, {device_bytes} B of it the device's");
                let returned_bytes = credit.hold();
                assert!(returned_bytes > 0, "{what}: a wait for nothing");
                assert!(i64::from(returned_bytes) <= credit.in_flight_bytes(), "{what}: a wait without end");
                credit.look(returned_bytes, queue, 1);
                assert_eq!(credit.admitted(&packet, |_| false), 1, "{what}: {returned_bytes} B have left");
            }
        }
    }
}
