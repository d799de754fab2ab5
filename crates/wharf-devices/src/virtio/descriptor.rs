//! `Descriptor`: one part of a buffer, in a ring of either layout or in an indirect table.

use super::{CHAIN_MAX, Chain, Memory, Options, RingError};

/// The descriptor has a next one.
pub(super) const NEXT: u16 = 1;
/// The device writes it.
pub(super) const WRITE: u16 = 2;
/// It is a table of descriptors.
pub(super) const INDIRECT: u16 = 4;

/// Bytes of a descriptor: an address, then its rest.
pub(super) const DESCRIPTOR_BYTES: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) len_bytes: u32,
    pub(super) flags: u16,
    /// Split: the next descriptor. Packed: the buffer's id.
    pub(super) next_or_id: u16,
}

impl Descriptor {
    /// Takes the words of a split ring's descriptor (section 2.7.5): length, flags and next in the rest.
    #[inline(always)]
    pub(super) fn of_split(address: u64, rest: u64) -> Self {
        let (flags, next_or_id) = ((rest >> 32) as u16, (rest >> 48) as u16);
        Self { address, len_bytes: rest as u32, flags, next_or_id }
    }

    /// Takes the words of a packed ring's descriptor (section 2.8.13): length, id and flags in the rest.
    #[inline(always)]
    pub(super) fn of_packed(address: u64, rest: u64) -> Self {
        let (next_or_id, flags) = ((rest >> 32) as u16, (rest >> 48) as u16);
        Self { address, len_bytes: rest as u32, flags, next_or_id }
    }
}

/// Returns a descriptor's rest, its second word: the length and two halves, in the order of its layout.
#[inline(always)]
pub(super) fn rest(len_bytes: u32, third: u16, last: u16) -> u64 {
    (u64::from(len_bytes) | u64::from(third) << 32 | u64::from(last) << 48).to_le()
}

/// Adds a chain of at most `size` descriptors to `chain`, the first of them `first`; `next` reads the one behind, and
/// `table` adds an indirect table. Returns the last descriptor, and the number of them.
#[inline(always)]
pub(super) fn walk(
    first: Descriptor, size: u16, memory: &Memory, chain: &mut Chain,
    mut next: impl FnMut(&Descriptor) -> Result<Descriptor, RingError>,
    table: impl FnOnce(&Descriptor, &mut Chain) -> Result<(), RingError>,
) -> Result<(Descriptor, u16), RingError> {
    let (mut descriptor, mut count) = (first, 1);
    loop {
        if descriptor.flags & INDIRECT != 0 {
            table(&descriptor, chain)?;
            return Ok((descriptor, count));
        }
        chain.push(memory, &descriptor)?;
        if descriptor.flags & NEXT == 0 {
            return Ok((descriptor, count));
        }
        if count == size {
            return Err(RingError::Loop { max: count });
        }
        count += 1;
        descriptor = next(&descriptor)?;
    }
}

/// A table of descriptors in the driver's memory (sections 2.7.5.3 and 2.8.7).
pub(super) struct IndirectTable {
    address: u64,
    len_bytes: u32,
    /// Number of descriptors.
    pub(super) size: u16,
}

impl IndirectTable {
    /// Takes the table that `named` describes.
    pub(super) fn new(named: &Descriptor, options: Options) -> Result<Self, RingError> {
        let Descriptor { address, len_bytes, flags, .. } = *named;
        if !options.indirect {
            return Err(RingError::NoIndirect);
        }
        if flags & NEXT != 0 {
            return Err(RingError::IndirectNext);
        }
        let is_whole = len_bytes.is_multiple_of(DESCRIPTOR_BYTES as u32);
        match u16::try_from(len_bytes / DESCRIPTOR_BYTES as u32) {
            Ok(size @ 1..=CHAIN_MAX) if is_whole => Ok(Self { address, len_bytes, size }),
            _ => Err(RingError::IndirectLength { len_bytes }),
        }
    }

    /// Adds descriptor `index`, whose words `read` takes, to `chain`, and returns it.
    pub(super) fn push(
        &self, index: u16, memory: &Memory, chain: &mut Chain, read: fn(u64, u64) -> Descriptor,
    ) -> Result<Descriptor, RingError> {
        let fault = RingError::Outside { address: self.address, len_bytes: self.len_bytes };
        let at = self.address.checked_add(u64::from(index) * DESCRIPTOR_BYTES as u64).ok_or(fault)?;
        let mut bytes = [0; DESCRIPTOR_BYTES];
        memory.read(at, &mut bytes, &mut chain.hint)?;
        let words = u128::from_le_bytes(bytes);
        let descriptor = read(words as u64, (words >> 64) as u64);
        if descriptor.flags & INDIRECT != 0 {
            return Err(RingError::NestedIndirect);
        }
        chain.push(memory, &descriptor)?;
        Ok(descriptor)
    }
}
