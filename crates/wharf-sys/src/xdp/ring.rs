//! The rings: one side produces entries, the other consumes them. Indices count up and wrap at 2^32; an
//! entry's place is its index modulo the ring's size.
//!
//! - A [`Producer`] puts entries (no more than it has `room` for), then publishes all of them. (A) Release
//!   pairs with (B), Acquire in [`Consumer::ready`]: entries are written before they are seen.
//! - A [`Consumer`] takes entries, then releases their places. (C) Release pairs with (D), Acquire in
//!   [`Producer::room`]: entries are read before they are written again.
//!
//! The other side is the kernel; in tests, it is the other one of these two types over the same [`Shared`].

use super::abi::Descriptor;
use crate::call::Pages;
use libc::XDP_RING_NEED_WAKEUP;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of a ring: plain numbers, of which any bits are valid.
pub trait Entry: Copy + private::Sealed {}

mod private {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Descriptor {}
}

/// An address, in fill and completion rings.
impl Entry for u64 {}
impl Entry for Descriptor {}

/// A ring, before it becomes a producer or a consumer.
#[derive(Debug)]
pub struct Shared<T> {
    /// Its words are accessed as atomics, its entries read and written whole: the other end may write at any time.
    pages: Arc<Pages>,
    producer_at: usize,
    consumer_at: usize,
    flags_at: usize,
    entries_at: usize,
    entries: u32,
    of: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { pages: self.pages.clone(), of: PhantomData, ..*self }
    }
}

/// In own memory: a cache line for each word.
const OWN_OFFSETS: libc::xdp_ring_offset =
    libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };

impl<T: Entry> Shared<T> {
    /// Makes a ring of `entries` entries, a power of two, that are in `pages` at `offsets`.
    pub(super) fn new(pages: Pages, offsets: &libc::xdp_ring_offset, entries: u32) -> io::Result<Self> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let shared = Self {
            pages: Arc::new(pages),
            producer_at: place(offsets.producer),
            consumer_at: place(offsets.consumer),
            flags_at: place(offsets.flags),
            entries_at: place(offsets.desc),
            entries,
            of: PhantomData,
        };
        let fits = |at: usize, len: usize, align: usize| {
            at.is_multiple_of(align) && at.checked_add(len).is_some_and(|end| end <= shared.pages.len_bytes())
        };
        let words = [shared.producer_at, shared.consumer_at, shared.flags_at];
        let all_fit = entries.is_power_of_two()
            && words.iter().all(|&at| fits(at, 4, 4))
            && fits(shared.entries_at, entries as usize * size_of::<T>(), align_of::<T>());
        if all_fit { Ok(shared) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }

    /// Makes a ring in anonymous memory, its indices at `start`, for tests: both a [`Producer`] and a
    /// [`Consumer`] of it can be made.
    ///
    /// # Errors
    /// `EINVAL` unless `entries` is a power of two; those of `mmap(2)`.
    pub fn own(entries: u32, start: u32) -> io::Result<Self> {
        let pages = own_pages(OWN_OFFSETS.desc as usize + entries as usize * size_of::<T>())?;
        let shared = Self::new(pages, &OWN_OFFSETS, entries)?;
        shared.pages.word(shared.producer_at).store(start, Relaxed);
        shared.pages.word(shared.consumer_at).store(start, Relaxed);
        Ok(shared)
    }

    /// Sets the kernel's flag `XDP_RING_NEED_WAKEUP`, in its place.
    pub fn set_needs_wakeup(&self, needs: bool) {
        let flags = if needs { XDP_RING_NEED_WAKEUP } else { 0 };
        self.pages.word(self.flags_at).store(flags, Relaxed);
    }

    #[inline(always)]
    fn place(&self, index: u32) -> usize {
        self.entries_at + (index & (self.entries - 1)) as usize * size_of::<T>()
    }

    /// Reads the entry of index `index`, once: what is checked is what is used, whatever the other end writes.
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        let place = self.pages.place(self.place(index), size_of::<T>()).cast::<T>();
        // SAFETY: inside the mapping, and aligned: `new` has checked where the entries begin. Entries are plain numbers, for
        // which any bits are valid.
        unsafe { place.as_ptr().read_volatile() }
    }

    #[inline(always)]
    fn write(&self, index: u32, entry: T) {
        let place = self.pages.place(self.place(index), size_of::<T>()).cast::<T>();
        // SAFETY: as in `read`. There are no references to entries.
        unsafe { place.as_ptr().write_volatile(entry) }
    }
}

