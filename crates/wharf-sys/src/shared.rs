//! Memory shared with a peer that need not be trusted: another process may write it at any time.
//!
//! Nobody ever has a reference to its bytes: words are read and written as atomics, longer pieces are copied by volatile
//! accesses. So what was read once is what is then checked and used, whatever the peer writes meanwhile. What the peer
//! can do is write nonsense, and, where its file is not sealed against that, shrink it: see `guard`.

use crate::guard::Guard;
use crate::mapping::Mapping;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A mapping that a peer has, too.
#[derive(Debug)]
pub struct Area {
    start: NonNull<u8>,
    len_bytes: usize,
    owner: Owner,
}

/// Who unmaps it.
#[derive(Debug)]
enum Owner {
    Mapping(Mapping),
    /// The area: a peer's file may be made shorter, so it is guarded.
    Area(Option<Guard>),
}

// SAFETY: `Area` owns its address range, and all accesses to it, in `View`, are atomic or volatile.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Memory of our own, to be given to a peer.
    pub fn new(mapping: Mapping) -> Self {
        Self { start: mapping.start(), len_bytes: mapping.len_bytes(), owner: Owner::Mapping(mapping) }
    }

    /// The first `len_bytes` of a peer's file, rounded up to its block size (a huge page, perhaps).
    ///
    /// # Errors
    /// InvalidInput when it is empty or the file is shorter; those of fstat(2) and mmap(2).
    pub fn of_peer(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<Self> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let (file_bytes, block_bytes) = size_of_file(fd)?;
        if len_bytes == 0 || len_bytes > file_bytes {
            return Err(bad(format!("{len_bytes} bytes of a file that has {file_bytes}")));
        }
        let len_bytes =
            usize::try_from(len_bytes).ok().and_then(|len| len.checked_next_multiple_of(block_bytes));
        let len_bytes = len_bytes.ok_or_else(|| bad("too long to be mapped".into()))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing of ours.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len_bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        let mut area = Self { start, len_bytes, owner: Owner::Area(None) };
        // SAFETY: a mapping that `area` owns, and unmaps after the guard is gone; nobody has references to what is in it.
        area.owner = Owner::Area(Some(unsafe { Guard::new(area.addresses()) }?));
        Ok(area)
    }

    /// Bytes mapped.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The mapping, where it is our own.
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.owner {
            Owner::Mapping(mapping) => Some(mapping),
            Owner::Area(_) => None,
        }
    }

    /// Whether the peer has made its file shorter: since then this is zeroed memory of our own.
    #[inline]
    pub fn is_broken(&self) -> bool {
        matches!(&self.owner, Owner::Area(Some(guard)) if guard.is_broken())
    }

    fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.len_bytes
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if let Owner::Area(guard) = &mut self.owner {
            drop(guard.take());
            // SAFETY: mapped by `of_peer`, and `self`'s alone; views hold an `Arc` of it.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
        }
    }
}

