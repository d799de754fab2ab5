//! The transmit path: pools, queueing disciplines, byte queue limits, the queue and its owner.
//!
//! A packet's way: [`pool`] → [`sender`] → lane → [`queue`] (any thread may be its owner) → [`qdisc`] → [`engine`]
//! (bulk dequeue within [`bql`]) → [`device`] → completion → return ring → pool. [`direct`] is the same without the
//! lane, for one sender. A [`poller`] runs queues that no sender runs, and receives: [`rx`].
//!
//! The crate has no unsafe code, makes no system call and reads no clock: time and waiting come through [`host`].
#![forbid(unsafe_code)]

pub mod bql;
pub mod counters;
pub mod delay;
#[doc(hidden)]
pub mod delegation;
pub mod device;
pub mod drops;
mod dscp;
pub mod gso;
pub mod host;
pub mod latency;
pub mod metrics;
#[cfg(feature = "model")]
pub mod model;
pub mod monitor;
pub mod offload;
pub mod options;
pub mod poller;
pub mod pool;
pub mod qdisc;
#[doc(hidden)]
pub mod random;
pub mod rx;
pub mod sg_writer;
mod tx;
pub mod units;
pub mod wait;
mod wakeup;

pub use tx::{direct, engine, owner, queue, sender, small_queue};
