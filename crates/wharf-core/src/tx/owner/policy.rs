//! `Policy`: the bounds of one run of a queue.

use crate::tx::engine::BULK_PACKETS_MAX;

/// The bounds of one run. A run costs its owner time that serves the others: so none may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Frames to send before handing over; at least 1.
    pub quota_packets: u32,
    /// Time to hold the queue before handing over, from the end of the first bulk on, ns; `None` for no bound, and no
    /// look at the clock.
    pub time_ns: Option<u64>,
}

/// One tick of a clock of 1000 Hz (`jiffies`), which the kernel's owner reads between two packets. With a coarser
/// clock it is one tick of that clock.
pub const JIFFY_NS: u64 = 1_000_000;

impl Policy {
    /// Runs until the queue is empty, as the kernel did before 2008.
    pub const UNBOUNDED: Self = Self { quota_packets: u32::MAX, time_ns: None };
    /// Runs for one jiffy, as the kernel did from 2008 to 2011. The kernel also ended the run when another process
    /// wanted the processor. A thread need not: the scheduler preempts it, and the jiffy is over when it continues.
    pub const JIFFY: Self = Self { quota_packets: u32::MAX, time_ns: Some(JIFFY_NS) };
    /// Runs for two device weights of packets. Of quotas from half a weight to four, those between one and two shared
    /// the work best in 2011 (Hadi Salim, "Dequeue fairness"); of these the largest hands over least often.
    pub const QUOTA: Self = Self::quota(2 * BULK_PACKETS_MAX as u32);
    /// Both bounds, as the kernel since 2011: the default.
    pub const QUOTA_AND_TIME: Self = Self { time_ns: Some(JIFFY_NS), ..Self::QUOTA };

    /// Makes a policy bounded by `packets` alone.
    pub const fn quota(packets: u32) -> Self {
        Self { quota_packets: packets, time_ns: None }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::QUOTA_AND_TIME
    }
}
