//! The mapped memory of a socket's ring.

use super::PacketSocket;
use crate::option::check;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Bytes of a ring's block, a multiple of any page: a ring of ordinary frames needs few blocks.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// A socket with its one ring.
#[derive(Debug)]
pub(super) struct Mapped {
    socket: PacketSocket,
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: `Mapped` owns its address range and hands out only pointers. Their users argue each access, and
// bind it to borrows.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps the ring of `len_bytes` that was made with `socket`.
    pub(super) fn new(socket: PacketSocket, len_bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no memory of this process.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len_bytes, protection, flags, socket.fd().as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { socket, start, len_bytes })
    }

    pub(super) fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Returns the address of byte `at`, with `len` bytes of the ring behind it.
    ///
    /// # Panics
    /// If they are not inside: a wrong sum of this module.
    #[inline]
    pub(super) fn place(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len_bytes), "byte {at} of a ring");
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.start.add(at) }
    }

    /// Returns the status word at byte `at`, a multiple of 4.
    #[inline]
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        let place = self.place(at, 4);
        debug_assert!(place.cast::<u32>().is_aligned());
        // SAFETY: inside the mapping, which lives as long as `self`. Aligned, since rings begin on a page and
        // `at` is a multiple of 4. The kernel accesses these words as whole words.
        unsafe { AtomicU32::from_ptr(place.cast().as_ptr()) }
    }

    /// Makes the kernel look at the ring: `sendto(2)` without data or waiting.
    pub(super) fn kick(&self) -> io::Result<usize> {
        let fd = self.socket.fd().as_raw_fd();
        // SAFETY: no data and no address: null is what the kernel expects of a ring's socket.
        check(unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and owned by `self` alone, which is not borrowed any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
