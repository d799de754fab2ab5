//! Byte queue limits: how many bytes may be handed to a device before its completions are in.
//!
//! This is the kernel's `dynamic_queue_limits` algorithm. It assumes a queue where:
//!
//! 1. packets, counted here in bytes, are queued up to a limit and one packet past it: a packet is
//!    accepted first, and the queue stops after it;
//! 2. from time to time a completion run retires what the device has sent;
//! 3. starvation is: the limit was reached and the device has sent everything, but no completion
//!    run came yet, so that nothing could be queued and the wire went idle;
//! 4. little data in the queue is better than much.
//!
//! The goal is the smallest limit that does not starve the device. Starvation raises the limit at
//! once; what was never needed during a whole hold time lowers it.
//!
//! Calls: [`Bql::queued`] (or [`Bql::queued_batch`], once for several packets) when packets go to
//! the device, [`Bql::available`] to ask whether more may follow (negative: stop), and
//! [`Bql::completed`] once per completion run with the sum of its bytes. Stopped is no state of its
//! own: it is `available() < 0`, and only a completion ends it, so that is where senders are woken.
//! Zero is not stopped. After a flush whose bytes will never complete, call [`Bql::reset`].
//!
//! Locking: none. The owner of the queue makes all calls, so the fields share one cache line and
//! the kernel's `adj_limit`, a copy of limit + completed on the enqueuer's line, is not needed.
//! Nothing here reads a clock: `now` is the time since any fixed origin.
//!
//! All counters are free running u32 and wrap at 2^32. The signed comparisons hold while less than
//! 2^31 bytes are in flight, which holds for every caller that stops when told to (see
//! [`MAX_LIMIT_BYTES`]); a caller that does not loses the quality of the limit, never the account.

use std::time::Duration;

/// The largest single packet, super-packets included, that the algorithm reckons with (2^28 - 1).
pub const MAX_OBJECT_BYTES: u32 = u32::MAX / 16;

/// The largest limit, and the maximum unless [`Bql::set_max`] lowers it: with one packet of
/// [`MAX_OBJECT_BYTES`] on top, bytes in flight still compare as signed 32-bit numbers.
pub const MAX_LIMIT_BYTES: u32 = u32::MAX / 2 - MAX_OBJECT_BYTES;

/// The bounds of the learnt limit: the kernel's `limit_min` and `limit_max`
/// (`/sys/class/net/IF/queues/tx-0/byte_queue_limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound, bytes.
    pub min_bytes: u32,
    /// Upper bound, bytes, which holds where the two cross; at most [`MAX_LIMIT_BYTES`].
    pub max_bytes: u32,
    /// Time for which completions are gathered into one, ns; 0: each counts by itself (`tx-usecs` of the
    /// kernel's veth).
    pub gather_ns: u64,
}

impl Bounds {
    /// No bounds: the limit is the one that the device needs.
    pub const LEARN: Self = Self { min_bytes: 0, max_bytes: MAX_LIMIT_BYTES, gather_ns: 0 };
    /// A limit that never binds: off, as `echo max >limit_min` turns it off in the kernel.
    pub const OFF: Self = Self { min_bytes: MAX_LIMIT_BYTES, ..Self::LEARN };

    /// True if the limit never binds.
    pub fn is_off(self) -> bool {
        (self.min_bytes, self.max_bytes) == (Self::OFF.min_bytes, Self::OFF.max_bytes)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::LEARN
    }
}

/// No slack seen yet in this window.
const NO_SLACK_YET: u32 = u32::MAX;

/// An error of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BqlError {
    /// More bytes were reported complete than are in flight. Nothing was changed.
    #[error("{completed_bytes} bytes reported complete, but only {in_flight_bytes} are in flight")]
    OverCompletion {
        /// Bytes that the caller reported.
        completed_bytes: u32,
        /// Bytes that were in flight.
        in_flight_bytes: u32,
    },
}

