//! Split virtqueues (virtio 1.2, section 2.7): a table of descriptors, a ring of those available, a ring of
//! those used.

mod device;
mod driver;

pub use device::SplitDevice;
pub use driver::SplitDriver;

use super::RingError;
use super::descriptor::{Descriptor, rest};
use wharf_sys::shared::{Pair, Record, Short, Table, View, Words};

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
        Self::of_split(u64::from_le(address), u64::from_le(rest))
    }

    #[inline(always)]
    fn write(&self, record: &Record) {
        record.store_first(self.address.to_le());
        record.store_second(rest(self.len_bytes, self.flags, self.next_or_id));
    }
}

/// Returns the entries of the available ring, each the first descriptor of a buffer, or of the used ring, which adds the
/// bytes written.
fn entries<W: Words>(view: &View, size: u16, area: &'static str) -> Result<Table<W>, RingError> {
    let entries = view.part(RING_AT, usize::from(size) * size_of::<W>());
    entries.and_then(Table::new).ok_or(RingError::Place { area, align_bytes: align_of::<W>() })
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