/// Whether the file cannot be made shorter any more: until then its owner can make an access raise SIGBUS.
pub fn is_sealed(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: a plain call on a descriptor.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// Asks for a file not to become shorter any more; whether it cannot.
pub fn seal(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: as above.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    is_sealed(fd)
}

/// Bytes of a file, and of its blocks.
fn size_of_file(fd: BorrowedFd<'_>) -> io::Result<(u64, usize)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `stat` has room for what the call writes.
    if unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then written: plain numbers throughout.
    let stat = unsafe { stat.assume_init() };
    let block_bytes = usize::try_from(stat.st_blksize).unwrap_or(0).max(crate::mapping::PAGE_BYTES);
    Ok((u64::try_from(stat.st_size).unwrap_or(0), block_bytes))
}

/// A part of an [`Area`], which it keeps mapped.
#[derive(Debug, Clone)]
pub struct View {
    area: Arc<Area>,
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: as `Area`, of which it is a part.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// Bytes that are copied at a time.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Block<const BYTES: usize>([u8; BYTES]);

macro_rules! words {
    ($($word:ty, $atomic:ty: $load:ident, $load_acquire:ident, $store:ident, $store_release:ident;)*) => {
        $(
            #[doc = concat!("Reads the ", stringify!($word), " at byte `at`, in the machine's order, relaxed.")]
            ///
            /// # Panics
            /// When it does not lie within, or not aligned.
            #[inline(always)]
            pub fn $load(&self, at: usize) -> $word {
                <$atomic>::load(self.word(at), Ordering::Relaxed)
            }

            #[doc = concat!("As `", stringify!($load), "`: what the peer wrote before it released this is seen after.")]
            ///
            /// # Panics
            /// As there.
            #[inline(always)]
            pub fn $load_acquire(&self, at: usize) -> $word {
                <$atomic>::load(self.word(at), Ordering::Acquire)
            }

            #[doc = concat!("Writes the ", stringify!($word), " at byte `at`, in the machine's order, relaxed.")]
            ///
            /// # Panics
            /// When it does not lie within, or not aligned.
            #[inline(always)]
            pub fn $store(&self, at: usize, value: $word) {
                <$atomic>::store(self.word(at), value, Ordering::Relaxed);
            }

            #[doc = concat!("As `", stringify!($store), "`: whoever acquires this sees all that was written before.")]
            ///
            /// # Panics
            /// As there.
            #[inline(always)]
            pub fn $store_release(&self, at: usize, value: $word) {
                <$atomic>::store(self.word(at), value, Ordering::Release);
            }
        )*
    };
}

/// What a word of memory may be accessed as.
trait Atomic {}
impl Atomic for AtomicU16 {}
impl Atomic for AtomicU32 {}
impl Atomic for AtomicU64 {}

impl View {
    /// `len_bytes` of `area` from byte `at` on; `None` where they do not lie within.
    pub fn new(area: &Arc<Area>, at: usize, len_bytes: usize) -> Option<Self> {
        at.checked_add(len_bytes).filter(|&end| end <= area.len_bytes)?;
        // SAFETY: inside the mapping, or just behind it.
        let start = unsafe { area.start.add(at) };
        Some(Self { area: area.clone(), start, len_bytes })
    }

    /// `len_bytes` of this from byte `at` on; `None` where they do not lie within.
    pub fn part(&self, at: usize, len_bytes: usize) -> Option<Self> {
        at.checked_add(len_bytes).filter(|&end| end <= self.len_bytes)?;
        // SAFETY: as above.
        let start = unsafe { self.start.add(at) };
        Some(Self { area: self.area.clone(), start, len_bytes })
    }

    /// Bytes in it.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The memory that it is a part of.
    pub fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// Whether it begins at a multiple of `align_bytes`, a power of two.
    pub fn is_aligned(&self, align_bytes: usize) -> bool {
        (self.start.as_ptr() as usize).is_multiple_of(align_bytes)
    }

    words! {
        u16, AtomicU16: load_u16, load_u16_acquire, store_u16, store_u16_release;
        u32, AtomicU32: load_u32, load_u32_acquire, store_u32, store_u32_release;
        u64, AtomicU64: load_u64, load_u64_acquire, store_u64, store_u64_release;
    }

    #[inline(always)]
    fn word<A: Atomic>(&self, at: usize) -> &A {
        assert!(at <= self.len_bytes && self.len_bytes - at >= size_of::<A>());
        // SAFETY: inside the mapping, which lives as long as `self`.
        let place = unsafe { self.start.add(at) }.cast::<A>();
        assert!(place.is_aligned());
        // SAFETY: inside and aligned; an atomic may be any bits. No reference to these bytes is ever made but as atomics;
        // the peer, whose accesses are its own, has its own mapping of them.
        unsafe { place.as_ref() }
    }

    /// Copies the bytes from `at` on to `to`; false, and nothing, where they do not lie within.
    #[inline]
    pub fn copy_out(&self, at: usize, to: &mut [u8]) -> bool {
        if at > self.len_bytes || self.len_bytes - at < to.len() {
            return false;
        }
        // SAFETY: `at` lies within, or just behind it.
        let mut from = unsafe { self.start.add(at) };
        let (blocks, rest) = to.as_chunks_mut::<32>();
        for block in blocks {
            // SAFETY: `to` is as long as what is left of this, which was checked; `take` stays within.
            *block = unsafe { take(&mut from) };
        }
        let (blocks, rest) = rest.as_chunks_mut::<4>();
        for block in blocks {
            // SAFETY: as above.
            *block = unsafe { take(&mut from) };
        }
        for byte in rest {
            // SAFETY: as above.
            [*byte] = unsafe { take(&mut from) };
        }
        true
    }

    /// Copies `from` to the bytes from `at` on; false, and nothing, where they do not lie within.
    #[inline]
    pub fn copy_in(&self, at: usize, from: &[u8]) -> bool {
        if at > self.len_bytes || self.len_bytes - at < from.len() {
            return false;
        }
        // SAFETY: `at` lies within, or just behind it.
        let mut to = unsafe { self.start.add(at) };
        let (blocks, rest) = from.as_chunks::<32>();
        for block in blocks {
            // SAFETY: `from` is as long as what is left of this, which was checked; `put` stays within.
            unsafe { put(&mut to, *block) };
        }
        let (blocks, rest) = rest.as_chunks::<4>();
        for block in blocks {
            // SAFETY: as above.
            unsafe { put(&mut to, *block) };
        }
        for &byte in rest {
            // SAFETY: as above.
            unsafe { put(&mut to, [byte]) };
        }
        true
    }
}

/// Reads a block, once, and goes behind it.
///
/// # Safety
/// The block lies within a mapping that lives.
#[inline(always)]
unsafe fn take<const BYTES: usize>(from: &mut NonNull<u8>) -> [u8; BYTES] {
    // SAFETY: the caller's. Bytes need no alignment, and any bits are valid ones. Volatile: what is read is what is used,
    // though the peer may write at the same time.
    unsafe {
        let block = from.cast::<Block<BYTES>>().read_volatile();
        *from = from.add(BYTES);
        block.0
    }
}

/// Writes a block, and goes behind it.
///
/// # Safety
/// The block lies within a mapping that lives.
#[inline(always)]
unsafe fn put<const BYTES: usize>(to: &mut NonNull<u8>, block: [u8; BYTES]) {
    // SAFETY: the caller's; nobody has a reference to these bytes.
    unsafe {
        to.cast::<Block<BYTES>>().write_volatile(Block(block));
        *to = to.add(BYTES);
    }
}

#[cfg(test)]
#[path = "shared/tests.rs"]
mod tests;