/// The byte queue limit of one device queue. One cache line, no allocation, no panic.
///
/// ```
/// use std::time::Duration;
/// use wharf_core::bql::Bql;
///
/// let (mut bql, now) = (Bql::new(Duration::from_secs(1)), Duration::ZERO);
/// bql.queued(1500);
/// assert!(bql.available() < 0, "the first packet goes over the limit of 0: stop");
/// bql.completed(1500, now)?;
/// assert_eq!(bql.limit(), 1500, "the device had to wait, so the limit grew");
/// # Ok::<(), wharf_core::bql::BqlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bql {
    // Written when packets are queued.
    /// All bytes ever queued.
    queued_bytes: u32,
    /// Size of the packet queued last.
    last_packet_bytes: u32,

    // Written when completions come; the first two are read by `available` as well.
    /// All bytes ever completed.
    completed_bytes: u32,
    /// The limit in force.
    limit_bytes: u32,
    /// Bytes that the queue was over the limit at the last completion, unless that moved the limit.
    prev_over_limit_bytes: u32,
    /// `queued_bytes` at the last completion.
    prev_queued_bytes: u32,
    /// `last_packet_bytes` at the last completion.
    prev_last_packet_bytes: u32,
    /// The least slack seen in the current window.
    lowest_slack_bytes: u32,
    /// When the current window began.
    slack_start_ns: u64,

    // Settings.
    /// Time that slack must last before the limit falls.
    slack_hold_ns: u64,
    /// Lower bound of the limit.
    min_limit_bytes: u32,
    /// Upper bound of the limit.
    max_limit_bytes: u32,
    /// The limit may lie outside its bounds: no completion has come since they were set.
    bounds_moved: bool,
}

const _: () = assert!(size_of::<Bql>() <= 64, "Bql fits one cache line");

impl Bql {
    /// A fresh account: limit 0, bounds 0 and [`MAX_LIMIT_BYTES`]. The limit falls only when slack
    /// lasted for longer than `hold` (the kernel uses one second).
    ///
    /// The first window begins at the origin of the caller's clock; where that lies far back and a
    /// minimum is set, [`Bql::reset`] begins it at the present.
    #[must_use]
    pub fn new(hold: Duration) -> Self {
        Self::start_at(hold, 0)
    }

    /// Works like [`Bql::new`], with the counters at `counter_bytes`, so that tests see them wrap.
    #[doc(hidden)]
    #[must_use]
    pub fn start_at(hold: Duration, counter_bytes: u32) -> Self {
        // Elapsed time is compared as a signed number, hence no hold beyond 2^63 ns (292 years).
        let hold_ns = hold.as_nanos().min(i64::MAX as u128) as u64;
        Self {
            queued_bytes: counter_bytes,
            last_packet_bytes: 0,
            completed_bytes: counter_bytes,
            limit_bytes: 0,
            prev_over_limit_bytes: 0,
            prev_queued_bytes: counter_bytes,
            prev_last_packet_bytes: 0,
            lowest_slack_bytes: NO_SLACK_YET,
            slack_start_ns: 0,
            slack_hold_ns: hold_ns,
            min_limit_bytes: 0,
            max_limit_bytes: MAX_LIMIT_BYTES,
            bounds_moved: false,
        }
    }

    /// Counts one packet of `bytes`, which went to the device.
    ///
    /// Where the kernel warns about a packet above [`MAX_OBJECT_BYTES`] and leaves it out, it is
    /// counted here like any other, for its bytes will complete. Bytes in flight end at
    /// `u32::MAX`; what is queued beyond is not counted.
    #[inline]
    pub fn queued(&mut self, bytes: u32) {
        self.queued_batch(bytes, bytes);
    }

    /// Packets of `total_bytes` in sum, the last of them of `last_bytes`, went to the device: the
    /// same as [`Bql::queued`] for each of them in turn. Not for an empty batch.
    #[inline]
    pub fn queued_batch(&mut self, total_bytes: u32, last_bytes: u32) {
        let room_bytes = u32::MAX - self.in_flight();
        self.last_packet_bytes = last_bytes;
        self.queued_bytes = self.queued_bytes.wrapping_add(total_bytes.min(room_bytes));
    }

    /// Returns the bytes that may be queued now. Negative: that much over the limit, stop. Zero: go on.
    #[inline]
    #[must_use]
    pub fn available(&self) -> i32 {
        let room_bytes = i64::from(self.limit_bytes) - i64::from(self.in_flight());
        // Never above MAX_LIMIT_BYTES, so only the lower end can be out of range.
        room_bytes.max(i64::from(i32::MIN)) as i32
    }

    /// Returns [`Bql::available`], or `None` if it is negative.
    #[inline]
    pub(crate) fn room(&self) -> Option<u32> {
        self.limit_bytes.checked_sub(self.in_flight())
    }

