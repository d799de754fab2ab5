//! UDP sockets, many datagrams a call: sendmmsg(2) and recvmmsg(2), with what udp(7), ip(7) and ipv6(7) keep in control
//! messages: segments of a datagram to be cut up (UDP_SEGMENT) or put together (UDP_GRO), and the address that it was
//! sent to.
//!
//! Headers, addresses and control messages of a call lie in arrays that are made once. What is written into them, and
//! read from them, are plain bytes; only the pointers between them and the calls are unsafe.

mod address;
mod control;
mod incoming;
mod outgoing;
mod socket;

pub use incoming::{DATAGRAM_BYTES_MAX, Incoming, Received};
pub use outgoing::{Message, Outgoing, Sent, Writer};
pub use socket::UdpSocket;
