//! The rings: one side produces entries, the other consumes them. Indices run free and wrap at 2^32; an entry's place is
//! its index modulo the ring.
//!
//! [`Producer`]: `put` entries (no more than there is `room` for), then `publish` all of them: (A) Release, pairs with
//! (B) Acquire in [`Consumer::ready`]: entries are written before they are seen.
//! [`Consumer`]: `take` entries, then `release` their places: (C) Release, pairs with (D) Acquire in [`Producer::room`]:
//! entries are read before they are written again.
//!
//! The other side may be the kernel, or another type of these two over the same [`Shared`]: that is how tests stand in
//! for it.

use super::abi::{Descriptor, RingOffsets, XDP_RING_NEED_WAKEUP};
use super::area::Area;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a ring is made of.
pub trait Entry: Copy + private::Sealed {}

mod private {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Descriptor {}
}

/// An address, in fill and completion rings.
impl Entry for u64 {}
impl Entry for Descriptor {}

/// A ring, before it is said which side of it we are.
#[derive(Debug)]
pub struct Shared<T> {
    area: Arc<Area>,
    producer_at: usize,
    consumer_at: usize,
    flags_at: usize,
    entries_at: usize,
    entries: u32,
    of: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { area: self.area.clone(), of: PhantomData, ..*self }
    }
}

const LINE_BYTES: usize = 64;

impl<T: Entry> Shared<T> {
    /// Of `entries` entries, a power of two, that lie in `area` as `offsets` say.
    pub(super) fn new(area: Area, offsets: &RingOffsets, entries: u32) -> io::Result<Self> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let shared = Self {
            area: Arc::new(area),
            producer_at: place(offsets.producer),
            consumer_at: place(offsets.consumer),
            flags_at: place(offsets.flags),
            entries_at: place(offsets.entries),
            entries,
            of: PhantomData,
        };
        let fits = |at: usize, len: usize, align: usize| {
            at.is_multiple_of(align) && at.checked_add(len).is_some_and(|end| end <= shared.area.len_bytes())
        };
        let words = [shared.producer_at, shared.consumer_at, shared.flags_at];
        let all_fit = entries.is_power_of_two()
            && words.iter().all(|&at| fits(at, 4, 4))
            && fits(shared.entries_at, entries as usize * size_of::<T>(), align_of::<T>());
        if all_fit { Ok(shared) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }

    /// A ring in memory of our own, its indices at `start`, for tests: make both a [`Producer`] and a [`Consumer`] of it.
    ///
    /// # Errors
    /// EINVAL unless `entries` is a power of two; the system has no memory.
    pub fn own(entries: u32, start: u32) -> io::Result<Self> {
        let offsets = RingOffsets {
            producer: 0,
            consumer: LINE_BYTES as u64,
            flags: 2 * LINE_BYTES as u64,
            entries: 3 * LINE_BYTES as u64,
        };
        let area = Area::own(3 * LINE_BYTES + entries as usize * size_of::<T>())?;
        let shared = Self::new(area, &offsets, entries)?;
        shared.area.word(shared.producer_at).store(start, Relaxed);
        shared.area.word(shared.consumer_at).store(start, Relaxed);
        Ok(shared)
    }

    /// Says, on behalf of the kernel, whether it looks only when it is called.
    pub fn set_needs_wakeup(&self, needs: bool) {
        let flags = if needs { XDP_RING_NEED_WAKEUP } else { 0 };
        self.area.word(self.flags_at).store(flags, Relaxed);
    }

    #[inline(always)]
    fn place(&self, index: u32) -> usize {
        self.entries_at + (index & (self.entries - 1)) as usize * size_of::<T>()
    }
}

