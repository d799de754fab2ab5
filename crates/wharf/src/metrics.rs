//! What a port, a queue and their users count, in one walk; losses by reason; times in a histogram.

mod drops;
mod latency;

pub use crate::port::Metrics;
pub use drops::drops_by_reason;
pub use latency::Latency;
#[doc(inline)]
pub use wharf_core::counters::{Counter, QueueCounters, SenderCounters};
#[doc(inline)]
pub use wharf_core::metrics::{Metric, MetricKind};
