//! The driver's side of a split ring.

use super::super::descriptor::{Descriptor, NEXT, WRITE};
use super::super::ids::Ids;
use super::super::notify::{delayed, needs_event};
use super::super::{DriverRing, Extent, Layout, Options, Place, RingError, Used};
use super::{
    FLAGS_AT, INDEX_AT, VRING_AVAIL_F_NO_INTERRUPT, available_event_at, entries, load, store, used_event_at,
};
use std::sync::atomic::{Ordering, fence};
use wharf_sys::shared::{Pair, Record, Short, Table};

/// Prefetch distance in descriptors: four lines.
const WRITTEN_SOON: u16 = 16;

/// State of a buffer, at its first descriptor; further descriptors only have the next one.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    /// Descriptors that it takes; 0 while it is not with the device.
    descriptors: u16,
    next: u16,
    writable_bytes: u32,
}

/// The driver's side of a split ring. It starts with a ring of zeros.
#[derive(Debug)]
pub struct SplitDriver {
    place: Place,
    available: Table<Short>,
    entries: Table<Pair>,
    options: Options,
    mask: u16,
    free: Ids,
    held: Box<[Held]>,
    outstanding: u16,
    /// Buffers in the order in which they were made available, by index.
    order: Box<[u16]>,
    /// Index of the next available entry to be written.
    next: u16,
    /// The available index as the device may see it.
    published: u16,
    /// The available index when the device's notification request was last read.
    last_signalled: u16,
    /// Index of the next used entry to be read.
    used: u16,
    /// The used index at the last read.
    seen: u16,
    /// A batch that one entry used in order: its last buffer, and the bytes written into that.
    batch: Option<(u32, u32)>,
    /// Buffers with the device into which it may write.
    writable: u16,
    /// True if buffers are used in order and none could be written: up to `seen` the index is the whole
    /// answer.
    by_index: bool,
}

impl SplitDriver {
    /// Works like [`DriverRing::new`], with both indices at `index`: for tests of where they wrap.
    ///
    /// # Errors
    /// The errors of [`DriverRing::new`].
    pub fn beginning_at(place: Place, options: Options, index: u16) -> Result<Self, RingError> {
        let place = place.of_layout(Layout::Split)?;
        place.clear();
        let size = place.size;
        store(&place.driver, INDEX_AT, index);
        store(&place.device, INDEX_AT, index);
        Ok(Self {
            available: entries(&place.driver, size, "driver area")?,
            entries: entries(&place.device, size, "device area")?,
            mask: size - 1,
            free: Ids::new(size),
            held: vec![Held::default(); size.into()].into(),
            outstanding: 0,
            order: vec![0; size.into()].into(),
            next: index,
            published: index,
            last_signalled: index,
            used: index,
            seen: index,
            batch: None,
            writable: 0,
            by_index: false,
            place,
            options,
        })
    }

    /// Prefetches free descriptors that are written soon.
    #[inline(always)]
    fn prefetch(&self, id: u16) {
        if id.is_multiple_of(4) && self.free.len() > WRITTEN_SOON {
            let soon = usize::from((id + WRITTEN_SOON) & self.mask);
            self.place.descriptors.all().get(soon).into_iter().for_each(Record::prefetch_to_write);
        }
    }

    /// Writes descriptor `index`. Each id of `free` is one of the ring's own.
    #[inline(always)]
    fn write(&self, part: &Extent, flags: u16, next_or_id: u16, index: u16) {
        let descriptor = Descriptor { address: part.address, len_bytes: part.len_bytes, flags, next_or_id };
        if let Some(record) = self.place.descriptors.all().get(usize::from(index)) {
            descriptor.write(record);
        }
    }

