//! IP packets to where the Linux kernel would send them, by ports that go past the kernel.
//!
//! A [`Router`] has the kernel's tables, which a thread follows ([`wharf_net`]), and a [`Port`](wharf::Port)
//! for each interface that packets may leave by. A [`RouteSender`], one for each thread, takes an IP packet,
//! or a payload and an address. It finds route, source, interface and neighbour, writes the Ethernet header,
//! VLAN tags and tunnel headers into the packet's headroom, and hands the packet to the right port.
//!
//! Packets for a neighbour that the kernel does not know wait, bounded in bytes and time, while the kernel
//! asks for it. Whatever does not leave is counted by its [`Reason`]; nothing is dropped in silence.
#![forbid(unsafe_code)]

mod arrived;
mod asking;
mod counts;
mod forwarding;
mod gathered;
mod icmp;
mod neighbours;
mod reason;
mod router;
mod sender;
mod shared;
mod template;
mod together;
mod waiting;
mod ways;
mod wrap;

pub use counts::Counts;
pub use reason::{Fate, Reason};
pub use router::{HEADROOM_BYTES, Router};
pub use sender::{Flushed, RouteSender};
pub use wharf_net as net;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
