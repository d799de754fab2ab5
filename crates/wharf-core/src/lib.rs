//! The transmit path: pool policies, queueing disciplines, byte queue limits, the queue and its owner.
//!
//! A packet's way: [`pool`] → [`sender`] → lane → [`queue`] (whoever owns it) → [`qdisc`] → [`engine`] (bulk
//! dequeue within [`bql`]) → [`device`] → completion → home to the pool. [`direct`] is the same without the
//! lane, for one sender; [`poller`] looks after what no sender does, and
//! after what arrives: [`rx`].
//!
//! No unsafe code, no system call, no clock: time comes in, and waiting goes out, through [`host`].
#![forbid(unsafe_code)]

pub mod bql;
pub mod counters;
pub mod device;
pub mod gso;
pub mod host;
pub mod offload;
pub mod options;
pub mod poller;
pub mod pool;
pub mod qdisc;
pub mod rx;
pub mod sg_writer;
mod tx;
pub mod units;
mod wakeup;

pub use tx::{direct, engine, owner, queue, run_observer, sender, small_queue};
