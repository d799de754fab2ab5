//! Devices, one file or folder each, and the host's clock and threads.
//!
//! [`open`](open::open) makes a device from a specification, `KIND:WHERE[,key=value]...`, and
//! [`kinds`](kinds::kinds) lists what there is. `packet`, `xdp` and `tap` need a privilege, the others none.
//! `docs/device-howto.md` says how to write another.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod headers;
pub mod host;
pub mod kinds;
mod link;
pub mod null;
pub mod open;
pub mod packet;
pub mod pcap;
mod refused;
mod segment;
pub mod tap;
mod tunnel;
pub mod udp;
pub mod units;
mod unix_socket;
pub mod vhost_user;
pub mod virtio;
pub mod virtio_user;
pub mod vnet;
pub mod wire;
pub mod xdp;

pub use link::GONE;

/// The how-to's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/device-howto.md")]
mod howto {}
