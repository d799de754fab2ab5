//! UDP sockets, many datagrams a call: `sendmmsg(2)` and `recvmmsg(2)`. Control messages (`udp(7)`, `ip(7)`,
//! `ipv6(7)`) carry the segment size of datagrams that the kernel segments (`UDP_SEGMENT`) or coalesces
//! (`UDP_GRO`), and their destination address.
//!
//! Headers, addresses and control messages of a call are in arrays that are allocated once. Their contents
//! are plain bytes; only the pointers between them, and the calls, are unsafe.

mod address;
mod control;
mod errors;
mod incoming;
mod multicast;
mod outgoing;
mod socket;

pub use control::ErrorReport;
pub use incoming::{DATAGRAM_BYTES_MAX, Incoming, Received};
pub use outgoing::{Message, Outgoing, Writer, WrittenMessage};
pub use socket::UdpSocket;
