//! `Table`: equal records of atomic words in shared memory. Place and alignment are checked once, the index
//! at each access.

use super::View;
use crate::cache_line::{prefetch, prefetch_to_write};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A record of two words of 8 bytes.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Record([AtomicU64; 2]);

/// A record of two words of 4 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Pair([AtomicU32; 2]);

/// A record of one word of 2 bytes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Short(AtomicU16);

const _: () = assert!(size_of::<Record>() == Record::BYTES && align_of::<Record>() == 16);
const _: () = assert!(size_of::<Pair>() == 8 && align_of::<Pair>() == 4);
const _: () = assert!(size_of::<Short>() == 2 && align_of::<Short>() == 2);

/// Types that a table may consist of: atomic words without padding. Any bits are a valid value.
pub trait Words: sealed::Sealed {}

impl<W: sealed::Sealed> Words for W {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Record {}
    impl Sealed for super::Pair {}
    impl Sealed for super::Short {}
}

/// All of a [`View`] as records.
#[derive(Debug)]
pub struct Table<W> {
    view: View,
    count: usize,
    of: PhantomData<W>,
}

// Derived, it would want `W: Clone`.
impl<W> Clone for Table<W> {
    fn clone(&self) -> Self {
        Self { view: self.view.clone(), count: self.count, of: PhantomData }
    }
}

impl<W: Words> Table<W> {
    /// Returns the whole records of `view`; `None` if the view is not aligned for them.
    pub fn new(view: View) -> Option<Self> {
        let count = view.len_bytes() / size_of::<W>();
        view.is_aligned(align_of::<W>()).then_some(Self { view, count, of: PhantomData })
    }

    /// Returns the table's bytes.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the records.
    #[inline(always)]
    pub fn all(&self) -> &[W] {
        let start = self.view.start.cast::<W>().as_ptr();
        // SAFETY: so many records lie inside the view, aligned as its beginning is, and inside the mapping,
        // which lives as long as `self`. They are atomics (`Words` is sealed), and any bits are valid. The
        // peer accesses them through a mapping of its own.
        unsafe { std::slice::from_raw_parts(start, self.count) }
    }
}

impl Record {
    /// Bytes of a record, and its alignment.
    pub const BYTES: usize = 16;

    /// Reads both words, in the machine's byte order, relaxed.
    #[inline(always)]
    pub fn load(&self) -> [u64; 2] {
        let [first, second] = &self.0;
        [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)]
    }

    /// Reads the first word, relaxed.
    #[inline(always)]
    pub fn load_first(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Reads the second word, relaxed.
    #[inline(always)]
    pub fn load_second(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// Reads the second word, acquire: writes of the peer before its release are visible afterwards.
    #[inline(always)]
    pub fn load_second_acquire(&self) -> u64 {
        self.0[1].load(Ordering::Acquire)
    }

    /// Writes the first word, relaxed.
    #[inline(always)]
    pub fn store_first(&self, word: u64) {
        self.0[0].store(word, Ordering::Relaxed);
    }

    /// Writes the second word, relaxed.
    #[inline(always)]
    pub fn store_second(&self, word: u64) {
        self.0[1].store(word, Ordering::Relaxed);
    }

    /// Writes the second word, release: a peer that acquires it sees all earlier writes.
    #[inline(always)]
    pub fn store_second_release(&self, word: u64) {
        self.0[1].store(word, Ordering::Release);
    }

    /// Prefetches the record's cache line.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).cast());
    }

    /// Prefetches the record's cache line for a write.
    #[inline(always)]
    pub fn prefetch_to_write(&self) {
        prefetch_to_write(std::ptr::from_ref(self).cast());
    }
}

impl Pair {
    /// Reads both words, in the machine's byte order, relaxed.
    #[inline(always)]
    pub fn load(&self) -> [u32; 2] {
        let [first, second] = &self.0;
        [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)]
    }

    /// Writes both words, relaxed.
    #[inline(always)]
    pub fn store(&self, words: [u32; 2]) {
        let [first, second] = &self.0;
        first.store(words[0], Ordering::Relaxed);
        second.store(words[1], Ordering::Relaxed);
    }
}

impl Short {
    /// Reads the word, in the machine's byte order, relaxed.
    #[inline(always)]
    pub fn load(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes the word, relaxed.
    #[inline(always)]
    pub fn store(&self, word: u16) {
        self.0.store(word, Ordering::Relaxed);
    }
}
