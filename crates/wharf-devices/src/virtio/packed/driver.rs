//! The driver's side of a packed ring.

use super::super::descriptor::{NEXT, WRITE, rest};
use super::super::ids::Ids;
use super::super::notify::delayed;
use super::super::{DriverRing, Extent, Layout, Options, Place, RingError, Used};
use super::{Cursor, Event, available, turn, used};
use std::sync::atomic::{Ordering, fence};
use wharf_sys::shared::Record;

/// Prefetch distance in descriptors: four lines.
const WRITTEN_SOON: u16 = 16;

/// State of a buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    /// Descriptors that it takes; 0 while it is not with the device.
    descriptors: u16,
    writable_bytes: u32,
}

/// The driver's side of a packed ring. It starts with a ring of zeros.
#[derive(Debug)]
pub struct PackedDriver {
    place: Place,
    options: Options,
    ids: Ids,
    held: Box<[Held]>,
    outstanding: u16,
    /// Buffers by the position of their first descriptor.
    order: Box<[u16]>,
    /// Free descriptors.
    room: u16,
    /// Position of the next available descriptor.
    next: Cursor,
    /// Position of the next used descriptor.
    used: Cursor,
    /// The first descriptor of a batch: its position, and the word that shows it, and with it the batch.
    held_back: Option<(usize, u64)>,
    /// Descriptors added since the device's notification request was last read.
    untold: u16,
    /// A batch that one entry used in order: its last buffer, and the bytes written into that.
    batch: Option<(u16, u32)>,
    driver_event: Event,
    device_event: Event,
}

impl PackedDriver {
    /// Writes a descriptor, which `flags` make available once the batch is published.
    #[inline(always)]
    fn write(&mut self, part: &Extent, id: u16, flags: u16) {
        let (at, descriptors) = (self.next.at(), self.place.descriptors.all());
        // Prefetches free descriptors that are written soon.
        if at.is_multiple_of(4) && self.room > WRITTEN_SOON {
            let soon = self.next.advanced(WRITTEN_SOON, self.place.size);
            descriptors.get(soon.at()).into_iter().for_each(Record::prefetch_to_write);
        }
        let rest = rest(part.len_bytes, id, flags | available(self.next.wrap));
        let descriptor = &descriptors[at];
        descriptor.store_first(part.address.to_le());
        if self.held_back.is_some() {
            // (A), visible once the first one of the batch is.
            descriptor.store_second_release(rest);
        } else {
            self.held_back = Some((at, rest));
        }
        self.next = self.next.advanced(1, self.place.size);
    }

    /// Returns the second word of the next descriptor, if the device has marked it as used.
    #[inline(always)]
    fn used_rest(&self) -> Option<u64> {
        // (D)
        let rest = u64::from_le(self.place.descriptors.all()[self.used.at()].load_second_acquire());
        (turn(rest) == used(self.used.wrap)).then_some(rest)
    }

    /// Returns true if no buffer has come back.
    fn is_quiet(&self) -> bool {
        self.batch.is_none() && (self.outstanding == 0 || self.used_rest().is_none())
    }

    /// Returns the next used descriptor's buffer id, and the bytes written, by the device's account.
    #[inline(always)]
    fn next_entry(&self) -> Option<(u16, u32)> {
        // A ring with no buffer inside may look used: all of it was.
        let rest = if self.outstanding > 0 { self.used_rest()? } else { return None };
        let (written, id, flags) = (rest as u32, (rest >> 32) as u16, (rest >> 48) as u16);
        // Without this flag the length means nothing (section 2.8.4).
        Some((id, if flags & WRITE != 0 { written } else { 0 }))
    }

    /// Returns the next used buffer in order, up to the one that an entry names; the earlier ones were
    /// written in full (section 2.8.8).
    fn next_in_order(&mut self) -> Result<Option<(u16, u32)>, RingError> {
        let Some((last, written)) = self.batch.or_else(|| self.next_entry()) else { return Ok(None) };
        if self.held.get(usize::from(last)).is_none_or(|held| held.descriptors == 0) {
            return Err(self.not_held(last));
        }
        let id = self.order[usize::from(self.used.index)];
        self.batch = (id != last).then_some((last, written));
        Ok(Some((id, if id == last { written } else { self.held[usize::from(id)].writable_bytes })))
    }

    /// Moves on behind a buffer that has come back.
    #[inline(always)]
    fn pass(&mut self, descriptors: u16) {
        // A branch: so the next position does not wait for the load of this buffer's state.
        if descriptors == 1 {
            self.used = self.used.advanced(1, self.place.size);
        } else {
            self.pass_chain(descriptors);
        }
    }

