//! Drivers of this crate's own for Intel's gigabit adapters: the part that [`e1000`](crate::e1000) and
//! [`igb`](crate::igb) share.
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

mod adapter;
mod address;
mod addresses;
#[doc(hidden)]
pub mod bus;
pub(crate) mod doctor;
#[doc(hidden)]
pub mod family;
mod faults;
mod link;
mod offload;
pub(crate) mod options;
pub(crate) mod phy;
#[doc(hidden)]
pub mod port;
pub(crate) mod registers;
mod ring;
mod rx;
pub(crate) mod spec;
mod throttle;
mod tx;
mod vfio_bus;

pub use options::PortOptions;
pub use port::Port;
