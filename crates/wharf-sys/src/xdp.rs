//! AF_XDP sockets: frames between a queue of a network interface and memory shared with the kernel, by four
//! rings (Documentation/networking/af_xdp.rst, include/uapi/linux/if_xdp.h). No library or compiler is needed
//! at run time.
//!
//! The *UMEM* is a mapping that a socket was given ([`XdpSocket::register`]). Addresses are bytes from its
//! start. The kernel accesses only buffers that a descriptor in the transmit ring or an address in the fill
//! ring has named, until it names them itself in the completion or receive ring. The caller that puts
//! addresses into rings owns those buffers until then: a device keeps their frames in a table.

mod abi;
pub mod assembler;
mod bpf;
mod inspect;
mod metadata;
mod program;
mod ring;
mod share;
mod share_map;
mod socket;
mod socket_map;
mod umem;

pub use abi::{Descriptor, PACKET_CONTINUES, PACKET_HEADROOM_BYTES, Statistics};
pub use inspect::{link_of, program_name};
pub use metadata::{PACKET_HAS_METADATA, TX_METADATA_BYTES, TxMetadataRoom, tx_request, tx_timestamp};
pub use program::{Attached, Hook, Program, load_filter, set_filter};
pub use ring::{Consumer, Entry, Producer, Shared};
pub use share_map::ShareMap;
pub use socket::{Bind, BusyPoll, UmemShape, XdpSocket};
pub use socket_map::SocketMap;
pub use umem::Umem;