    /// Bytes queued and not completed.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.queued_bytes.wrapping_sub(self.completed_bytes)
    }

    /// The limit in force, in bytes.
    #[inline]
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit_bytes
    }

    /// The device has sent `bytes`, the sum of one completion run; the limit is reckoned anew.
    /// Zero bytes change nothing.
    ///
    /// # Errors
    /// [`BqlError::OverCompletion`] if `bytes` is more than is in flight; nothing is changed then.
    #[inline]
    pub fn completed(&mut self, bytes: u32, now: Duration) -> Result<(), BqlError> {
        self.completed_at(bytes, || now)
    }

    /// Works like [`Bql::completed`], with a clock that is read only when the limit grows or slack is measured:
    /// a completion in the steady state needs no time.
    ///
    /// # Errors
    /// The errors of [`Bql::completed`].
    #[inline]
    pub fn completed_at(&mut self, bytes: u32, now: impl FnOnce() -> Duration) -> Result<(), BqlError> {
        let in_flight_bytes = self.in_flight();
        if bytes > in_flight_bytes {
            return Err(BqlError::OverCompletion { completed_bytes: bytes, in_flight_bytes });
        }
        if bytes != 0 {
            self.account_completion(bytes, in_flight_bytes, now);
        }
        Ok(())
    }

    /// Works like [`Bql::completed`] if it completes everything, and nothing was over the limit now or before. Such a
    /// completion says nothing about the limit, and needs no time. Otherwise returns false and changes nothing. The general
    /// rule comes to the same; this is what a path with a fast device does for each batch.
    #[inline(always)]
    pub(crate) fn ran_dry_within_limit(&mut self, bytes: u32) -> bool {
        let in_flight_bytes = self.in_flight();
        if bytes != in_flight_bytes || in_flight_bytes > self.limit_bytes || bytes == 0 {
            return false;
        }
        if self.prev_over_limit_bytes != 0 || self.bounds_moved {
            return false;
        }
        self.prev_last_packet_bytes = self.last_packet_bytes;
        (self.completed_bytes, self.prev_queued_bytes) = (self.queued_bytes, self.queued_bytes);
        true
    }

    /// Sets the lower bound of the limit, in force from the next completion. If the bounds cross,
    /// the upper one holds.
    pub fn set_min(&mut self, min_bytes: u32) {
        (self.min_limit_bytes, self.bounds_moved) = (min_bytes, true);
    }

    /// Sets the upper bound of the limit, at most [`MAX_LIMIT_BYTES`], in force from the next
    /// completion.
    pub fn set_max(&mut self, max_bytes: u32) {
        (self.max_limit_bytes, self.bounds_moved) = (max_bytes.min(MAX_LIMIT_BYTES), true);
    }

    /// Sets both bounds: see [`Bounds`]. A limit that was off is learnt anew: nothing was learnt while it did not bind.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        let before =
            Bounds { min_bytes: self.min_limit_bytes, max_bytes: self.max_limit_bytes, ..Bounds::LEARN };
        if before.is_off() && !bounds.is_off() {
            (self.limit_bytes, self.prev_over_limit_bytes) = (0, 0);
            self.lowest_slack_bytes = NO_SLACK_YET;
        }
        self.set_min(bounds.min_bytes);
        self.set_max(bounds.max_bytes);
    }

    /// Forgets what is in flight and what was learnt; hold time and bounds stay. For after a flush
    /// whose bytes will never complete.
    ///
    /// `available()` is 0 afterwards. (The kernel leaves its `adj_limit` stale until the next
    /// completion.)
    pub fn reset(&mut self, now: Duration) {
        self.completed_bytes = self.queued_bytes;
        self.prev_queued_bytes = self.queued_bytes;
        self.last_packet_bytes = 0;
        self.prev_last_packet_bytes = 0;
        self.prev_over_limit_bytes = 0;
        (self.limit_bytes, self.bounds_moved) = (0, true);
        self.restart_window(now);
    }

    /// `completed`, once the number is known to be good.
    #[inline]
    fn account_completion(&mut self, bytes: u32, in_flight_bytes: u32, now: impl FnOnce() -> Duration) {
        let over_limit_bytes = positive_diff(in_flight_bytes, self.limit_bytes);
        let limit_bytes = self
            .reckon_limit(bytes, in_flight_bytes, over_limit_bytes, now)
            .max(self.min_limit_bytes)
            .min(self.max_limit_bytes);
        // Being over a limit that has just moved says nothing about the new one.
        self.prev_over_limit_bytes = if limit_bytes == self.limit_bytes { over_limit_bytes } else { 0 };
        (self.limit_bytes, self.bounds_moved) = (limit_bytes, false);
        self.prev_last_packet_bytes = self.last_packet_bytes;
        self.completed_bytes = self.completed_bytes.wrapping_add(bytes);
        self.prev_queued_bytes = self.queued_bytes;
    }

    /// The limit that the completion of `bytes` asks for, before the bounds.
    #[inline(never)]
    fn reckon_limit(
        &mut self, bytes: u32, in_flight_bytes: u32, over_limit_bytes: u32, now: impl FnOnce() -> Duration,
    ) -> u32 {
        let completed_bytes = self.completed_bytes.wrapping_add(bytes);
        let queue_is_empty = in_flight_bytes == bytes;
        let prev_queue_was_empty = self.prev_queued_bytes == self.completed_bytes;
        // Is all that was queued at the previous completion done by now?
        let prev_is_done = completed_bytes.wrapping_sub(self.prev_queued_bytes) as i32 >= 0;

        let starved = over_limit_bytes != 0 && queue_is_empty;
        // The device may have run dry between the previous completion and the next queueing.
        let may_have_starved = self.prev_over_limit_bytes != 0 && prev_is_done;
        if starved || may_have_starved {
            self.grow(completed_bytes, now())
        } else if !queue_is_empty && !prev_queue_was_empty && !prev_is_done {
            // Busy from the previous completion to this one: only then does slack mean anything.
            self.shrink(bytes, now())
        } else {
            self.limit_bytes
        }
    }

    /// Starved: more by what was both queued and completed since the previous completion, and by
    /// what was over the limit before.
    fn grow(&mut self, completed_bytes: u32, now: Duration) -> u32 {
        self.restart_window(now);
        self.limit_bytes
            .wrapping_add(positive_diff(completed_bytes, self.prev_queued_bytes))
            .wrapping_add(self.prev_over_limit_bytes)
    }

    /// Busy all along: less by the least slack of a whole window, at the end of that window.
    ///
    /// Twice the bytes completed at once bound what the device needs, so what lies above is slack;
    /// and so is the part of the last packet that was within the limit when it went over.
    fn shrink(&mut self, bytes: u32, now: Duration) -> u32 {
        let allowed_bytes = self.limit_bytes.wrapping_add(self.prev_over_limit_bytes);
        let unneeded_bytes = positive_diff(allowed_bytes, bytes.wrapping_mul(2));
        let within_limit_bytes = match self.prev_over_limit_bytes {
            0 => 0,
            over_bytes => positive_diff(self.prev_last_packet_bytes, over_bytes),
        };
        let slack_bytes = unneeded_bytes.max(within_limit_bytes);
        self.lowest_slack_bytes = self.lowest_slack_bytes.min(slack_bytes);

        if !self.window_is_over(now) {
            return self.limit_bytes;
        }
        let limit_bytes = positive_diff(self.limit_bytes, self.lowest_slack_bytes);
        self.restart_window(now);
        limit_bytes
    }

    /// Strictly after start + hold; a clock that steps back is before it.
    fn window_is_over(&self, now: Duration) -> bool {
        let elapsed_ns = wrapping_ns(now).wrapping_sub(self.slack_start_ns) as i64;
        elapsed_ns > self.slack_hold_ns as i64
    }

    fn restart_window(&mut self, now: Duration) {
        self.slack_start_ns = wrapping_ns(now);
        self.lowest_slack_bytes = NO_SLACK_YET;
    }
}

/// a - b if that is positive as a signed number, else 0.
#[inline]
fn positive_diff(a: u32, b: u32) -> u32 {
    (a.wrapping_sub(b) as i32).max(0) as u32
}

/// Nanoseconds modulo 2^64: only differences matter.
#[inline]
fn wrapping_ns(time: Duration) -> u64 {
    let whole_ns = time.as_secs().wrapping_mul(1_000_000_000);
    whole_ns.wrapping_add(u64::from(time.subsec_nanos()))
}
