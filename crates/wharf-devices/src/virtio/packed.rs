//! Packed virtqueues (virtio 1.2, section 2.8): one ring of descriptors. The driver makes buffers available
//! in it, and the device marks them as used in place.

mod device;
mod driver;
mod plain;
mod resume;

pub use device::PackedDevice;
pub use driver::PackedDriver;

use super::inflight::Position;
use super::notify::needs_event;
use wharf_sys::shared::View;

/// Flags, besides those of split rings.
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// The side that has a descriptor, by the flags of its second word.
#[inline(always)]
fn turn(rest: u64) -> u16 {
    (rest >> 48) as u16 & (AVAILABLE | USED)
}

/// Returns the flags of a buffer that is made available on a round with this wrap counter (section 2.8.1).
#[inline(always)]
fn available(wrap: bool) -> u16 {
    if wrap { AVAILABLE } else { USED }
}

/// Returns the flags of a buffer that is used on such a round.
#[inline(always)]
fn used(wrap: bool) -> u16 {
    if wrap { AVAILABLE | USED } else { 0 }
}

/// A position in the ring, with its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    index: u16,
    wrap: bool,
}

impl Cursor {
    const START: Cursor = Cursor { index: 0, wrap: true };
    const WRAP: u16 = 1 << 15;

    #[inline(always)]
    fn advanced(self, count: u16, size: u16) -> Self {
        let index = u32::from(self.index) + u32::from(count);
        match index.checked_sub(size.into()) {
            Some(index) => Self { index: index as u16, wrap: !self.wrap },
            None => Self { index: index as u16, wrap: self.wrap },
        }
    }

    /// Returns the position `count` before this one.
    fn back(self, count: u16, size: u16) -> Self {
        match self.index.checked_sub(count) {
            Some(index) => Self { index, wrap: self.wrap },
            None => Self { index: self.index + (size - count), wrap: !self.wrap },
        }
    }

    fn bits(self) -> u16 {
        self.index | if self.wrap { Self::WRAP } else { 0 }
    }

    fn of_bits(bits: u16) -> Self {
        Self { index: bits & !Self::WRAP, wrap: bits & Self::WRAP != 0 }
    }

    #[inline(always)]
    fn position(self) -> Position {
        (self.index, self.wrap)
    }

    #[inline(always)]
    fn at(self) -> usize {
        self.index.into()
    }
}

/// A side's notification request (section 2.8.14): two words.
#[derive(Debug, Clone)]
struct Event(View);

/// Value of [`Event`]'s second word.
const TELL: u16 = 0;
const RING_EVENT_FLAGS_DISABLE: u16 = 1;
const TELL_AT: u16 = 2;

impl Event {
    /// Asks for every notification.
    fn ask(&self) {
        self.0.store_u16(2, TELL.to_le());
    }

    fn ask_at(&self, cursor: Cursor) {
        self.0.store_u16(0, cursor.bits().to_le());
        self.0.store_u16_release(2, TELL_AT.to_le());
    }

    fn ask_not(&self) {
        self.0.store_u16(2, RING_EVENT_FLAGS_DISABLE.to_le());
    }

    /// Returns true if a notification is needed for `count` descriptors before `now`, in a ring of `size`.
    fn wants(&self, now: Cursor, count: u16, size: u16) -> bool {
        match u16::from_le(self.0.load_u16_acquire(2)) {
            _ if count == 0 => false,
            RING_EVENT_FLAGS_DISABLE => false,
            TELL_AT if count < size => {
                let event = Cursor::of_bits(u16::from_le(self.0.load_u16(0)));
                // A position of the round before is as far behind the beginning of this one.
                let behind = if event.wrap == now.wrap { 0 } else { size };
                needs_event(event.index.wrapping_sub(behind), now.index, now.index.wrapping_sub(count))
            }
            _ => true,
        }
    }
}
