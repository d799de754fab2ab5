//! AF_PACKET sockets (`packet(7)`): frames straight to and from a network interface, through rings shared
//! with the kernel.
//!
//! The kernel writes to a block or slot before it hands it over, and not while this process owns it. The
//! status words are atomics; all else is accessed only between two of them. Kernel structures are `libc`'s;
//! their sizes are asserted where they are used.

mod receive;
mod socket;
mod transmit;

pub use receive::{BlockRing, ReceiveShape, ReceiveVersion, Received};
pub use socket::{PacketSocket, Statistics};
pub use transmit::{SlotRing, SlotState};

/// Bytes of the header in front of each frame after [`PacketSocket::enable_vnet_header`]: `struct
/// virtio_net_hdr` (virtio 1.2, section 5.1.6) without the number of buffers.
pub const VNET_HEADER_BYTES: usize = 10;
