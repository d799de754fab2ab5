//! PCI Express: what a transfer costs in bytes on the link, each way, and how much the link carries.
//!
//! A [`Link`] is what a device has negotiated: generation, lanes, maximum payload (MPS), maximum read request
//! (MRRS), read completion boundary (RCB). It says how a transfer is cut into transaction layer packets
//! (TLPs), and how many bits a second are left for those. A [`Bus`] is a link in use: it adds up what crosses
//! it, holds the tags of reads in flight, and says when a transfer is through; a model of a NIC charges it
//! every doorbell, descriptor, packet and completion by its size.
//!
//! The formulae are those of Neugebauer et al., "Understanding PCIe performance for end host networking",
//! SIGCOMM 2018 (the public model `pcie-bench/pcie-model`), with the limits on acknowledgement and flow
//! control from the PCIe base specification, revision 5.0, tables 2-46 to 2-48 and 3-7 to 3-9. Payload counts
//! in bytes, as it does there; on a real link it is padded to four. Everything is in integers.

mod bus;
mod link;
mod parse;
mod transfer;

#[cfg(test)]
mod tests;

pub(crate) use link::{BOUNDARIES, LANES, SIZES};

pub use bus::{Bus, BusSpec, BusTotals};
pub use link::{Completions, Generation, Link, LinkError};
pub use transfer::{COMPLETION_OVERHEAD_BYTES, READ_REQUEST_BYTES, Traffic, WRITE_OVERHEAD_BYTES};
