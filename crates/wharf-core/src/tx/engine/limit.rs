//! `Limit`: the byte queue limit, in the unit that its device is limited by.
//!
//! One match serves both questions, whether there is a limit and in which unit: a packet alone pays for it.

use crate::bql::Bql;
use crate::device::{LIMIT_PACKET_BYTES, LimitUnit};
use crate::host::Clock;

pub(super) enum Limit {
    /// The device completes nothing, or all at once.
    Off,
    /// It counts bytes.
    Bytes(Bql),
    /// It counts packets, each as [`LIMIT_PACKET_BYTES`].
    Packets(Bql),
}

/// Completions that the limit has not seen yet. Seen packet by packet, it falls to two packets, and batches
/// with it.
#[derive(Default)]
pub(super) struct Gather {
    /// Time for which they are gathered; 0: none are.
    pub(super) time_ns: u64,
    /// The time at which the limit saw the last ones.
    since_ns: u64,
    /// What it counts for those that it has not seen.
    pub(super) waiting: u32,
}

impl Gather {
    /// Adds what has completed. Returns all that waits once the time is over, or if it is more than `most`.
    pub(super) fn add(&mut self, charged: u32, most: u32, clock: &dyn Clock) -> Option<u32> {
        if self.time_ns == 0 && self.waiting == 0 {
            return Some(charged);
        }
        let (waiting, now_ns) = (self.waiting.saturating_add(charged), clock.now_ns());
        if waiting <= most && now_ns.wrapping_sub(self.since_ns) < self.time_ns {
            self.waiting = waiting;
            return None;
        }
        (self.since_ns, self.waiting) = (now_ns, 0);
        Some(waiting)
    }
}

/// Returns what `packets` count as.
#[inline(always)]
fn charge(packets: usize) -> u32 {
    (packets as u32).saturating_mul(LIMIT_PACKET_BYTES)
}

impl Limit {
    pub(super) fn new(bql: Option<Bql>, unit: LimitUnit) -> Self {
        match (bql, unit) {
            (None, _) => Self::Off,
            (Some(bql), LimitUnit::Bytes) => Self::Bytes(bql),
            (Some(bql), LimitUnit::Packets) => Self::Packets(bql),
        }
    }

    pub(super) fn unit(&self) -> LimitUnit {
        if matches!(self, Self::Packets(_)) { LimitUnit::Packets } else { LimitUnit::Bytes }
    }

    pub(super) fn bql(&self) -> Option<&Bql> {
        match self {
            Self::Off => None,
            Self::Bytes(bql) | Self::Packets(bql) => Some(bql),
        }
    }

    pub(super) fn bql_mut(&mut self) -> Option<&mut Bql> {
        match self {
            Self::Off => None,
            Self::Bytes(bql) | Self::Packets(bql) => Some(bql),
        }
    }

    /// Returns the packets and the bytes, with one packet past them, that may be handed over; `None` if the
    /// limit is closed.
    #[inline(always)]
    pub(super) fn room(&self) -> Option<(usize, u64)> {
        match self {
            Self::Off => Some((usize::MAX, u64::MAX)),
            Self::Bytes(bql) => bql.room().map(|bytes| (usize::MAX, bytes.into())),
            Self::Packets(bql) => {
                bql.room().map(|bytes| (bytes.div_ceil(LIMIT_PACKET_BYTES).max(1) as usize, u64::MAX))
            }
        }
    }

    /// Notes `packets` of `bytes` handed over, the last of them of `last_bytes`.
    #[inline(always)]
    pub(super) fn queued(&mut self, packets: usize, bytes: u32, last_bytes: u32) {
        match self {
            Self::Off => {}
            Self::Bytes(bql) => bql.queued_batch(bytes, last_bytes),
            Self::Packets(bql) => bql.queued_batch(charge(packets), LIMIT_PACKET_BYTES),
        }
    }

    /// Notes the completion of `packets` of `bytes`, if it says nothing about the limit. Otherwise returns
    /// what the limit counts for them, for [`Bql::completed_at`].
    #[inline(always)]
    pub(super) fn completed(&mut self, packets: usize, bytes: u32) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::Bytes(bql) => (!bql.ran_dry_within_limit(bytes)).then_some(bytes),
            Self::Packets(bql) => {
                let charged = charge(packets);
                (!bql.ran_dry_within_limit(charged)).then_some(charged)
            }
        }
    }
}
