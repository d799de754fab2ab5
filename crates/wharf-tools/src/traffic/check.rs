//! Checking what arrives: every byte, and the order of each sender's packets.

mod replay;
mod stamp;

pub use replay::ReplayCheck;
pub use stamp::StampCheck;

use super::Latencies;

/// What a check has found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Frames received.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that differ, are missing before a later one, or came out of order.
    pub errors: u64,
    /// Those of them that are missing before a later one.
    pub missing: u64,
    /// What was wrong with the first of them.
    pub first_error: Option<String>,
    /// How long packets took, where they carry their time.
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

/// When a frame arrived, by two clocks; 0 where nobody asked for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
}

/// Which clocks a [`Check`] wants read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// Neither.
    None,
    /// CLOCK_MONOTONIC, as the batch is received.
    Monotonic,
    /// That and the wall clock; and a frame that carries the time of its arrival, since 1970, has that.
    Both,
}

/// Looks at what arrives.
pub trait Check: Send {
    /// One more frame has arrived, at the time `at`.
    fn check(&mut self, frame: &[u8], at: Arrival);

    /// Which clocks it looks at.
    fn clocks(&self) -> Clocks {
        Clocks::None
    }

    /// Whether it wants no more.
    fn is_done(&self) -> bool {
        false
    }
}

/// Knows what must arrive, and has findings about what does.
pub trait Verify: Check {
    /// What was found so far.
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

    fn is_done(&self) -> bool {
        (**self).is_done()
    }
}

impl<C: Verify + ?Sized> Verify for Box<C> {
    fn findings(&self) -> &Findings {
        (**self).findings()
    }
}

/// Where two frames differ first: at a byte, or at the end of the shorter.
fn first_difference(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()))
}
