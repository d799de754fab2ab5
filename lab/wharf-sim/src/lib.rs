//! The simulator: the path's own state machines in virtual time.
//!
//! - [`engine`]: the agenda of events, the virtual clock, and the costs that processors share (locks, cache
//!   lines).
//! - [`harness`]: the course of a simulation.
//! - [`nic`]: NICs, as a driver and as hardware.
//! - [`flows`]: sources of traffic (TCP, requests and responses, UDP).
//! - [`ConservationChecker`] and [`RunError`]: the rules that each run is checked against.
#![forbid(unsafe_code)]

mod conservation;
pub mod engine;
mod error;
pub mod flows;
pub mod harness;
pub mod nic;

pub use conservation::ConservationChecker;
pub use error::RunError;
