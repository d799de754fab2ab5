//! Drivers of Intel's gigabit adapters in this process, by VFIO: the kinds [`e1000`] and [`igb`] of devices, and [`pci`], which
//! hands an adapter over and back.
//!
//! A program adds the kinds to its registry (`Registry::with`), as any kind of its own. `wharf admin bind` is [`pci`]'s.
//!
//! Both families have rings of descriptors of 16 bytes in memory, a head that the adapter moves and a tail that the
//! driver moves. They differ in the layout of a descriptor, the places of registers, and the order in which they are
//! set up: see [`Family`](family::Family). The driver reaches an adapter by a [`Bus`](bus::Bus): VFIO, or a model in
//! memory in tests.
//!
//! Reading order: `family.rs`, `bus.rs`, `ring.rs`, `tx.rs` and `rx.rs` (the two directions of a queue), `adapter.rs`
//! (what the queues of an adapter share), `port.rs` (a queue as a device).
//!
//! **An adapter's words are not trusted.** The driver keeps each frame in a table, in the order of the ring, and takes
//! from the adapter no more than a bit that says a descriptor is done, and a length, which it checks. The IOMMU keeps
//! the adapter to the pool and the rings. Within the pool it is trusted to write to buffers that it was lent alone:
//! `wharf_mem::Region`.

#![deny(unsafe_code)]

mod adapter;
mod address;
mod addresses;
#[doc(hidden)]
pub mod bus;
mod doctor;
pub mod e1000;
#[doc(hidden)]
pub mod family;
mod faults;
pub mod igb;
mod link;
mod offload;
mod options;
pub mod pci;
mod phy;
#[doc(hidden)]
pub mod port;
mod registers;
mod ring;
mod rx;
mod spec;
mod throttle;
mod tx;
#[allow(unsafe_code)]
mod vfio;
mod vfio_bus;

pub use options::PortOptions;
pub use port::Port;
