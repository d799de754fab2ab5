//! Failing allocations of a sender.

use super::counts::{FaultCounts, Kind};
use super::roll::Roll;
use super::spec::FaultSpec;
use std::sync::Arc;

/// Distinguishes streams of senders from those of devices.
const STREAMS_OF_SENDERS: u64 = 1 << 32;

impl FaultSpec {
    /// Returns what decides which takes of sender number `sender` from its pool fail, whatever the pool holds. Each
    /// sender has faults of its own; `counts` counts them.
    ///
    /// It stands before the pool: a switch inside would cost every take of every program. The caller asks it before
    /// each take, and on `true` does what it does when the pool is empty.
    pub fn failing_takes(
        &self, sender: u32, counts: &Arc<FaultCounts>,
    ) -> impl FnMut() -> bool + Send + use<> {
        let mut roll = Roll::new(self.alloc, self.seed, STREAMS_OF_SENDERS + u64::from(sender));
        let counts = counts.clone();
        move || {
            let fails = roll.is_on() && roll.happens();
            if fails {
                counts.add(Kind::Alloc, 1);
            }
            fails
        }
    }
}
