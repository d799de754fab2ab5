//! Records of a capture that can be no frame.

use std::ops::AddAssign;
use wharf_mem::frame::LENGTH_BYTES_MAX;

/// The reason why a record of length 0 is skipped: it holds no frame.
pub const EMPTY: &str = "empty";
/// The reason why a record longer than any frame ([`LENGTH_BYTES_MAX`]) is skipped.
pub const TOO_LONG: &str = "too-long";

/// Returns the reason to skip a record whose frame would have `len_bytes`; `None` if there can be such a
/// frame.
pub fn misfit(len_bytes: u32) -> Option<&'static str> {
    match len_bytes {
        0 => Some(EMPTY),
        1..=LENGTH_BYTES_MAX => None,
        _ => Some(TOO_LONG),
    }
}

/// Counts of skipped records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Records of length 0.
    pub empty: u64,
    /// Records longer than any frame.
    pub too_long: u64,
}

impl Skipped {
    /// Counts a record that is skipped for `reason`, as [`misfit`] gives it.
    pub fn count(&mut self, reason: &'static str) {
        match reason {
            EMPTY => self.empty += 1,
            _ => self.too_long += 1,
        }
    }

    /// Returns each reason with its count.
    pub fn by_reason(&self) -> [(&'static str, u64); 2] {
        [(EMPTY, self.empty), (TOO_LONG, self.too_long)]
    }

    /// Returns the count of all.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

impl AddAssign for Skipped {
    fn add_assign(&mut self, more: Self) {
        self.empty += more.empty;
        self.too_long += more.too_long;
    }
}
