//! What a peer can do wrong.

use super::Layout;

/// A virtqueue that cannot be, or a peer that breaks its rules: the queue is not to be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// No such size: split rings have a power of two, packed ones any number, from 1 to 32768.
    #[error("a {layout} ring cannot have {size} descriptors: {}", Layout::sizes(*layout))]
    Size {
        /// Of the ring.
        layout: Layout,
        /// What it was to have.
        size: u32,
    },
    /// A part of the ring does not lie within the memory, or not aligned.
    #[error("its {area} does not lie within the shared memory, aligned to {align_bytes} bytes")]
    Place {
        /// Which: descriptor, driver, device area.
        area: &'static str,
        /// How it is to be aligned.
        align_bytes: usize,
    },
    /// A ring to be resumed at a place that it does not have.
    #[error("it cannot be resumed at {base:#x}: it has {size} descriptors")]
    Base {
        /// The place.
        base: u32,
        /// Of the ring.
        size: u16,
    },
    /// An index that has moved by more than the ring has.
    #[error("{area} index {index} is {} beyond the last one seen, of a ring of {size}", index.wrapping_sub(*last))]
    IndexJump {
        /// Which index.
        area: &'static str,
        /// What it says.
        index: u16,
        /// What it said, or may not fall behind.
        last: u16,
        /// Most that it may have moved by.
        size: u16,
    },
    /// A descriptor that the ring does not have.
    #[error("descriptor {index} of a table of {size}")]
    NoDescriptor {
        /// Which.
        index: u16,
        /// How many there are.
        size: u16,
    },
    /// A chain longer than the ring: it comes back to itself, or claims what is not its own.
    #[error("a chain of more than {max} descriptors")]
    Loop {
        /// Most that there can be.
        max: u16,
    },
    /// An indirect table inside an indirect table.
    #[error("an indirect table inside an indirect table")]
    NestedIndirect,
    /// An indirect descriptor that has a next one.
    #[error("an indirect descriptor with a next one")]
    IndirectNext,
    /// An indirect table where that was not agreed upon.
    #[error("an indirect table, which was not negotiated")]
    NoIndirect,
    /// An indirect table of no whole number of descriptors, none, or too many.
    #[error("an indirect table of {len_bytes} bytes: 1 to {} descriptors of 16 bytes", super::INDIRECT_MAX)]
    IndirectLength {
        /// Its length.
        len_bytes: u32,
    },
    /// Bytes that do not lie within the shared memory.
    #[error("{len_bytes} bytes at {address:#x} do not lie within the shared memory")]
    Outside {
        /// Where they begin.
        address: u64,
        /// How many.
        len_bytes: u32,
    },
    /// A chain of 4 GiB or more.
    #[error("a chain of 4 GiB or more")]
    TooLong,
    /// A part to be read behind one to be written.
    #[error("a part to be read behind one to be written")]
    Order,
    /// A buffer was used that was not given, or was used before.
    #[error("buffer {id} was used, which is not with the device (ring of {size})")]
    NotHeld {
        /// What the ring says.
        id: u32,
        /// Buffers that there can be.
        size: u16,
    },
    /// More written into a buffer than it has.
    #[error("{written_bytes} bytes written into buffer {id}, which has {room_bytes}")]
    Overwritten {
        /// Which buffer.
        id: u16,
        /// What the ring says.
        written_bytes: u32,
        /// What there was room for.
        room_bytes: u32,
    },
}
