//! `View`: a part of shared memory, and each way to read and write it.

use super::Area;
use crate::cache_line::{prefetch, prefetch_to_write};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A part of an [`Area`], which it keeps mapped.
#[derive(Debug, Clone)]
pub struct View {
    area: Arc<Area>,
    pub(super) start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: as `Area`, of which it is a part.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// A word that is copied at any address. (A volatile copy of an array of bytes would go byte by byte.)
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<W>(W);

/// The widest register that every processor of this architecture has.
#[cfg(target_arch = "x86_64")]
type Wide = std::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Wide = u64;

/// Copies the `BYTES` bytes from `start` on, each read once and volatile: a peer that has that memory, too,
/// cannot change what was checked before it is used.
///
/// # Safety
/// The bytes lie inside a mapping that lives. This process does not write them meanwhile.
#[inline(always)]
pub unsafe fn snapshot<const BYTES: usize>(start: NonNull<u8>) -> [u8; BYTES] {
    let mut copied = [0; BYTES];
    // SAFETY: the caller's; the other side is a new array of that length.
    unsafe { copy::<true>(start, NonNull::from(&mut copied).cast(), BYTES) };
    copied
}

macro_rules! words {
    ($($word:ty, $atomic:ty: $load:ident, $load_acquire:ident, $store:ident, $store_release:ident;)*) => {
        $(
            #[doc = concat!("Reads the ", stringify!($word), " at byte `at`, in the machine's byte order, relaxed.")]
            ///
            /// # Panics
            /// If the word is not inside, or not aligned.
            #[inline(always)]
            pub fn $load(&self, at: usize) -> $word {
                <$atomic>::load(self.word(at), Ordering::Relaxed)
            }

            #[doc = concat!("Reads as `", stringify!($load), "`, acquire: writes of the peer before its release are visible afterwards.")]
            ///
            /// # Panics
            /// If the word is not inside, or not aligned.
            #[inline(always)]
            pub fn $load_acquire(&self, at: usize) -> $word {
                <$atomic>::load(self.word(at), Ordering::Acquire)
            }

            #[doc = concat!("Writes the ", stringify!($word), " at byte `at`, in the machine's byte order, relaxed.")]
            ///
            /// # Panics
            /// If the word is not inside, or not aligned.
            #[inline(always)]
            pub fn $store(&self, at: usize, value: $word) {
                <$atomic>::store(self.word(at), value, Ordering::Relaxed);
            }

            #[doc = concat!("Writes as `", stringify!($store), "`, release: a peer that acquires the word sees all earlier writes.")]
            ///
            /// # Panics
            /// If the word is not inside, or not aligned.
            #[inline(always)]
            pub fn $store_release(&self, at: usize, value: $word) {
                <$atomic>::store(self.word(at), value, Ordering::Release);
            }
        )*
    };
}

/// Types by which a word of shared memory may be accessed.
trait Atomic {}
impl Atomic for AtomicU16 {}
impl Atomic for AtomicU32 {}
impl Atomic for AtomicU64 {}

impl View {
    /// Returns `len_bytes` of `area` from byte `at` on; `None` if they are not inside it.
    pub fn new(area: &Arc<Area>, at: usize, len_bytes: usize) -> Option<Self> {
        let whole = Self { area: area.clone(), start: area.start(), len_bytes: area.len_bytes() };
        whole.part(at, len_bytes)
    }

    /// Returns `len_bytes` of this view from byte `at` on; `None` if they are not inside it.
    pub fn part(&self, at: usize, len_bytes: usize) -> Option<Self> {
        at.checked_add(len_bytes).filter(|&end| end <= self.len_bytes)?;
        // SAFETY: inside the mapping, or just behind it.
        let start = unsafe { self.start.add(at) };
        Some(Self { area: self.area.clone(), start, len_bytes })
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the area that this is a part of.
    pub fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// True if the view begins at a multiple of `align_bytes`, a power of two.
    pub fn is_aligned(&self, align_bytes: usize) -> bool {
        (self.start.as_ptr() as usize).is_multiple_of(align_bytes)
    }

    words! {
        u16, AtomicU16: load_u16, load_u16_acquire, store_u16, store_u16_release;
        u32, AtomicU32: load_u32, load_u32_acquire, store_u32, store_u32_release;
        u64, AtomicU64: load_u64, load_u64_acquire, store_u64, store_u64_release;
    }

    /// Sets the bits of `mask` in the word at byte `at`, a full fence. Panics as the others do.
    pub fn set_bits_u64(&self, at: usize, mask: u64) {
        self.word::<AtomicU64>(at).fetch_or(mask, Ordering::SeqCst);
    }

    #[inline(always)]
    fn word<A: Atomic>(&self, at: usize) -> &A {
        assert!(at.checked_add(size_of::<A>()).is_some_and(|end| end <= self.len_bytes));
        // SAFETY: inside the mapping, which lives as long as `self`.
        let place = unsafe { self.start.add(at) }.cast::<A>();
        assert!(place.is_aligned());
        // SAFETY: inside and aligned; any bits are a valid atomic. References to these bytes are made as
        // atomics only. The peer accesses them through a mapping of its own.
        unsafe { place.as_ref() }
    }

    /// Prefetches the cache line of byte `at`, if it is inside.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        if at < self.len_bytes {
            prefetch(self.start.as_ptr().wrapping_add(at));
        }
    }