    /// Writes a chain of `count` descriptors. Returns its first one.
    #[inline(never)]
    fn add_chain(&mut self, readable: &[Extent], writable: &[Extent], count: u16) -> Option<u16> {
        let first = self.free.take()?;
        let parts = readable.iter().map(|part| (part, 0)).chain(writable.iter().map(|part| (part, WRITE)));
        let mut index = first;
        for (at, (part, flags)) in parts.enumerate() {
            let more = at + 1 < usize::from(count);
            let next = if more { self.free.take()? } else { 0 };
            let flags = if more { flags | NEXT } else { flags };
            self.write(part, flags, next, index);
            self.held[usize::from(index)].next = next;
            index = next;
        }
        Some(first)
    }

    /// Returns the next used entry: the buffer's id, and the bytes written into it.
    #[inline]
    fn next_entry(&mut self) -> Result<Option<(u32, u32)>, RingError> {
        if self.used == self.seen {
            // (D)
            let index = u16::from_le(self.place.device.load_u16_acquire(INDEX_AT));
            if index.wrapping_sub(self.used) > self.outstanding {
                return Err(RingError::IndexJump {
                    area: "used",
                    index,
                    last: self.used,
                    size: self.outstanding,
                });
            }
            self.seen = index;
            if index == self.used {
                // A batch that goes beyond the published index.
                return self.batch.map_or(Ok(None), |(id, _)| Err(self.not_held(id)));
            }
            self.by_index = self.options.in_order && self.writable == 0 && self.batch.is_none();
        }
        if self.by_index {
            // Entries are not read: their lines can stay with the device.
            return Ok(Some((self.order[usize::from(self.used & self.mask)].into(), 0)));
        }
        if !self.options.in_order {
            return Ok(Some(self.entry_at(self.used)));
        }
        let (last, written) = self.batch.unwrap_or_else(|| self.entry_at(self.used));
        if self.held(last).is_none_or(|held| held.descriptors == 0) {
            return Err(self.not_held(last));
        }
        // Buffers before the last one of a batch were used, too (section 2.7.9), and written in full.
        let id = u32::from(self.order[usize::from(self.used & self.mask)]);
        self.batch = (id != last).then_some((last, written));
        let in_full = self.held(id).map_or(0, |held| held.writable_bytes);
        Ok(Some((id, if id == last { written } else { in_full })))
    }

    /// Frees a chain's descriptors but the first.
    #[inline(never)]
    fn give_rest(&mut self, first: u16, descriptors: u16) {
        let mut descriptor = first;
        for _ in 1..descriptors {
            descriptor = self.held[usize::from(descriptor)].next;
            self.free.give(descriptor);
        }
    }

    /// Returns the buffer's id, and the bytes written into it, by the device's account.
    #[inline(always)]
    fn entry_at(&self, index: u16) -> (u32, u32) {
        let Some(entry) = self.entries.all().get(usize::from(index & self.mask)) else {
            return (u32::MAX, 0);
        };
        let [id, written_bytes] = entry.load();
        (u32::from_le(id), u32::from_le(written_bytes))
    }

    #[inline(always)]
    fn held(&self, id: u32) -> Option<&Held> {
        self.held.get(id as usize)
    }

    #[cold]
    fn not_held(&self, id: u32) -> RingError {
        RingError::NotHeld { id, size: self.place.size }
    }

    fn event_reached(&self, after: u16) -> bool {
        // (F)
        fence(Ordering::SeqCst);
        load(&self.place.device, INDEX_AT).wrapping_sub(self.used) > after
    }

    fn ask_at(&self, event: u16) {
        if self.options.event_idx {
            store(&self.place.driver, used_event_at(self.place.size), event);
        } else {
            store(&self.place.driver, FLAGS_AT, 0);
        }
    }
}

impl DriverRing for SplitDriver {
    fn new(place: Place, options: Options) -> Result<Self, RingError> {
        Self::beginning_at(place, options, 0)
    }

    fn size(&self) -> u16 {
        self.place.size
    }

    #[inline]
    fn room(&self) -> u16 {
        self.free.len()
    }

