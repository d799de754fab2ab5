//! Devices, one file or folder each, and the host's clock and threads.
//!
//! [`open`](open::open) makes a device from a specification, `KIND:PLACE[,key=value]...`. The
//! [`Registry`](registry::Registry) lists the kinds, and takes others. `packet`, `xdp` and `tap` need a
//! privilege, the others none. `docs/device-howto.md` says how to write another.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod host;
mod link;
pub mod null;
/// Opens devices by specification.
pub mod open {
    pub use crate::registry::{open, open_queues};
    pub use crate::spec::{Direction, Opened, Queues};
}
pub mod packet;
pub mod pcap;
pub mod registry;
pub mod requirements;
pub mod spec;
pub mod tap;
pub mod udp;
mod unix_socket;
pub mod vhost_user;
pub mod virtio;
pub mod virtio_user;
pub mod vnet;
pub mod wire;
pub mod xdp;

/// The kinds of this crate, in the order in which they are listed.
static BUILT_IN: &[&spec::Kind] = &[
    &null::KIND,
    &wire::KIND,
    &pcap::KIND,
    &packet::KIND,
    &xdp::KIND,
    &tap::KIND,
    &udp::KIND,
    &vhost_user::KIND,
    &virtio_user::KIND,
];

pub use link::GONE;
pub use wharf_core::units;

/// The guides' examples, compiled and run.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/device-howto.md")]
    mod howto {}
    #[doc = include_str!("../../../docs/adding-a-device.md")]
    mod adding {}
}
