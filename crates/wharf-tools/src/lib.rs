//! Tools on top of devices and the path: traffic to send and to check, forwarding, fault injection, traces.
//!
//! [`traffic`] generates, replays and checks packets; [`forward`] moves packets between two devices;
//! [`fault`] and [`trace`] wrap a device; [`drops`] counts losses.
#![forbid(unsafe_code)]

pub mod drops;
pub mod fault;
pub mod forward;
pub mod trace;
pub mod traffic;
