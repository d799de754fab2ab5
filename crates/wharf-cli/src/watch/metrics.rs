//! `--metrics`: the counters of a run as OpenMetrics, by HTTP.

mod families;
mod server;

pub(super) use server::MetricsServer;
