//! Tests of the public interface: ports, receivers, owners, metrics.

mod chains;
mod closed;
mod events;
mod fault;
mod forward;
mod gone;
mod interfaces;
mod metrics;
mod opening;
mod pools;
mod port;
mod posted;
mod quiet;
mod receivers;
mod reopened;
mod settings;
mod sides;
mod snapshot;
mod stopped;
mod virtual_time;