/// The side that writes entries.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Shared<T>,
    /// The next entry to be written.
    next: u32,
    /// What the other side had taken when we last looked.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    /// Goes on where the ring stands.
    pub fn new(ring: Shared<T>) -> Self {
        let next = ring.area.word(ring.producer_at).load(Relaxed);
        let taken = ring.area.word(ring.consumer_at).load(Acquire);
        Self { ring, next, taken }
    }

    /// Entries that there are.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.ring.entries
    }

    /// Entries that may be put now. A side that claims to have taken what was never put gets nothing more.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.taken = self.taken();
        self.room_at_hand()
    }

    #[inline]
    fn room_at_hand(&self) -> u32 {
        self.ring.entries.saturating_sub(self.next.wrapping_sub(self.taken))
    }

    /// Writes an entry; false, and nothing, when the ring is full. The other side sees it once it is published.
    #[inline]
    pub fn put(&mut self, entry: T) -> bool {
        if self.room_at_hand() == 0 && self.room() == 0 {
            return false;
        }
        self.ring.area.write(self.ring.place(self.next), entry);
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Writes entries, as many as there are and there is room for, of which the index of the next one tells.
    #[inline(always)]
    pub fn put_all(&mut self, entries: impl Iterator<Item = T>) {
        let room = self.room_at_hand() as usize;
        // What is written may be anywhere, for all that the compiler knows: the index stays at hand meanwhile.
        let mut next = self.next;
        for entry in entries.take(room) {
            self.ring.area.write(self.ring.place(next), entry);
            next = next.wrapping_add(1);
        }
        self.next = next;
    }

    /// Shows the other side all that was put.
    #[inline]
    pub fn publish(&self) {
        // (A)
        self.ring.area.word(self.ring.producer_at).store(self.next, Release);
    }

    /// The index of the next entry.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// The index of the first entry that the other side has not taken, as far as it says.
    #[inline]
    pub fn taken(&self) -> u32 {
        // (D)
        self.ring.area.word(self.ring.consumer_at).load(Acquire)
    }

    /// Entries put that the other side has not taken.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.next.wrapping_sub(self.taken())
    }

    /// The entry of index `index`, as it was put, while the ring has not gone round since.
    pub fn entry(&self, index: u32) -> T {
        self.ring.area.read(self.ring.place(index))
    }

    /// Whether the other side looks at the ring only when it is called.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.ring.area.word(self.ring.flags_at).load(Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }
}

/// The side that reads entries.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Shared<T>,
    /// The next entry to be read.
    next: u32,
    /// What the other side had published when we last looked.
    published: u32,
}

impl<T: Entry> Consumer<T> {
    /// Goes on where the ring stands.
    pub fn new(ring: Shared<T>) -> Self {
        let next = ring.area.word(ring.consumer_at).load(Relaxed);
        Self { ring, next, published: next }
    }

    /// Entries to be taken; never more than the ring has, whatever the other side says.
    #[inline]
    pub fn ready(&mut self) -> u32 {
        // (B)
        self.published = self.ring.area.word(self.ring.producer_at).load(Acquire);
        self.at_hand()
    }

    #[inline]
    fn at_hand(&self) -> u32 {
        self.published.wrapping_sub(self.next).min(self.ring.entries)
    }

    /// Reads the next entry, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        if self.at_hand() == 0 && self.ready() == 0 {
            return None;
        }
        let entry = self.ring.area.read(self.ring.place(self.next));
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Reads entries until there are none left, or `each` wants no more.
    #[inline(always)]
    pub fn take_while(&mut self, mut each: impl FnMut(T) -> bool) {
        let mut goes_on = true;
        while goes_on && self.ready() > 0 {
            let (mut next, end) = (self.next, self.next.wrapping_add(self.at_hand()));
            while goes_on && next != end {
                goes_on = each(self.ring.area.read(self.ring.place(next)));
                next = next.wrapping_add(1);
            }
            self.next = next;
        }
    }

    /// Gives the places of what was taken back.
    #[inline]
    pub fn release(&self) {
        // (C)
        self.ring.area.word(self.ring.consumer_at).store(self.next, Release);
    }
}

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
