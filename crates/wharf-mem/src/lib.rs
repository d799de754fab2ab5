//! Frames and the memory under them: whatever makes *one owner per buffer* true.
//!
//! A [`Frame`] is the owned name of one buffer, 8 bytes, and cannot be copied. [`Region`] turns free
//! buffers ([`FreeFrame`]) into frames and back and gives access to their bytes. Frames travel in
//! [`Batch`]es, through [`lane`]s from a sender to the owner of a queue, and go home as free buffers through
//! [`return_ring`] rings, or lie on a [`shelf`] for another thread, or in a [`FreeList`]. [`OwnerCell`] lets one thread at a
//! time at a queue's inside.
//!
//! Unsafe code lives in `region/bytes.rs` (bytes of a frame) and `share.rs` (ring slots, the inside of an owner's cell),
//! nowhere else. Nothing here knows a protocol, a device or a policy.
#![deny(unsafe_code)]

pub mod batch;
pub mod frame;
pub mod free_list;
pub mod lane;
pub mod list;
pub mod meta;
mod number;
mod owner_cell;
pub mod region;
pub mod return_ring;
mod ring;
#[allow(unsafe_code, reason = "ring slots and the inside of an owner's cell: one of the two files that may")]
mod share;
pub mod shelf;
mod spec;
mod sync;
pub mod word;

pub use batch::Batch;
pub use frame::{Frame, FreeFrame};
pub use free_list::{FreeList, Links};
pub use list::FrameList;
pub use meta::Meta;
pub use owner_cell::{Bias, Entered, OwnerCell, Ownership, Published};
pub use region::{Chain, Region};
pub use spec::{MemError, RegionSpec};

/// Makes ready what is cheap only after some preparation (the asymmetric fence). Calling it again does nothing.
pub fn prepare() {
    wharf_sys::fence::expedited();
}
