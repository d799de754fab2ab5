//! Tests of the public interface: paths, receivers, owners, metrics.

mod chains;
mod closed;
mod events;
mod interfaces;
mod metrics;
mod opening;
mod port;
mod posted;
mod quiet;
mod receivers;
mod reopened;
mod stopped;