    /// Prefetches the cache line of byte `at`, if it is inside, for writing.
    #[inline(always)]
    pub fn prefetch_to_write(&self, at: usize) {
        if at < self.len_bytes {
            prefetch_to_write(self.start.as_ptr().wrapping_add(at));
        }
    }

    /// Copies the bytes from `at` on to `to`. Returns false, and copies nothing, if they are not inside.
    #[inline(always)]
    pub fn copy_out(&self, at: usize, to: &mut [u8]) -> bool {
        if at > self.len_bytes || self.len_bytes - at < to.len() {
            return false;
        }
        // SAFETY: `at` is inside, or just behind the end.
        let from = unsafe { self.start.add(at) };
        // SAFETY: both are `to.len()` bytes long: the one was checked just now, the other is borrowed
        // mutably. They do not overlap, since there are no references to shared bytes.
        unsafe { copy::<true>(from, NonNull::from(&mut *to).cast(), to.len()) };
        true
    }

    /// Copies `from` to the bytes from `at` on. Returns false, and copies nothing, if they are not inside.
    #[inline(always)]
    pub fn copy_in(&self, at: usize, from: &[u8]) -> bool {
        if at > self.len_bytes || self.len_bytes - at < from.len() {
            return false;
        }
        // SAFETY: `at` is inside, or just behind the end.
        let to = unsafe { self.start.add(at) };
        // SAFETY: as above; the bytes of `from` are only read.
        unsafe { copy::<false>(NonNull::from(from).cast(), to, from.len()) };
        true
    }
}

/// Copies `len` bytes out of shared memory (`OUT`) or into it, in the widest words; the last word overlaps
/// the one before.
///
/// # Safety
/// Both sides lie inside memory that lives, and do not overlap. The side that is not shared is borrowed.
#[inline(always)]
unsafe fn copy<const OUT: bool>(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    // SAFETY: each word ends at `len` at the latest.
    unsafe {
        match len {
            WIDE_BYTES.. => {
                let mut at = 0;
                while at < len - WIDE_BYTES {
                    step::<Wide, OUT>(from, to, at);
                    at += WIDE_BYTES;
                }
                step::<Wide, OUT>(from, to, len - WIDE_BYTES);
            }
            8.. => both::<u64, OUT>(from, to, len),
            4.. => both::<u32, OUT>(from, to, len),
            2.. => both::<u16, OUT>(from, to, len),
            1 => step::<u8, OUT>(from, to, 0),
            0 => {}
        }
    }
}

const WIDE_BYTES: usize = size_of::<Wide>();

/// Copies the first and the last word of `len` bytes, which together are all of them.
///
/// # Safety
/// That of [`copy`]; `len` is one word to two words.
#[inline(always)]
unsafe fn both<W: Copy, const OUT: bool>(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    // SAFETY: the caller's.
    unsafe {
        step::<W, OUT>(from, to, 0);
        step::<W, OUT>(from, to, len - size_of::<W>());
    }
}

/// Copies the word at byte `at`, volatile on the shared side: the value read is the value used, though the
/// peer may write at the same time.
///
/// # Safety
/// That of [`copy`], for a word from `at` on. Any bits are a valid `W`.
#[inline(always)]
unsafe fn step<W: Copy, const OUT: bool>(from: NonNull<u8>, to: NonNull<u8>, at: usize) {
    // SAFETY: the caller's. `Unaligned` needs no alignment.
    unsafe {
        let (word, place) = (from.add(at).cast::<Unaligned<W>>(), to.add(at).cast::<Unaligned<W>>());
        match OUT {
            true => place.write(word.read_volatile()),
            false => place.write_volatile(word.read()),
        }
    }
}
