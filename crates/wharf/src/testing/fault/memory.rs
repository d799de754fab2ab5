//! Failing allocations of a sender.

use super::counts::{FaultCounts, Kind};
use super::roll::Roll;
use super::spec::FaultSpec;
use std::sync::Arc;

/// Distinguishes streams of senders from those of devices.
const STREAMS_OF_SENDERS: u64 = 1 << 32;

/// Decides which of a sender's takes from its pool fail, whatever the pool holds.
///
/// It stands before the pool: a switch inside would cost every take of every program. The caller asks it before each take, and on
/// `true` does what it does when the pool is empty.
#[derive(Debug)]
pub struct FailingMemory {
    roll: Roll,
    counts: Arc<FaultCounts>,
}

impl FailingMemory {
    /// Makes that of sender number `sender`. Each has faults of its own.
    pub fn new(spec: &FaultSpec, sender: u32, counts: &Arc<FaultCounts>) -> Self {
        let roll = Roll::new(spec.alloc, spec.seed, STREAMS_OF_SENDERS + u64::from(sender));
        Self { roll, counts: counts.clone() }
    }

    /// True if this take fails.
    #[inline]
    pub fn fails(&mut self) -> bool {
        if !self.roll.is_on() || !self.roll.happens() {
            return false;
        }
        self.counts.add(Kind::Alloc, 1);
        true
    }
}

impl Default for FailingMemory {
    /// Makes one that never fails.
    fn default() -> Self {
        Self::new(&FaultSpec::default(), 0, &Arc::default())
    }
}
