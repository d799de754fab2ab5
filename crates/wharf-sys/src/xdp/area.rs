//! `Area`: the memory of a ring: a mapping of the kernel's, or anonymous memory as a stand-in for tests.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Mapped memory. Its words are accessed as atomics, its entries read and written whole: the other end of the
/// ring may write at any time.
#[derive(Debug)]
pub struct Area {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: `Area` owns its address range. All accesses to it are atomic or volatile.
unsafe impl Send for Area {}
// SAFETY: as above. `ring.rs` says which entries each end may access, and when.
unsafe impl Sync for Area {}

impl Area {
    /// Maps the part of socket `fd` from byte `from` on.
    pub(super) fn of_socket(fd: BorrowedFd<'_>, from: u64, len_bytes: usize) -> io::Result<Self> {
        Self::map(len_bytes, fd.as_raw_fd(), libc::MAP_SHARED | libc::MAP_POPULATE, from as libc::off_t)
    }

    /// Maps zeroed memory of this process.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn own(len_bytes: usize) -> io::Result<Self> {
        Self::map(len_bytes, -1, libc::MAP_SHARED | libc::MAP_ANONYMOUS, 0)
    }

    fn map(len_bytes: usize, fd: i32, flags: libc::c_int, from: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no memory of this process.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, protection, flags, fd, from) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, len_bytes })
    }

    /// Returns the word at byte `at`, a multiple of 4.
    ///
    /// # Panics
    /// If it is not inside: the ring's constructor has checked that.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len_bytes);
        // SAFETY: inside the mapping, which lives as long as `self`. Aligned, since mappings begin on a page.
        // Both ends access it as a whole word.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Reads the `T` at byte `at`.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline(always)]
    pub(super) fn read<T: super::ring::Entry>(&self, at: usize) -> T {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= self.len_bytes);
        // SAFETY: inside the mapping and aligned. Entries are plain numbers, for which any bits are valid.
        // Volatile, read once: what is checked is what is used, whatever the other end writes.
        unsafe { self.start.as_ptr().add(at).cast::<T>().read_volatile() }
    }

    /// Writes the `T` at byte `at`.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline(always)]
    pub(super) fn write<T: super::ring::Entry>(&self, at: usize, value: T) {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= self.len_bytes);
        // SAFETY: inside the mapping and aligned. There are no references to entries.
        unsafe { self.start.as_ptr().add(at).cast::<T>().write_volatile(value) }
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and owned by `self` alone, which is not borrowed any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
