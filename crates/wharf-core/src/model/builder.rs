//! Settings of a queue for comparisons and tests.

use super::QueueBuilder;
use crate::tx::run_observer::RunObserver;
use std::sync::Arc;

#[doc(hidden)]
impl QueueBuilder {
    /// Reports the senders' runs to `observer`. A sender that is alone then claims the queue for each burst. Without
    /// an observer, the default, this costs nothing.
    #[must_use]
    pub fn observe_runs(mut self, observer: Arc<dyn RunObserver>) -> Self {
        self.setup.run_observer = Some(observer);
        self
    }

    /// Sets the first value of ring indices and byte counters: tests start near 2^32 to see them wrap.
    #[must_use]
    pub fn index_start(mut self, start: u32) -> Self {
        self.setup.index_start = start;
        self
    }
}
