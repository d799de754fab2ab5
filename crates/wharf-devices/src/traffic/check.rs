//! Checking what arrives: every byte, and the order of each sender's packets.

mod replay;
mod stamp;

pub use replay::ReplayCheck;
pub use stamp::StampCheck;

use super::Latency;

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
    pub latency: Option<Latency>,
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

/// Knows what must arrive.
pub trait Check: Send {
    /// One more frame has arrived, at `now_ns` of CLOCK_MONOTONIC where [`Check::wants_time`].
    fn check(&mut self, frame: &[u8], now_ns: u64);

    /// Whether it looks at the time.
    fn wants_time(&self) -> bool {
        false
    }

    /// What was found so far.
    fn findings(&self) -> &Findings;
}

/// Where two frames differ first: at a byte, or at the end of the shorter.
fn first_difference(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()))
}
