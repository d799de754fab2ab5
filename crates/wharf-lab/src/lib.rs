//! Wharf in virtual time.
//!
//! [`engine`]: the agenda of events, the virtual clock, and what processors share. [`pcie`]: what a transfer costs
//! on the bus.
#![forbid(unsafe_code)]

pub mod engine;
pub mod pcie;
