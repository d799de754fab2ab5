//! The parts of a [`Port`](crate::Port): its queues, senders, memory, clock and ways to wait. A port puts
//! them together; [`PortBuilder::build_direct`](crate::PortBuilder::build_direct) makes a queue without one.

#[doc(inline)]
pub use wharf_core::bql::Bounds;
#[doc(inline)]
pub use wharf_core::direct::Direct;
#[doc(inline)]
pub use wharf_core::host::{Clock, Park, Wake};
#[doc(inline)]
pub use wharf_core::poller::{Mode, Settings};
#[doc(inline)]
pub use wharf_core::pool::{Audit, PacketMut, PoolBuilder, PoolError};
#[doc(inline)]
pub use wharf_core::queue::{QueueError, TxQueue};
#[doc(inline)]
pub use wharf_core::rx::{Handler, Rest, RxQueue, select};
#[doc(inline)]
pub use wharf_core::sender::{Canceller, Permit, Ready, Spread};
#[doc(inline)]
pub use wharf_core::sg_writer::Memory;
#[doc(inline)]
pub use wharf_devices::host::HostClock;
