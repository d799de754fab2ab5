//! Violations of a peer.

use super::Layout;

/// An impossible virtqueue, or a violation of its rules by the peer: the queue is not to be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant says what it is, and what its fields are")]
pub enum RingError {
    /// Invalid size: split rings have a power of two, packed ones any number, from 1 to 32768.
    #[error("a {layout} ring cannot have {size} descriptors: {}", Layout::sizes(*layout))]
    Size { layout: Layout, size: u32 },
    /// An area of the ring is outside the memory, or not aligned.
    #[error("its {area} does not lie within the shared memory, aligned to {align_bytes} bytes")]
    Place { area: &'static str, align_bytes: usize },
    #[error(
        "an in-flight table of version {version} for {found} descriptors: version 1 for {size} is wanted"
    )]
    Inflight { version: u16, found: u16, size: u16 },
    /// Position that a resumed ring does not have.
    #[error("it cannot be resumed at {base:#x}: it has {size} descriptors")]
    Base { base: u32, size: u16 },
    /// An index that moved by more than `size` from `last`, its earlier value or the bound below.
    #[error("{area} index {index} is {} beyond the last one seen, of a ring of {size}", index.wrapping_sub(*last))]
    IndexJump { area: &'static str, index: u16, last: u16, size: u16 },
    #[error("descriptor {index} of a table of {size}")]
    NoDescriptor { index: u16, size: u16 },
    /// A chain longer than the ring: it loops, or claims foreign descriptors.
    #[error("a chain of more than {max} descriptors")]
    Loop { max: u16 },
    #[error("an indirect table inside an indirect table")]
    NestedIndirect,
    #[error("an indirect descriptor with a next one")]
    IndirectNext,
    #[error("an indirect table, which was not negotiated")]
    NoIndirect,
    /// An indirect table with a fraction of a descriptor, none, or too many.
    #[error("an indirect table of {len_bytes} bytes: 1 to {} descriptors of 16 bytes", super::CHAIN_MAX)]
    IndirectLength { len_bytes: u32 },
    #[error("{len_bytes} bytes at {address:#x} do not lie within the shared memory")]
    Outside { address: u64, len_bytes: u32 },
    #[error("a chain of 4 GiB or more")]
    TooLong,
    #[error("a part to be read behind one to be written")]
    Order,
    /// A used buffer that was not given, or was used before.
    #[error("buffer {id} was used, which is not with the device (ring of {size})")]
    NotHeld { id: u32, size: u16 },
    #[error("{written_bytes} bytes written into buffer {id}, which has {room_bytes}")]
    Overwritten { id: u16, written_bytes: u32, room_bytes: u32 },
}
