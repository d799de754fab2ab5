//! PCI Express: the bytes of a transfer on the link in each direction, and the link's capacity.
//!
//! A [`Link`] is the result of negotiation: generation, lanes, maximum payload (MPS), maximum read request
//! (MRRS), read completion boundary (RCB). It cuts a transfer into transaction layer packets (TLPs), and
//! knows the bits a second that are left for those. A [`Bus`] is a link in use. It adds up the traffic, holds
//! the tags of reads in flight, and returns the time at which a transfer is through. A model of a NIC charges
//! it every doorbell, descriptor, packet and completion by its size.
//!
//! The formulae are those of Neugebauer et al., "Understanding PCIe performance for end host networking",
//! SIGCOMM 2018 (the public model `pcie-bench/pcie-model`), with the limits on acknowledgement and flow
//! control from the PCIe base specification, revision 5.0, tables 2-46 to 2-48 and 3-7 to 3-9. Payload counts
//! in bytes, as it does there; on a real link it is padded to four. All arithmetic is in integers.

mod bus;
mod link;
mod parse;
mod transfer;

pub(crate) use link::{BOUNDARIES, LANES, SIZES};

pub use bus::{Bus, BusSpec, BusTotals};
pub use link::{Completions, Generation, Link, LinkError};
pub use transfer::Traffic;
