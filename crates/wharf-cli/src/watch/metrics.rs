//! `--metrics`: the counters of a run as OpenMetrics, by HTTP.

mod base;
mod endpoint;
mod families;
mod server;
mod writer;

pub(crate) use endpoint::Endpoint;
pub(super) use server::MetricsServer;
