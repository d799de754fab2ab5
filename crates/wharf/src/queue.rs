//! The parts of a [`Port`](crate::Port), for a program that puts its own together: queues, senders, pools,
//! pollers, clocks.

#[doc(inline)]
pub use wharf_core::bql::Bounds;
#[doc(inline)]
pub use wharf_core::direct::Direct;
#[doc(inline)]
pub use wharf_core::engine::Batching;
#[doc(inline)]
pub use wharf_core::host::{Clock, Park, Wake};
#[doc(inline)]
pub use wharf_core::poller::{Mode, Settings};
#[doc(inline)]
pub use wharf_core::pool::{Audit, PacketMut, PoolBuilder, PoolError};
#[doc(hidden)]
pub use wharf_core::pool::{Held, Holder, Segments};
#[doc(inline)]
pub use wharf_core::queue::{QueueBuilder, QueueError, TxQueue};
#[doc(inline)]
pub use wharf_core::rx::{Handler, Rest, RxQueue, select};
#[doc(inline)]
pub use wharf_core::sender::{Canceller, Permit, Ready, Spread};
#[doc(hidden)]
pub use wharf_core::sg_writer::Memory;
#[doc(inline)]
pub use wharf_devices::host::{HostClock, HostPark, PollerThread};
#[doc(hidden)]
pub use wharf_devices::host::{PollerBuilder, WakeFd};
