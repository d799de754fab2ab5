//! The transmit path: pool policies, queueing disciplines, byte queue limits, the queue and its owner.
//!
//! No unsafe code, no system call, no clock: time comes in as nanoseconds, waiting goes out through traits.
#![forbid(unsafe_code)]

pub mod bql;
