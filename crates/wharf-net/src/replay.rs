//! Tables from recorded messages, for tests without a kernel.

use crate::kernel::fact_of;
use crate::state::State;
use crate::tables::{Shared, Tables};
use crate::wire::messages;
use std::sync::Arc;

/// A message of a dump, not of an event.
const OF_A_DUMP: u16 = 2;

impl Tables {
    /// Makes tables from recorded messages of rtnetlink, of dumps and of events, as they came. For tests of
    /// programs: `tests/data/record.py` in the source makes such a recording. Bytes that are no message
    /// end it.
    pub fn replay(recording: &[u8]) -> Self {
        let mut state = State::default();
        for message in messages(recording) {
            if message.flags & OF_A_DUMP == 0 {
                state.take(&message);
            } else if let Some(fact) = fact_of(message.kind, message.body) {
                state.fill(fact);
            }
        }
        let shared = Arc::new(Shared::default());
        shared.publish(state.snapshot());
        Self::new(shared)
    }
}

#[cfg(test)]
mod tests;
