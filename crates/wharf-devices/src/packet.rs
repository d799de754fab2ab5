//! `packet:INTERFACE`: a raw socket on a network interface, by rings shared with the kernel: packet(7).
//!
//! Sending: [`PacketSender`], PACKET_TX_RING. Each frame is copied into a slot, one system call hands a batch
//! over, and a slot comes back when its frame has left: real completions, so that there is a byte queue
//! limit. Receiving: [`PacketReceiver`], PACKET_RX_RING, in blocks or a frame at a time. Both use PACKET_VNET_HDR, the header that
//! describes unfinished checksums and super-packets.
//!
//! Needs CAP_NET_RAW. The interface is looked up in the network namespace of the thread that opens it.

mod doctor;
mod receiving;
mod sending;
mod spec;

#[doc(hidden)]
pub use receiving::work;
pub use receiving::{PacketReceiver, ReceiveOptions, ReceiveVersion, SuperPackets};
pub use sending::{PacketSender, SendOptions};

use crate::iface::io_fault;
use crate::link::{Link, no_socket};
use crate::vnet::VnetHeader;
pub(crate) use spec::KIND;
use wharf_core::device::DeviceError;
use wharf_mem::Meta;
use wharf_sys::packet::PacketSocket;

/// Bytes of a frame that the kernel copies into the packet's own buffer when it is sent. The rest is passed
/// on as pages of the ring, which costs more than a copy up to this length (1514 bytes: 1.35 times, on veth).
const COPIED_BYTES_MAX: u32 = 3072;

/// Makes the header for a frame of `len_bytes` to be sent as `meta` asks; the kernel checks it.
#[inline]
fn header_to_send(len_bytes: u32, meta: &Meta) -> VnetHeader {
    VnetHeader { header_bytes: len_bytes.min(COPIED_BYTES_MAX) as u16, ..VnetHeader::of(meta) }
}

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
            let what = no_socket("a raw socket", &source);
            io_fault(&name.escape_debug().to_string(), &what)(source)
        })?;
        let link = Link::find(name, interface_name, socket.fd())?;
        Ok(Self { socket, link })
    }
}
