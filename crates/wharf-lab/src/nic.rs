//! NICs with their real descriptor bytes, over a modelled PCI Express link.
//!
//! A driver and a NIC are separate code that meets in memory: [`host`] is that memory, addressed by bytes. The driver
//! half is a [`Device`](wharf_core::device::Device) and writes descriptors; the hardware half reads what was
//! written, as bytes, and writes its completions back. Whatever crosses the bus is charged by its size.
//!
//! One folder per family: [`cx5`].

pub mod cx5;
pub mod host;
