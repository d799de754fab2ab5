//! What a port, a queue and their users count, in one walk; losses by reason; times in a histogram.

mod snapshot;

pub use crate::port::Metrics;
pub use snapshot::Snapshot;
#[doc(inline)]
pub use wharf_core::counters::{Counter, QueueCounters, SenderCounters};
#[doc(inline)]
pub use wharf_core::latency::Latency;
#[doc(inline)]
pub use wharf_core::metrics::{Metric, MetricKind};
#[doc(inline)]
pub use wharf_core::poller::PollerCounters;
