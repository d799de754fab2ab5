//! Wharf: a packet transmit path for Linux user space.
#![forbid(unsafe_code)]

pub use wharf_core::{bql, counters, device, direct, host, owner, poller, pool, qdisc, queue, run, sender};
pub use wharf_devices as devices;
pub use wharf_mem as mem;
