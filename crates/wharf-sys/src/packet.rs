//! AF_PACKET sockets (packet(7)): frames straight to and from a network interface, by rings that are shared with
//! the kernel.
//!
//! What the kernel writes into a ring while it is ours to read it writes before it hands a block or slot over:
//! the status words are atomics, everything else is touched only between two of them. Kernel structures are
//! `libc`'s, with their sizes asserted where they are used.

mod mapped;
mod receive;
mod socket;
mod transmit;

pub use receive::{BlockRing, ReceiveShape, Received};
pub use socket::{PacketSocket, Statistics};
pub use transmit::{SlotRing, SlotState};

/// Bytes of the header (virtio 1.2, section 5.1.6, without the number of buffers) that stands before each frame
/// where [`PacketSocket::enable_vnet_header`] was called.
pub const VNET_HEADER_BYTES: usize = 10;
