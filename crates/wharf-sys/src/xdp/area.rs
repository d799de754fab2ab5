//! `Area`: the memory that a ring lies in: a mapping of the kernel's, or one of our own, as a stand-in for tests.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Mapped memory, whose words are atomics and whose entries are read and written whole: whoever has the other end
/// of the ring may write at any time.
#[derive(Debug)]
pub struct Area {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: `Area` owns its address range, and all accesses to it are atomic or volatile.
unsafe impl Send for Area {}
// SAFETY: as above; which entries whoever may touch, and when, is said in `ring.rs`.
unsafe impl Sync for Area {}

impl Area {
    /// The part of socket `fd` that is mapped from byte `from` on.
    pub(super) fn of_socket(fd: BorrowedFd<'_>, from: u64, len_bytes: usize) -> io::Result<Self> {
        Self::map(len_bytes, fd.as_raw_fd(), libc::MAP_SHARED | libc::MAP_POPULATE, from as libc::off_t)
    }

    /// Memory of our own, all 0.
    ///
    /// # Errors
    /// The system has none.
    pub fn own(len_bytes: usize) -> io::Result<Self> {
        Self::map(len_bytes, -1, libc::MAP_SHARED | libc::MAP_ANONYMOUS, 0)
    }

    fn map(len_bytes: usize, fd: i32, flags: libc::c_int, from: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, protection, flags, fd, from) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, len_bytes })
    }

    /// The word at byte `at`, a multiple of 4.
    ///
    /// # Panics
    /// When it does not lie within: the ring's making has checked that it does.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len_bytes);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned, since mappings begin on a page. Both
        // ends access it as a whole word.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Reads the `T` at byte `at`.
    ///
    /// # Panics
    /// When it does not lie within.
    #[inline(always)]
    pub(super) fn read<T: super::ring::Entry>(&self, at: usize) -> T {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= self.len_bytes);
        // SAFETY: inside the mapping and aligned; entries are plain numbers, for which any bits are valid. Volatile: it
        // is read once, so that what is then checked is what is used, whatever the other end writes.
        unsafe { self.start.as_ptr().add(at).cast::<T>().read_volatile() }
    }

    /// Writes the `T` at byte `at`.
    ///
    /// # Panics
    /// When it does not lie within.
    #[inline(always)]
    pub(super) fn write<T: super::ring::Entry>(&self, at: usize, value: T) {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= self.len_bytes);
        // SAFETY: inside the mapping and aligned; nothing has a reference to entries.
        unsafe { self.start.as_ptr().add(at).cast::<T>().write_volatile(value) }
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and `self`'s alone; nobody can still borrow from it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
