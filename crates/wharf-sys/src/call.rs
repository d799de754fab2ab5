//! Results of libc calls: errors, descriptors, mappings. A crate that makes calls of its own, of a driver, takes them from here.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Bytes of an ordinary page, on every architecture that Wharf is built for.
pub const PAGE_BYTES: usize = 4096;

/// Turns the return of a libc call into a result.
///
/// # Errors
/// The error in `errno`, for -1.
#[inline]
pub fn check(returned: impl TryInto<usize>) -> io::Result<usize> {
    returned.try_into().map_err(|_| io::Error::last_os_error())
}

/// Takes the descriptor that a libc call has returned.
///
/// # Errors
/// The error in `errno`, for -1.
///
/// # Safety
/// A descriptor that comes back is new, and nothing else owns it.
pub unsafe fn descriptor(returned: libc::c_int) -> io::Result<OwnedFd> {
    check(returned)?;
    // SAFETY: the caller's.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}

/// Opens a socket, closed on exec. A datagram socket needs no privilege.
pub(crate) fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the descriptor is new.
    unsafe { descriptor(libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol)) }
}

/// Binds the socket `fd` to `address`, a socket address of plain numbers.
pub(crate) fn bind<T: Copy>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let (address, len) = ((&raw const *address).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: so many bytes, which the kernel reads.
    check(unsafe { libc::bind(fd.as_raw_fd(), address, len) }).map(drop)
}

/// Returns true if one of `events` (poll(2)) has come to `fd`, an error included. Does not wait.
pub(crate) fn has(fd: BorrowedFd<'_>, events: PollFlags) -> rustix::io::Result<bool> {
    poll(&mut [PollFd::new(&fd, events)], Some(&Timespec::default())).map(|count| count > 0)
}

/// Returns the bytes, with the kernel's overhead, that `fd` has sent and its queue still has (`SIOCOUTQ`).
pub(crate) fn queue_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, libc's name for it, writes one `int`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ as _, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Returns the text of a C string, without the zero byte that may end it.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// Makes the kernel look at the transmit ring of socket `fd`: `sendto(2)` without data or waiting.
#[inline]
pub(crate) fn kick(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, none) = (fd.as_raw_fd(), std::ptr::null());
    // SAFETY: no data and no address: null is what the kernel expects of a ring's socket.
    check(unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), 0) }).map(drop)
}

/// Pages that are mapped to be read and written, unmapped when this is dropped.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: it owns its address range, and hands out only pointers: moving or sharing it touches no memory.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len_bytes` of the file `fd`, from byte `from` on, or memory of this process alone.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    ///
    /// # Panics
    /// If `flags` ask for a fixed address, which could replace memory in use.
    pub fn map(
        fd: Option<BorrowedFd<'_>>, from: libc::off_t, len_bytes: usize, flags: libc::c_int,
    ) -> io::Result<Self> {
        assert!(flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == 0, "an address is asked for");
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, fd.map_or(-1, |fd| fd.as_raw_fd()));
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no memory of this process.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, protection, flags, fd, from) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, len_bytes })
    }

    /// Maps `file_bytes` of the file `fd`, of pages of `page_bytes`, and `tail_bytes` of zeroed memory behind it, rounded up to
    /// whole pages.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub(crate) fn map_with_tail(
        fd: BorrowedFd<'_>, file_bytes: usize, page_bytes: usize, tail_bytes: usize,
    ) -> io::Result<Self> {
        let page = PAGE_BYTES;
        let lengths = tail_bytes
            .checked_next_multiple_of(page)
            .and_then(|tail| Some((tail, file_bytes.checked_add(tail)?.checked_add(page_bytes)?)));
        let (tail, reserved) = lengths.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // Room for the file to begin where its pages may: the kernel maps huge pages at multiples of their length.
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mut room = Self::map(None, 0, reserved, flags)?;
        let skipped = (room.start.as_ptr() as usize).wrapping_neg() % page_bytes;
        room.keep(skipped, file_bytes + tail);
        let (at, protection) = (room.start.as_ptr().cast(), libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: it replaces the first `file_bytes` of `room`, which nothing refers to.
        let mapped = unsafe { libc::mmap(at, file_bytes, protection, flags, fd.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(room) }
    }

    /// Unmaps all but the `len_bytes` behind the first `skipped`: both, and the rest, are whole pages of 4 KiB.
    fn keep(&mut self, skipped: usize, len_bytes: usize) {
        let behind = self.len_bytes.saturating_sub(skipped + len_bytes);
        // SAFETY: both ranges are inside this mapping, outside of what stays; nothing refers to them. A length of 0 is an error that
        // changes nothing.
        unsafe {
            let start = self.start.as_ptr();
            libc::munmap(start.cast(), skipped);
            libc::munmap(start.add(skipped + len_bytes).cast(), behind);
            self.start = self.start.add(skipped);
        }
        self.len_bytes = len_bytes;
    }

    /// Has the kernel give all pages now, to be written. Kernels before 5.14 cannot: they give each at
    /// its first touch.
    ///
    /// # Errors
    /// `EFAULT` where a touch would be `SIGBUS`, and the others of `madvise(2)`.
    pub(crate) fn populate(&self) -> io::Result<()> {
        let (start, how) = (self.start.as_ptr().cast(), libc::MADV_POPULATE_WRITE);
        // SAFETY: this mapping, whose contents stay as they are.
        match check(unsafe { libc::madvise(start, self.len_bytes, how) }) {
            Err(error) if cfg!(miri) || error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Returns the first byte's address. So many bytes from there on are valid while `self` lives.
    #[inline(always)]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns its length.
    #[inline(always)]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the address of byte `at`, with `len` bytes behind it.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    pub fn place(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len_bytes), "byte {at} of a mapping");
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.start.add(at) }
    }

    /// Returns the word at byte `at`, a multiple of 4, which both sides access as a whole.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline(always)]
    pub fn word(&self, at: usize) -> &AtomicU32 {
        let place = self.place(at, size_of::<u32>()).cast::<u32>();
        assert!(place.is_aligned());
        // SAFETY: aligned and inside the mapping, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr(place.as_ptr()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and owned by `self` alone, whose users keep it while they use its bytes.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
