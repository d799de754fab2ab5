//! Records of a capture that can be no frame.

use super::format::Record;
use std::ops::AddAssign;
use wharf_mem::frame::LENGTH_BYTES_MAX;

/// The reason why a record of length 0 is skipped: it holds no frame.
pub const EMPTY: &str = "empty";
/// The reason why a record longer than any frame ([`LENGTH_BYTES_MAX`]) is skipped.
pub const TOO_LONG: &str = "too-long";

/// The reason why a packet of another link type is skipped: no Ethernet frame can be made of it.
pub const LINK_TYPE: &str = "link-type";
/// The reason why a packet is skipped whose direction is not the one asked for, or is not in its header.
pub const DIRECTION: &str = "direction";

impl Record {
    /// Returns the reason to skip it if its frame would have `len_bytes`; `None` if there can be such a
    /// frame.
    pub fn misfit(&self, len_bytes: u32) -> Option<&'static str> {
        match len_bytes {
            _ if self.left_out.is_some() => self.left_out,
            0 => Some(EMPTY),
            1..=LENGTH_BYTES_MAX => None,
            _ => Some(TOO_LONG),
        }
    }
}

/// Counts of skipped records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Records of length 0.
    pub empty: u64,
    /// Records longer than any frame.
    pub too_long: u64,
    /// Packets of other link types.
    pub link_type: u64,
    /// Packets of the other direction, or of none.
    pub direction: u64,
}

impl Skipped {
    /// Counts a record that is skipped for `reason`, as [`Record::misfit`] gives it.
    pub fn count(&mut self, reason: &'static str) {
        match reason {
            EMPTY => self.empty += 1,
            LINK_TYPE => self.link_type += 1,
            DIRECTION => self.direction += 1,
            _ => self.too_long += 1,
        }
    }

    /// Returns each reason with its count.
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        let [empty, too_long] = [(EMPTY, self.empty), (TOO_LONG, self.too_long)];
        [empty, too_long, (LINK_TYPE, self.link_type), (DIRECTION, self.direction)]
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
        self.link_type += more.link_type;
        self.direction += more.direction;
    }
}
