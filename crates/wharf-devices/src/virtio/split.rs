//! Split virtqueues (virtio 1.2, section 2.7): a table of descriptors, a ring of those available, a ring of
//! those used.

mod device;
mod driver;

pub use device::SplitDevice;
pub use driver::SplitDriver;

use super::{INDIRECT_MAX, Place, RingError};
use wharf_sys::shared::{Pair, Record, Short, Table, View};

/// Section 2.7.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) len_bytes: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

const _: () = assert!(size_of::<Descriptor>() == DESCRIPTOR_BYTES && align_of::<Descriptor>() == 8);
const _: () =
    assert!(std::mem::offset_of!(Descriptor, flags) == 12 && std::mem::offset_of!(Descriptor, next) == 14);

pub(super) const DESCRIPTOR_BYTES: usize = 16;
/// The descriptor has a next one.
pub(super) const NEXT: u16 = 1;
/// The device writes it.
pub(super) const WRITE: u16 = 2;
/// It is a table of descriptors.
pub(super) const INDIRECT: u16 = 4;

/// Offsets of flags, index and entries in the available ring (section 2.7.6) and the used ring (section
/// 2.7.8).
const FLAGS_AT: usize = 0;
const INDEX_AT: usize = 2;
const RING_AT: usize = 4;
const AVAILABLE_BYTES: usize = size_of::<Short>();
const USED_BYTES: usize = size_of::<Pair>();
/// Flag of either ring: the other side need not notify.
const VRING_AVAIL_F_NO_INTERRUPT: u16 = 1;

impl Descriptor {
    /// Reads each word once: later writes of the peer are not seen.
    #[inline(always)]
    fn read(record: &Record) -> Self {
        let [address, rest] = record.load();
        Self::of_words(u64::from_le(address), u64::from_le(rest))
    }

    pub(super) fn of_bytes(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        let [address, rest] = bytes.as_chunks::<8>().0 else { return Self::of_words(0, 0) };
        Self::of_words(u64::from_le_bytes(*address), u64::from_le_bytes(*rest))
    }

    #[inline(always)]
    fn of_words(address: u64, rest: u64) -> Self {
        Self { address, len_bytes: rest as u32, flags: (rest >> 32) as u16, next: (rest >> 48) as u16 }
    }

    #[inline(always)]
    pub(super) fn words(&self) -> [u64; 2] {
        let rest = u64::from(self.len_bytes) | u64::from(self.flags) << 32 | u64::from(self.next) << 48;
        [self.address, rest]
    }

    #[inline(always)]
    fn write(&self, record: &Record) {
        let [address, rest] = self.words();
        record.store_first(address.to_le());
        record.store_second(rest.to_le());
    }
}

/// Returns the number of descriptors in a table of `bytes`.
pub(super) fn table_size(len_bytes: u32) -> Result<u16, RingError> {
    let whole = len_bytes.is_multiple_of(DESCRIPTOR_BYTES as u32);
    let size = u16::try_from(len_bytes / DESCRIPTOR_BYTES as u32).unwrap_or(u16::MAX);
    match whole && (1..=INDIRECT_MAX).contains(&size) {
        true => Ok(size),
        false => Err(RingError::IndirectLength { len_bytes }),
    }
}

/// Returns the entries of the available ring: the first descriptor of each buffer.
fn available_entries(place: &Place) -> Result<Table<Short>, RingError> {
    let fault = RingError::Place { area: "driver area", align_bytes: AVAILABLE_BYTES };
    let entries = place.driver.part(RING_AT, usize::from(place.size) * AVAILABLE_BYTES);
    entries.and_then(Table::new).ok_or(fault)
}

/// Returns the entries of the used ring: the first descriptor of each buffer, and the bytes written.
fn used_entries(place: &Place) -> Result<Table<Pair>, RingError> {
    let fault = RingError::Place { area: "device area", align_bytes: align_of::<Pair>() };
    let entries = place.device.part(RING_AT, usize::from(place.size) * USED_BYTES);
    entries.and_then(Table::new).ok_or(fault)
}

/// Returns the offset behind the available ring's entries: the index at which the driver wants a
/// notification.
fn used_event_at(size: u16) -> usize {
    RING_AT + usize::from(size) * AVAILABLE_BYTES
}

/// Returns the offset behind the used ring's entries: the index at which the device wants a notification.
fn available_event_at(size: u16) -> usize {
    RING_AT + usize::from(size) * USED_BYTES
}

#[inline(always)]
fn load(view: &View, at: usize) -> u16 {
    u16::from_le(view.load_u16(at))
}

#[inline(always)]
fn store(view: &View, at: usize, value: u16) {
    view.store_u16(at, value.to_le());
}
