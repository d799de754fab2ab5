//! The stamp at the start of a generated packet's payload. Its 18 bytes fit an untagged IPv4 packet of the least length (60 bytes):
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | magic number, "WH" |
//! | 2..10 | sequence number: sender in the upper 16 bits, its packets counted from 0 in the lower 48 |
//! | 10..18 | time at which it was made, nanoseconds of CLOCK_MONOTONIC |
//!
//! All big-endian. 48 bits last for a month at 100 Mpps.

use std::ops::Range;

/// Bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 18;
pub(super) const MAGIC: [u8; 2] = *b"WH";
const SEQUENCE: Range<usize> = 2..10;
const TIME: Range<usize> = 10..18;
const NUMBER_BITS: u32 = 48;

/// A stamp, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the sender that made the packet.
    pub sender: u16,
    /// Number of the packet, from 0.
    pub number: u64,
    /// Time at which it was made, nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
}

impl Stamp {
    #[inline]
    pub(super) fn sequence(&self) -> u64 {
        u64::from(self.sender) << NUMBER_BITS | self.number & ((1 << NUMBER_BITS) - 1)
    }

    #[inline]
    pub(super) fn write(&self, to: &mut [u8; STAMP_BYTES]) {
        to[SEQUENCE].copy_from_slice(&self.sequence().to_be_bytes());
        to[TIME].copy_from_slice(&self.time_ns.to_be_bytes());
    }
}

/// Returns the stamp at the start of `payload`, or `None` if the magic number is not there.
pub fn stamp_of(payload: &[u8]) -> Option<Stamp> {
    let stamp: &[u8; STAMP_BYTES] = payload.first_chunk()?;
    let number_at =
        |range: Range<usize>| stamp[range].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let sequence = number_at(SEQUENCE);
    (stamp[..2] == MAGIC).then(|| Stamp {
        sender: (sequence >> NUMBER_BITS) as u16,
        number: sequence & ((1 << NUMBER_BITS) - 1),
        time_ns: number_at(TIME),
    })
}
