//! AF_XDP sockets: frames between a queue of a network interface and memory that is shared with the kernel, by four
//! rings. Documentation/networking/af_xdp.rst and include/uapi/linux/if_xdp.h of Linux; nothing here wants a library
//! or a compiler at run time.
//!
//! The *UMEM* is a mapping that a socket was given ([`XdpSocket::register`]). Addresses are bytes from its start. The
//! kernel touches only what was named to it, by a descriptor in the transmit ring or an address in the fill ring, and until
//! it names that itself in the completion or receive ring. Whoever puts addresses into rings has to own what lies
//! there until then: a device keeps its frames in a table.

mod abi;
mod area;
mod program;
mod ring;
mod socket;

pub use abi::{Descriptor, PACKET_CONTINUES, PACKET_HEADROOM_BYTES, Statistics};
pub use area::Area;
pub use program::{Attached, Hook, Redirect};
pub use ring::{Consumer, Entry, Producer, Shared};
pub use socket::{Bind, UmemShape, XdpSocket};
