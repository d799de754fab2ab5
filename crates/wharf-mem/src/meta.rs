//! The side table: a row per buffer with what few frames need, so that a frame stays at 8 bytes.
//!
//! Only the holder of a frame reads and writes its row. The row's fields are atomics, which makes that safe
//! code, at the cost of plain fields. A frame's has-metadata bit says whether its row is valid.
#![forbid(unsafe_code)]

use crate::frame::FreeFrame;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The bits of a row's requests behind the numbers.
const NEEDS_CHECKSUM: u64 = 1 << 56;
/// The frame has [`Times`]: they are read only then, so that a row that is cleared need not clear them.
const HAS_TIMES: u64 = 1 << 57;

/// Offload requests and the time stamp of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// Payload bytes of each segment of a super-packet (GSO); 0 for none.
    pub gso_bytes: u16,
    /// Kind of segmentation, as in `struct virtio_net_hdr` (virtio 1.2, section 5.1.6): TCPV4 1, TCPV6 4,
    /// UDP_L4 5.
    pub gso_kind: u8,
    /// True if the checksum is still to be filled in.
    pub needs_checksum: bool,
    /// Start of the checksummed bytes, from the packet's start, bytes.
    pub checksum_start: u16,
    /// Place of the checksum, from `checksum_start`, bytes.
    pub checksum_offset: u16,
    /// Time of arrival, nanoseconds since 1970; 0 for none. A device that stamps what it sends replaces
    /// [`Meta::ASKS_TIME`] by the time at which the frame had left, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

impl Meta {
    /// Value of [`Meta::time_ns`] by which a frame asks the device for the time at which it has left.
    pub const ASKS_TIME: u64 = u64::MAX;

    /// Returns the time stamp; `None` without one.
    pub fn stamp_ns(&self) -> Option<u64> {
        (!matches!(self.time_ns, 0 | Self::ASKS_TIME)).then_some(self.time_ns)
    }
}

/// The times between which a frame is to leave, by the clock of its queue; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// The earliest time of departure, nanoseconds.
    pub depart_ns: u64,
    /// The time from which on it is of no use, nanoseconds.
    pub expire_ns: u64,
}

/// A frame's times, in a table of their own: rows stay at half a cache line.
#[derive(Debug, Default)]
pub(crate) struct TimesRow {
    depart_ns: AtomicU64,
    expire_ns: AtomicU64,
}

impl TimesRow {
    pub(crate) fn get(&self) -> Times {
        Times { depart_ns: self.depart_ns.load(Relaxed), expire_ns: self.expire_ns.load(Relaxed) }
    }

    pub(crate) fn set(&self, times: Times) {
        self.depart_ns.store(times.depart_ns, Relaxed);
        self.expire_ns.store(times.expire_ns, Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The chain's next buffer: its `FreeFrame` bits; 0 ends the chain (pools count from 1).
    next: AtomicU32,
    /// Bytes in this buffer, if it is part of a chain; otherwise 0.
    chunk_bytes: AtomicU32,
    /// Bytes by which the data starts behind its usual place; negative within the headroom.
    shift: AtomicI32,
    requests: AtomicU64,
    time_ns: AtomicU64,
}

impl Row {
    pub(crate) fn next(&self) -> Option<FreeFrame> {
        match self.next.load(Relaxed) {
            0 => None,
            bits => Some(FreeFrame::from_bits(bits)),
        }
    }

    pub(crate) fn set_next(&self, next: Option<&FreeFrame>) {
        self.next.store(next.map_or(0, FreeFrame::bits), Relaxed);
    }

    pub(crate) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes.load(Relaxed)
    }

    pub(crate) fn set_chunk_bytes(&self, bytes: u32) {
        self.chunk_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn shift(&self) -> i32 {
        self.shift.load(Relaxed)
    }

    pub(crate) fn set_shift(&self, bytes: i32) {
        self.shift.store(bytes, Relaxed);
    }

    pub(crate) fn meta(&self) -> Meta {
        let bits = self.requests.load(Relaxed);
        Meta {
            gso_bytes: bits as u16,
            checksum_start: (bits >> 16) as u16,
            checksum_offset: (bits >> 32) as u16,
            gso_kind: (bits >> 48) as u8,
            needs_checksum: bits & NEEDS_CHECKSUM != 0,
            time_ns: self.time_ns.load(Relaxed),
        }
    }

    pub(crate) fn stamp_ns(&self) -> Option<u64> {
        Meta { time_ns: self.time_ns.load(Relaxed), ..Meta::default() }.stamp_ns()
    }

    pub(crate) fn set_meta(&self, meta: &Meta) {
        let bits = u64::from(meta.gso_bytes)
            | u64::from(meta.checksum_start) << 16
            | u64::from(meta.checksum_offset) << 32
            | u64::from(meta.gso_kind) << 48
            | u64::from(meta.needs_checksum) << 56;
        self.requests.store(bits, Relaxed);
        self.time_ns.store(meta.time_ns, Relaxed);
    }

    pub(crate) fn has_times(&self) -> bool {
        self.requests.load(Relaxed) & HAS_TIMES != 0
    }

    pub(crate) fn set_has_times(&self, has: bool) {
        let others = self.requests.load(Relaxed) & !HAS_TIMES;
        self.requests.store(others | if has { HAS_TIMES } else { 0 }, Relaxed);
    }

    /// Moves the start of the checksummed bytes.
    pub(crate) fn set_checksum_start(&self, start: u16) {
        let others = self.requests.load(Relaxed) & !(0xffff << 16);
        self.requests.store(others | u64::from(start) << 16, Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.set_next(None);
        self.set_chunk_bytes(0);
        self.set_shift(0);
        self.set_meta(&Meta::default());
    }
}
