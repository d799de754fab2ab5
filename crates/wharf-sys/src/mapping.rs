//! A shared, sealed memory mapping: what a pool's region lies in.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of a huge page as asked for here (`MFD_HUGE_2MB`).
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of an ordinary page on every architecture that Wharf is built for.
pub const PAGE_BYTES: usize = 4096;

/// Memory that other processes and devices can share: a memfd, mapped read-write, sealed against shrinking.
///
/// Sealing matters: a peer that could shrink the file would turn an access here into SIGBUS.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
    page_bytes: usize,
    fd: OwnedFd,
}

// SAFETY: `Mapping` owns its address range and file; it hands out only a raw pointer, so that moving it
// to another thread, or sharing it, touches no memory.
unsafe impl Send for Mapping {}
// SAFETY: as above: every method takes `&self` and reads plain fields.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len_bytes` (rounded up to whole pages): 2 MiB huge pages when enough are free, else 4 KiB pages.
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2), fcntl(2) and mmap(2) for the 4 KiB pages; huge pages that
    /// are not to be had are no error.
    pub fn shared(len_bytes: usize) -> io::Result<Self> {
        match Self::with_pages(len_bytes, HUGE_PAGE_BYTES, libc::MFD_HUGETLB | libc::MFD_HUGE_2MB) {
            Ok(mapping) => Ok(mapping),
            Err(_) => Self::with_pages(len_bytes, PAGE_BYTES, 0),
        }
    }

    /// As [`Mapping::shared`], but on 4 KiB pages even where huge pages are free.
    ///
    /// # Errors
    /// As [`Mapping::shared`].
    pub fn shared_small_pages(len_bytes: usize) -> io::Result<Self> {
        Self::with_pages(len_bytes, PAGE_BYTES, 0)
    }

    fn with_pages(len_bytes: usize, page_bytes: usize, flags: libc::c_uint) -> io::Result<Self> {
        let len_bytes = len_bytes
            .max(1)
            .checked_next_multiple_of(page_bytes)
            .filter(|&len| i64::try_from(len).is_ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let fd = memfd(flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)?;
        // SAFETY: plain calls on a descriptor that we own; no pointers.
        unsafe {
            check(libc::ftruncate(fd.as_raw_fd(), len_bytes as libc::off_t))?;
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
            check(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing of ours.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len_bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, len_bytes, page_bytes, fd })
    }

    /// The first byte; valid for [`Mapping::len_bytes`] bytes while `self` lives.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes mapped: a whole number of pages.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Bytes of one page: [`HUGE_PAGE_BYTES`] or [`PAGE_BYTES`].
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The memfd behind it, to hand to a peer.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `with_pages`, belongs to `self` alone, and whoever uses its
        // bytes holds `self` (the region keeps it in an `Arc`).
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}

fn memfd(flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string literal; a descriptor that comes back is new and ours alone.
    unsafe {
        let fd = check(libc::memfd_create(c"wharf-region".as_ptr(), flags))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The return of a libc call as a result: -1 becomes the error in `errno`.
fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up_to_whole_pages_and_starts_zeroed() {
        let mapping = Mapping::shared_small_pages(5000).unwrap();
        assert_eq!((mapping.len_bytes(), mapping.page_bytes()), (8192, 4096));
        // SAFETY: the last byte of a mapping that lives.
        assert_eq!(unsafe { *mapping.start().as_ptr().add(8191) }, 0);
    }

    #[test]
    fn cannot_be_shrunk_by_a_peer() {
        let mapping = Mapping::shared(1).unwrap();
        // SAFETY: a plain call on a descriptor.
        let cut = unsafe { libc::ftruncate(mapping.fd().as_raw_fd(), 0) };
        assert_eq!((cut, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
    }

    #[test]
    fn an_absurd_length_is_an_error() {
        assert!(Mapping::shared(usize::MAX).is_err());
    }
}
