//! Frames and the memory under them: the types that make *one owner per buffer* true.
//!
//! A [`Frame`] is the owned name of one buffer: 8 bytes, neither `Copy` nor `Clone`. A [`Region`] turns free buffers
//! ([`FreeFrame`]) into frames and back, and gives access to their bytes. Frames travel in [`Batch`]es, and through a
//! [`lane`] from a sender to the owner of a queue. They go back to the sender as free buffers through a [`return_ring`].
//! An [`OwnerCell`] admits one thread at a time to a queue's state. No type here knows a protocol, a device or a policy.
//!
//! ```
//! use wharf_mem::{Batch, Region, RegionSpec, lane, return_ring};
//!
//! let spec = RegionSpec { frames: 64, frame_bytes: 2048, headroom_bytes: 128, huge_pages: false };
//! let (region, mut free) = Region::new(spec)?;
//! let (mut sender, mut owner) = lane::lane(64, 0);
//! let (mut returns, mut returned) = return_ring::return_ring(64, 0);
//!
//! // A sender takes 2 frames of 60 bytes, fills them, and publishes them on its lane.
//! let mut burst = Batch::new(2);
//! region.take(&mut free, &mut burst, 2, 7, 60, |_| {})?;
//! region.each_bytes_mut(&mut burst).for_each(|bytes| bytes.fill(1));
//! assert_eq!((sender.push(&mut burst), burst.len()), (2, 0));
//!
//! // The owner of the queue takes them, and returns them when they have left.
//! let mut batch = Batch::new(64);
//! owner.pop(&mut batch, 64);
//! assert_eq!((batch.sender(), batch.bytes()), (Some(7), 120));
//! assert_eq!(returns.push(&mut batch, 2), 2);
//! assert_eq!(returned.pop(&mut free, 64), 2);
//! assert!(region.retire(free));
//! # Ok::<(), wharf_mem::MemError>(())
//! ```
//!
//! # Safety
//!
//! Unsafe code is in three files: `region/bytes.rs` (the bytes of a frame), `share.rs` (the slots of a ring, the value of
//! an owner's cell) and `inbox.rs` (a chain of boxes). `share.rs` asks for proofs that only `ring.rs` and `owner_cell.rs` make.
//!
//! `region/bytes.rs` rests on two invariants. Safe code of this crate upholds them, and belongs to an audit of it:
//! - *One frame, one buffer.* At any time at most one `Frame` or `FreeFrame` names a buffer. Names are made in
//!   `Region::new`, and from bits that were a name in `region/take.rs`, `region/give.rs`, `meta.rs` (the next
//!   buffer of a chain), `batch.rs` (between its slots), `lane.rs` and `return_ring.rs`: each forgets the name that it read.
//!   Pool numbers are unique by `pool_number.rs`.
//! - *A frame fits its buffer.* Lengths are set in `region.rs`, `region/take.rs` and `region/chain.rs`, each after a
//!   check.
//!
//! Both are private to this crate: no safe code outside can break them. What a region's memory shares with the kernel or
//! another process is described at [`region`].
#![deny(unsafe_code)]

pub mod batch;
pub mod frame;
#[allow(unsafe_code, reason = "boxes that are in a chain of raw pointers")]
pub mod inbox;
pub mod lane;
mod lock;
pub mod meta;
mod owner_cell;
mod pool_number;
pub mod region;
pub mod return_ring;
mod ring;
#[allow(unsafe_code, reason = "the slots of a ring and the value of an owner's cell")]
mod share;
mod spec;
mod sync;
pub mod word;

pub use batch::Batch;
pub use frame::{Charge, Frame, FreeFrame};
pub use lock::lock;
pub use meta::{Meta, Times};
pub use owner_cell::{Bias, BiasedOwnership, OwnerCell, Ownership, Published};
pub use region::{Chain, Posting, Region, Sharer, Sharers};
pub use spec::{FRAME_BYTES_MAX, MemError, RegionSpec};

/// Registers the process for the asymmetric fence (`membarrier(2)`), which makes [`OwnerCell::publish`] cheap. Further calls
/// do nothing.
pub fn prepare() {
    wharf_sys::fence::expedited();
}