    #[inline(never)]
    fn pass_chain(&mut self, descriptors: u16) {
        self.used = self.used.advanced(descriptors, self.place.size);
    }

    #[cold]
    fn not_held(&self, id: u16) -> RingError {
        RingError::NotHeld { id: id.into(), size: self.place.size }
    }

    fn ask_at(&self, cursor: Cursor) {
        if self.options.event_idx {
            self.driver_event.ask_at(cursor);
        } else {
            self.driver_event.ask();
        }
        // (F)
        fence(Ordering::SeqCst);
    }
}

impl DriverRing for PackedDriver {
    fn new(place: Place, options: Options) -> Result<Self, RingError> {
        let place = place.of_layout(Layout::Packed)?;
        place.clear();
        let size = place.size;
        Ok(Self {
            ids: Ids::new(size),
            held: vec![Held::default(); size.into()].into(),
            outstanding: 0,
            order: vec![0; size.into()].into(),
            room: size,
            next: Cursor::START,
            used: Cursor::START,
            held_back: None,
            untold: 0,
            batch: None,
            driver_event: Event(place.driver.clone()),
            device_event: Event(place.device.clone()),
            place,
            options,
        })
    }

    fn size(&self) -> u16 {
        self.place.size
    }

    #[inline]
    fn room(&self) -> u16 {
        self.room
    }

    #[inline]
    fn add(&mut self, readable: &[Extent], writable: &[Extent]) -> Option<u16> {
        let count = u16::try_from(readable.len() + writable.len()).ok().filter(|&count| count > 0)?;
        if count > self.room {
            return None;
        }
        let id = self.ids.take()?;
        self.order[usize::from(self.next.index)] = id;
        let mut left = count;
        for (parts, flags) in [(readable, 0), (writable, WRITE)] {
            for part in parts {
                left -= 1;
                self.write(part, id, if left > 0 { flags | NEXT } else { flags });
            }
        }
        let writable_bytes = writable.iter().fold(0u32, |sum, part| sum.saturating_add(part.len_bytes));
        self.held[usize::from(id)] = Held { descriptors: count, writable_bytes };
        self.room -= count;
        self.outstanding += 1;
        self.untold = self.untold.saturating_add(count);
        Some(id)
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some((at, rest)) = self.held_back.take() else { return false };
        // (A)
        self.place.descriptors.all()[at].store_second_release(rest);
        true
    }

    fn needs_kick(&mut self) -> bool {
        // (E)
        fence(Ordering::SeqCst);
        self.device_event.wants(self.next, std::mem::take(&mut self.untold), self.place.size)
    }

    #[inline]
    fn next_used(&mut self) -> Result<Option<Used>, RingError> {
        let next = if self.options.in_order { self.next_in_order()? } else { self.next_entry() };
        let Some((id, written_bytes)) = next else { return Ok(None) };
        let held = self.held.get_mut(usize::from(id)).map(std::mem::take);
        let Some(Held { descriptors: descriptors @ 1.., writable_bytes }) = held else {
            return Err(self.not_held(id));
        };
        self.pass(descriptors);
        self.room += descriptors;
        self.outstanding -= 1;
        self.ids.give(id);
        if written_bytes > writable_bytes {
            return Err(RingError::Overwritten { id, written_bytes, room_bytes: writable_bytes });
        }
        Ok(Some(Used { id, written_bytes }))
    }

    fn enable_notification(&mut self) -> bool {
        self.ask_at(self.used);
        self.is_quiet()
    }

    fn enable_notification_delayed(&mut self) -> bool {
        let size = self.place.size;
        let after = self.used.advanced(delayed(size - self.room), size);
        self.ask_at(after);
        self.is_quiet()
    }

    fn disable_notification(&mut self) {
        self.driver_event.ask_not();
    }

    fn position(&self) -> u32 {
        let (mut at, mut named) = (self.used, self.batch.map(|batch| batch.0));
        for _ in 0..self.outstanding {
            let rest = u64::from_le(self.place.descriptors.all()[at.at()].load_second_acquire());
            let shown = (turn(rest) == used(at.wrap)).then_some((rest >> 32) as u16);
            let Some(last) = named.or(shown) else { break };
            // An entry that names a buffer stands for those before it, too, if they are used in order.
            let id = if self.options.in_order { self.order[at.at()] } else { last };
            named = (id != last).then_some(last);
            let descriptors = self.held.get(usize::from(id)).map_or(0, |held| held.descriptors);
            at = at.advanced(descriptors, self.place.size);
        }
        u32::from(at.bits()) | u32::from(at.bits()) << 16
    }

    #[inline]
    fn outstanding(&self) -> u16 {
        self.outstanding
    }
}
