//! Wharf in virtual time.
//!
//! [`engine`]: the agenda of events, the virtual clock, and what processors share. [`pcie`]: what a transfer costs
//! on the bus. [`nics`]: descriptions of NICs. [`plan`]: what a server can carry.
#![forbid(unsafe_code)]

pub mod engine;
pub mod nics;
pub mod pcie;
pub mod plan;
