//! Devices, one file or folder each, and the host's clock and threads.
//!
//! [`open`] makes a device from a specification, `KIND:WHERE[,key=value]...`. None of these devices needs
//! a privilege. `docs/device-howto.md` says how to write another.
#![forbid(unsafe_code)]

pub mod host;
pub mod null;
pub mod pcap;
pub mod traffic;
pub mod wire;
