//! Devices, one file or folder each, and the host's clock and threads.
//!
//! [`open`](open::open) makes a device from a specification, `KIND:PLACE[,key=value]...`. The
//! [`Registry`](registry::Registry) lists the kinds, and takes others. `Kind::needs` names what opening
//! takes: `packet` and `xdp` need a capability, and so does `tap` unless the interface is the user's. `null`,
//! `wire`, `pcap`, `udp`, `vhost-user` and `virtio-user` need none. `docs/adding-a-device.md` says how to write
//! another.
#![forbid(unsafe_code)]
// A build without some kinds leaves parts unused that the kinds share.
#![cfg_attr(
    not(all(
        feature = "packet",
        feature = "pcap",
        feature = "tap",
        feature = "udp",
        feature = "vhost",
        feature = "xdp"
    )),
    allow(dead_code, unused_imports)
)]

pub mod doctor;
#[doc(hidden)]
mod guard;
pub mod host;
pub mod host_loss;
pub mod iface;
pub mod interfaces;
#[doc(hidden)]
pub mod link;
pub mod null;
/// Opens devices by specification.
pub mod open {
    pub use crate::registry::{open, open_queues};
    pub use crate::spec::{Direction, Opened, Opening};
}
#[cfg(feature = "packet")]
pub mod packet;
#[cfg(feature = "pcap")]
pub mod pcap;
pub mod reasons;
pub mod registry;
pub mod reopen;
pub mod requirements;
pub mod spec;
#[cfg(feature = "tap")]
pub mod tap;
#[cfg(any(feature = "packet", feature = "tap", feature = "udp", feature = "xdp"))]
mod thinning;
#[cfg(feature = "udp")]
pub mod udp;
#[cfg(any(feature = "vhost", feature = "xdp"))]
mod unix_socket;
#[cfg(feature = "vhost")]
pub mod vhost_user;
#[cfg(feature = "vhost")]
pub mod virtio;
#[cfg(feature = "vhost")]
pub mod virtio_user;
pub mod vnet;
pub mod wire;
#[cfg(feature = "xdp")]
pub mod xdp;

/// The kinds of this crate, in the order in which they are listed.
static BUILT_IN: &[&spec::Kind] = &[
    &null::KIND,
    &wire::KIND,
    #[cfg(feature = "pcap")]
    &pcap::KIND,
    #[cfg(feature = "packet")]
    &packet::KIND,
    #[cfg(feature = "xdp")]
    &xdp::KIND,
    #[cfg(feature = "tap")]
    &tap::KIND,
    #[cfg(feature = "udp")]
    &udp::KIND,
    #[cfg(feature = "vhost")]
    &vhost_user::KIND,
    #[cfg(feature = "vhost")]
    &virtio_user::KIND,
];

pub use iface::GONE;
pub use wharf_core::units;
