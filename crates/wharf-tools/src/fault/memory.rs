//! Allocations of a sender that fail.

use super::counts::{FaultCounts, Kind};
use super::roll::Roll;
use super::spec::FaultSpec;
use std::sync::Arc;

/// Streams of senders are told from those of devices by this.
const STREAMS_OF_SENDERS: u64 = 1 << 32;

/// Decides which of a sender's takes from its pool find it empty, whatever is in it.
///
/// It stands before the pool and not inside it: a switch there would be looked at by every take of every
/// program. Whoever takes frames asks here first, and does on `true` what it does when the pool is empty.
#[derive(Debug)]
pub struct FailingMemory {
    roll: Roll,
    counts: Arc<FaultCounts>,
}

impl FailingMemory {
    /// For sender number `sender`; each has faults of its own.
    pub fn new(spec: &FaultSpec, sender: u32, counts: &Arc<FaultCounts>) -> Self {
        let roll = Roll::new(spec.alloc, spec.seed, STREAMS_OF_SENDERS + u64::from(sender));
        Self { roll, counts: counts.clone() }
    }

    /// Whether this take fails.
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
    /// None fails.
    fn default() -> Self {
        Self::new(&FaultSpec::default(), 0, &Arc::default())
    }
}
