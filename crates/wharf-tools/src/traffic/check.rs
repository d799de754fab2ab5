//! Checks of arrivals: every byte, and the order of each sender's packets.

mod replay;
mod stamp;
mod stream;

pub use replay::ReplayCheck;
pub use stamp::StampCheck;
pub(super) use stream::InFlight;
pub use stream::StreamCheck;

use super::Latencies;

/// The findings of a check.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Frames received.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that differ, are missing before a later one, or came out of order.
    pub errors: u64,
    /// Frames of these that are missing before a later one.
    pub missing: u64,
    /// Fault of the first of them.
    pub first_error: Option<String>,
    /// Frames whose length and order were checked, but not their bytes: too many were under way.
    pub unchecked: u64,
    /// Latencies, if packets carry their time.
    pub latencies: Option<Latencies>,
}

impl Findings {
    #[inline]
    fn received(&mut self, frame: &[u8]) {
        self.packets += 1;
        self.bytes += frame.len() as u64;
    }

    #[cold]
    fn lose(&mut self, frames: u64, what: impl FnOnce() -> String) {
        self.missing += frames;
        self.fail(frames, what);
    }

    #[cold]
    fn fail(&mut self, errors: u64, what: impl FnOnce() -> String) {
        self.errors += errors;
        self.first_error.get_or_insert_with(what);
    }
}

/// Arrival time of a frame by two clocks; 0 for one that was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
}

/// The clocks that a [`Check`] wants read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// Neither.
    None,
    /// CLOCK_MONOTONIC, as the batch is received.
    Monotonic,
    /// That and the wall clock. A frame that carries its arrival time since 1970 has that.
    Both,
}

/// A check of arrivals.
pub trait Check: Send {
    /// Checks one more frame, which arrived at `at`.
    fn check(&mut self, frame: &[u8], at: Arrival);

    /// Returns the clocks that it needs.
    fn clocks(&self) -> Clocks {
        Clocks::None
    }

    /// Does what may wait for a pause: no frame has come for a while, or it was last called 20 ms ago.
    fn pause(&mut self) {}

    /// True if it can take no frame before a later [`Check::pause`] has succeeded.
    fn is_blocked(&self) -> bool {
        false
    }

    /// True if it wants no more frames.
    fn is_done(&self) -> bool {
        false
    }
}

/// A check that knows the packets due, and has findings.
pub trait Verify: Check {
    /// Returns the findings so far.
    fn findings(&self) -> &Findings;
}

impl<C: Check + ?Sized> Check for Box<C> {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        (**self).check(frame, at);
    }

    fn clocks(&self) -> Clocks {
        (**self).clocks()
    }

    fn pause(&mut self) {
        (**self).pause();
    }

    fn is_blocked(&self) -> bool {
        (**self).is_blocked()
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }
}

impl<C: Verify + ?Sized> Verify for Box<C> {
    fn findings(&self) -> &Findings {
        (**self).findings()
    }
}

/// Returns the place where two frames first differ: a byte, or the end of the shorter.
fn first_difference(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()))
}
