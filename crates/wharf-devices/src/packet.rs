//! `packet:INTERFACE`: a raw socket on a network interface, by rings shared with the kernel: packet(7).
//!
//! Sending: [`PacketSender`], PACKET_TX_RING. Each frame is copied into a slot, one system call hands a batch over,
//! and a slot comes back when its frame has left: real completions, so that there is a byte queue limit.
//! Receiving: [`PacketReceiver`], PACKET_RX_RING in blocks. Both have PACKET_VNET_HDR on, the header that tells
//! of checksums not yet computed and super-packets not yet cut.
//!
//! Needs CAP_NET_RAW. The interface is looked up in the network namespace of the thread that opens it.

mod receiving;
mod sending;
mod vnet;

pub use receiving::{PacketReceiver, ReceiveOptions, SuperPackets};
pub use sending::{PacketSender, SendOptions};

use crate::link::Link;
use wharf_core::device::DeviceError;
use wharf_sys::packet::PacketSocket;

/// A socket and its interface, before there is a ring.
struct Opened {
    socket: PacketSocket,
    link: Link,
}

impl Opened {
    /// Opens a socket for `interface`, which must be up.
    fn new(interface_name: &str) -> Result<Self, DeviceError> {
        let name = format!("packet:{interface_name}");
        let socket = PacketSocket::open().map_err(|source| {
            let what = "a raw socket needs CAP_NET_RAW (`wharf devices` says how to get it)".into();
            DeviceError::Io { device: name.escape_debug().to_string(), what, source }
        })?;
        let link = Link::find(name, interface_name, socket.fd())?;
        Ok(Self { socket, link })
    }
}
