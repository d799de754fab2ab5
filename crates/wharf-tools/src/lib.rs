//! Tools on top of the path: [`traffic`] generates, replays and checks packets; [`trace`] wraps a device.
#![forbid(unsafe_code)]

pub mod trace;
pub mod traffic;
