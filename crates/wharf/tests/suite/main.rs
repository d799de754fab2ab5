//! Tests of the public interface: paths, receivers, owners, metrics.

mod metrics;
mod path;