    #[inline]
    fn add(&mut self, readable: &[Extent], writable: &[Extent]) -> Option<u16> {
        let count = u16::try_from(readable.len() + writable.len()).ok().filter(|&count| count > 0)?;
        if count > self.free.len() {
            return None;
        }
        let id = if let ([part], []) | ([], [part]) = (readable, writable) {
            let (id, flags) = (self.free.take()?, if writable.is_empty() { 0 } else { WRITE });
            self.prefetch(id);
            self.write(part, flags, 0, id);
            id
        } else {
            self.add_chain(readable, writable, count)?
        };
        let writable_bytes = writable.iter().fold(0u32, |sum, part| sum.saturating_add(part.len_bytes));
        let held = &mut self.held[usize::from(id)];
        (held.descriptors, held.writable_bytes) = (count, writable_bytes);
        let slot = usize::from(self.next & self.mask);
        // With buffers in order the entry is as in the round before: a line that is not written need not
        // travel to the device again.
        let entry = self.available.all().get(slot).filter(|entry| entry.load() != id.to_le());
        if let Some(entry) = entry {
            entry.store(id.to_le());
        }
        self.order[slot] = id;
        self.next = self.next.wrapping_add(1);
        self.outstanding += 1;
        self.writable += u16::from(writable_bytes > 0);
        Some(id)
    }

    #[inline]
    fn publish(&mut self) -> bool {
        if self.next == self.published {
            return false;
        }
        // (A)
        self.place.driver.store_u16_release(INDEX_AT, self.next.to_le());
        self.published = self.next;
        true
    }

    fn needs_kick(&mut self) -> bool {
        // (E)
        fence(Ordering::SeqCst);
        let last_signalled = std::mem::replace(&mut self.last_signalled, self.published);
        if self.options.event_idx {
            let event = load(&self.place.device, available_event_at(self.place.size));
            return needs_event(event, self.published, last_signalled);
        }
        last_signalled != self.published
            && load(&self.place.device, FLAGS_AT) & VRING_AVAIL_F_NO_INTERRUPT == 0
    }

    #[inline]
    fn next_used(&mut self) -> Result<Option<Used>, RingError> {
        let Some((id, written_bytes)) = self.next_entry()? else { return Ok(None) };
        let held = self.held.get_mut(id as usize);
        let held = held.map(|held| (std::mem::take(&mut held.descriptors), held.writable_bytes));
        let Some((descriptors @ 1.., room_bytes)) = held else { return Err(self.not_held(id)) };
        let id = id as u16;
        self.used = self.used.wrapping_add(1);
        self.outstanding -= 1;
        self.writable -= u16::from(room_bytes > 0);
        self.free.give(id);
        if descriptors > 1 {
            self.give_rest(id, descriptors);
        }
        if written_bytes > room_bytes {
            return Err(RingError::Overwritten { id, written_bytes, room_bytes });
        }
        Ok(Some(Used { id, written_bytes }))
    }

    fn enable_notification(&mut self) -> bool {
        self.ask_at(self.used);
        !self.event_reached(0)
    }

    fn enable_notification_delayed(&mut self) -> bool {
        let after = delayed(self.published.wrapping_sub(self.used));
        self.ask_at(self.used.wrapping_add(after));
        !self.event_reached(after)
    }

    fn disable_notification(&mut self) {
        if self.options.event_idx {
            // The farthest position from the device's: passed after 2^16 buffers, and set anew long before.
            store(&self.place.driver, used_event_at(self.place.size), self.used.wrapping_sub(1));
        } else {
            store(&self.place.driver, FLAGS_AT, VRING_AVAIL_F_NO_INTERRUPT);
        }
    }

    fn position(&self) -> u32 {
        load(&self.place.device, INDEX_AT).into()
    }

    #[inline]
    fn outstanding(&self) -> u16 {
        self.outstanding
    }
}
