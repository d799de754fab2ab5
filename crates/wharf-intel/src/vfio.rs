//! VFIO (`drivers/vfio`; Documentation/driver-api/vfio.rst): an adapter of the PCI bus that the kernel has handed to this process.
//!
//! A [`Container`] is the adapter's address space for DMA: the adapter reaches the memory that is mapped there, and nothing else. A
//! [`Device`] gives its configuration space and interrupts, a [`Bar`] its registers. All is undone when they are dropped, and by the
//! kernel when the process ends in any way: it stops the adapter's DMA first (`vfio_pci_core_disable`).

mod abi;
mod bar;
mod container;
mod device;
mod ranges;

pub use bar::Bar;
pub use container::{Container, Step, VfioError};
pub use device::{Device, InterruptKind};