/// Maps zeroed memory of this process.
fn own_pages(len_bytes: usize) -> io::Result<Pages> {
    Pages::map(None, 0, len_bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

/// The side that writes entries.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Shared<T>,
    /// The next entry to be written.
    next: u32,
    /// The consumer's index, when it was last read.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    /// Goes on where the ring stands.
    pub fn new(ring: Shared<T>) -> Self {
        let next = ring.pages.word(ring.producer_at).load(Relaxed);
        let taken = ring.pages.word(ring.consumer_at).load(Acquire);
        Self { ring, next, taken }
    }

    /// Returns the number of entries of the ring.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.ring.entries
    }

    /// Returns the number of entries that may be put now: 0 if the consumer claims to have taken entries that
    /// were never put.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.taken = self.taken();
        self.room_at_hand()
    }

    #[inline]
    fn room_at_hand(&self) -> u32 {
        self.ring.entries.saturating_sub(self.next.wrapping_sub(self.taken))
    }

    /// Writes an entry; returns false, and writes nothing, if the ring is full. The consumer sees it once it
    /// is published.
    #[inline]
    pub fn put(&mut self, entry: T) -> bool {
        if self.room_at_hand() == 0 && self.room() == 0 {
            return false;
        }
        self.ring.write(self.next, entry);
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Writes entries, as many as there are and there is room for. [`Producer::next`] tells their number.
    #[inline(always)]
    pub fn put_all(&mut self, entries: impl Iterator<Item = T>) {
        let room = self.room_at_hand() as usize;
        // A local copy: for all that the compiler knows, a write to an entry may change the index.
        let mut next = self.next;
        for entry in entries.take(room) {
            self.ring.write(next, entry);
            next = next.wrapping_add(1);
        }
        self.next = next;
    }

    /// Shows the consumer all entries that were put.
    #[inline]
    pub fn publish(&self) {
        // (A)
        self.ring.pages.word(self.ring.producer_at).store(self.next, Release);
    }

    /// Returns the index of the next entry.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Returns the index of the first entry that the consumer has not taken, as it claims.
    #[inline]
    pub fn taken(&self) -> u32 {
        // (D)
        self.ring.pages.word(self.ring.consumer_at).load(Acquire)
    }

    /// Returns the number of entries that the consumer has not taken.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.next.wrapping_sub(self.taken())
    }

    /// Returns the entry of index `index`, as it was put, unless it was overwritten since.
    pub fn entry(&self, index: u32) -> T {
        self.ring.read(index)
    }

    /// True if the kernel looks at the ring only when it is called.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.ring.pages.word(self.ring.flags_at).load(Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }
}

/// The side that reads entries.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Shared<T>,
    /// The next entry to be read.
    next: u32,
    /// The producer's index, when it was last read.
    published: u32,
}

impl<T: Entry> Consumer<T> {
    /// Goes on where the ring stands.
    pub fn new(ring: Shared<T>) -> Self {
        let next = ring.pages.word(ring.consumer_at).load(Relaxed);
        Self { ring, next, published: next }
    }

    /// Returns the number of entries that may be taken: never more than the ring has, whatever the producer
    /// claims.
    #[inline]
    pub fn ready(&mut self) -> u32 {
        // (B)
        self.published = self.ring.pages.word(self.ring.producer_at).load(Acquire);
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
        let entry = self.ring.read(self.next);
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Reads entries until there are none left, or `each` returns false.
    #[inline(always)]
    pub fn take_while(&mut self, mut each: impl FnMut(T) -> bool) {
        let mut goes_on = true;
        while goes_on && self.ready() > 0 {
            let (mut next, end) = (self.next, self.next.wrapping_add(self.at_hand()));
            while goes_on && next != end {
                goes_on = each(self.ring.read(next));
                next = next.wrapping_add(1);
            }
            self.next = next;
        }
    }

    /// Gives the places of taken entries back.
    #[inline]
    pub fn release(&self) {
        // (C)
        self.ring.pages.word(self.ring.consumer_at).store(self.next, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_beyond_its_memory_is_an_error() {
        let offsets = OWN_OFFSETS;
        let fault = |len_bytes, offsets, entries| {
            let made = Shared::<Descriptor>::new(own_pages(len_bytes).unwrap(), &offsets, entries);
            made.unwrap_err().raw_os_error()
        };
        assert!(Shared::<Descriptor>::new(own_pages(192 + 64).unwrap(), &offsets, 4).is_ok());
        assert_eq!(fault(192 + 63, offsets, 4), Some(libc::EINVAL));
        assert_eq!(fault(4096, offsets, 3), Some(libc::EINVAL));
        assert_eq!(fault(4096, offsets, 0), Some(libc::EINVAL));
        assert_eq!(fault(4096, libc::xdp_ring_offset { flags: 4093, ..offsets }, 4), Some(libc::EINVAL));
        assert_eq!(fault(4096, libc::xdp_ring_offset { desc: 196, ..offsets }, 4), Some(libc::EINVAL));
        assert_eq!(
            fault(4096, libc::xdp_ring_offset { consumer: u64::MAX - 3, ..offsets }, 4),
            Some(libc::EINVAL)
        );
    }
}
