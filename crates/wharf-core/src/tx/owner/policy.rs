//! `Policy`: how long one ownership of a queue may last.

use crate::tx::engine::BULK_PACKETS_MAX;

/// Bounds of one run of a queue by one owner. What a run is worth to the others is the owner's loss: so none shall last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Frames to send before handing over; at least 1.
    pub quota_packets: u32,
    /// Time to hold the queue before handing over, from the end of the first bulk on; `None` for no bound (then no
    /// clock is ever read).
    pub time_ns: Option<u64>,
}

/// One tick of a clock of 1000 Hz, which is what the kernel's owner looked at between two packets. Clocks that are
/// coarser than this make it one tick of theirs.
pub const JIFFY_NS: u64 = 1_000_000;

impl Policy {
    /// Until the queue is empty: the kernel before 2008.
    pub const UNBOUNDED: Self = Self { quota_packets: u32::MAX, time_ns: None };
    /// For one jiffy: the kernel from 2008 to 2011. It looked whether another process wanted the processor, too; a
    /// thread need not, since the scheduler takes the processor from it, and the jiffy is over when it is back.
    pub const JIFFY: Self = Self { quota_packets: u32::MAX, time_ns: Some(JIFFY_NS) };
    /// Two device weights of packets. Of quotas from half of one to four, those between one and two divided the work best in
    /// 2011 (Hadi Salim, "Dequeue fairness"), and of these the largest hands over least.
    pub const QUOTA: Self = Self::quota(2 * BULK_PACKETS_MAX as u32);
    /// The same, and one jiffy, which the kernel looks at since 2011, too: the default.
    pub const QUOTA_AND_TIME: Self = Self { time_ns: Some(JIFFY_NS), ..Self::QUOTA };

    /// So many packets.
    pub const fn quota(packets: u32) -> Self {
        Self { quota_packets: packets, time_ns: None }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::QUOTA_AND_TIME
    }
}
