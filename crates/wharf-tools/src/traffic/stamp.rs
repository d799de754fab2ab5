//! The stamp at the start of a generated packet's payload. Its 18 bytes fit an untagged IPv4 packet of the least length (60 bytes):
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | magic number, "WH" |
//! | 2..10 | from above: 8 bits of the run, 12 of the sender, 44 of the packet's number, from 0 for each sender |
//! | 10..18 | time at which it was made, nanoseconds of CLOCK_MONOTONIC |
//!
//! All big-endian. 44 bits last for two days at 100 Mpps.

use std::ops::Range;

/// Bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 18;
pub(super) const MAGIC: [u8; 2] = *b"WH";
const SEQUENCE: Range<usize> = 2..10;
const TIME: Range<usize> = 10..18;
const NUMBER_BITS: u32 = 44;
const SENDER_BITS: u32 = 12;
const _: () = assert!(wharf_mem::frame::SENDERS_MAX as u32 == 1 << SENDER_BITS);

/// A stamp, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the run that made the packet: it tells runs apart whose senders have the same numbers.
    pub run: u8,
    /// Number of the sender that made the packet, below [`SENDERS_MAX`](wharf_mem::frame::SENDERS_MAX).
    pub sender: u16,
    /// Number of the packet, from 0.
    pub number: u64,
    /// Time at which it was made, nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
}

impl Stamp {
    #[inline]
    pub(super) fn sequence(&self) -> u64 {
        let run_and_sender =
            u64::from(self.run) << SENDER_BITS | u64::from(self.sender) & ((1 << SENDER_BITS) - 1);
        run_and_sender << NUMBER_BITS | self.number & ((1 << NUMBER_BITS) - 1)
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
        run: (sequence >> NUMBER_BITS >> SENDER_BITS) as u8,
        sender: (sequence >> NUMBER_BITS) as u16 & ((1 << SENDER_BITS) - 1),
        number: sequence & ((1 << NUMBER_BITS) - 1),
        time_ns: number_at(TIME),
    })
}
