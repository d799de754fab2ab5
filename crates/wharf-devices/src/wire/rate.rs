//! `Rate`: transmission times on a line of a given rate in bits per second, without drift.
//!
//! Time is whole nanoseconds. The remainder of a frame's time is carried to the next frame: a million frames
//! take exactly as long as their bytes do together.

const NS_PER_SECOND: u64 = 1_000_000_000;
/// The fastest line. With it, and [`OVERHEAD_BYTES_MAX`], a frame's numerator stays below 2^61.
pub const RATE_MAX: u64 = 1_000_000_000_000_000_000;
/// The largest overhead of a frame.
pub const OVERHEAD_BYTES_MAX: u32 = 1 << 16;

/// One direction of a line.
#[derive(Debug, Clone)]
pub struct Line {
    bits_per_second: u64,
    overhead_bytes: u32,
    /// The line is busy until then, and for `rest / bits_per_second` of a nanosecond more.
    busy_until_ns: u64,
    rest: u64,
}

impl Line {
    /// Makes an idle line. The rate is 1 to [`RATE_MAX`].
    pub fn new(bits_per_second: u64, overhead_bytes: u32) -> Self {
        debug_assert!((1..=RATE_MAX).contains(&bits_per_second) && overhead_bytes <= OVERHEAD_BYTES_MAX);
        Self { bits_per_second, overhead_bytes, busy_until_ns: 0, rest: 0 }
    }

    /// Puts a frame of `len_bytes` behind the frames on the line at `now_ns`. Returns the time at which it
    /// will have left, rounded up.
    #[inline]
    pub fn send(&mut self, len_bytes: u32, now_ns: u64) -> u64 {
        if now_ns > self.busy_until_ns {
            (self.busy_until_ns, self.rest) = (now_ns, 0);
        }
        let bits = 8 * (u64::from(len_bytes) + u64::from(self.overhead_bytes));
        let numerator = bits * NS_PER_SECOND + self.rest;
        self.busy_until_ns = self.busy_until_ns.saturating_add(numerator / self.bits_per_second);
        self.rest = numerator % self.bits_per_second;
        self.busy_until_ns.saturating_add(u64::from(self.rest > 0))
    }
}
