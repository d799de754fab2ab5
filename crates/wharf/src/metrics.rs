//! What a port, a queue and their users count, in one walk; losses by reason; times in a histogram.

mod drops;
mod latency;
mod snapshot;

pub use crate::port::Metrics;
#[doc(hidden)]
pub use drops::drops_by_reason;
pub use latency::Latency;
pub use snapshot::Snapshot;
#[doc(inline)]
pub use wharf_core::counters::{Counter, QueueCounters, SenderCounters};
#[doc(inline)]
pub use wharf_core::metrics::{Metric, MetricKind};
#[doc(inline)]
pub use wharf_core::poller::PollerCounters;
