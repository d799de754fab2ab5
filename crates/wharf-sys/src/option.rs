//! Socket options.

use crate::call::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Types that the kernel may fill as a socket option.
///
/// # Safety
/// Plain numbers: any bits are a valid value.
pub(crate) unsafe trait Plain {}
// SAFETY: a number.
unsafe impl Plain for libc::c_int {}
// SAFETY: numbers.
unsafe impl<const N: usize> Plain for [u32; N] {}

/// Sets an option to a value of plain numbers.
pub(crate) fn set<T: Copy>(
    fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T,
) -> io::Result<()> {
    let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value has that many bytes, which the kernel reads.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, len) }).map(drop)
}

/// Reads an option into `value`, and returns the number of bytes written.
pub(crate) fn get<T: Plain>(
    fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &mut T,
) -> io::Result<usize> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value has room for that many bytes, and any bits are valid (`Plain`).
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut *value).cast(), &raw mut len) })?;
    Ok(len as usize)
}

/// Sets the size of a buffer by the first option, which needs `CAP_NET_ADMIN`, or else by the second, up to the system's
/// bound. One that is as large already, since a privileged process has set it, stays.
pub(crate) fn set_buffer(fd: BorrowedFd<'_>, forced: libc::c_int, bounded: libc::c_int, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    let mut now: libc::c_int = 0;
    // The kernel tells twice what was asked for.
    let is_enough = get(fd, libc::SOL_SOCKET, bounded, &mut now).is_ok() && now / 2 >= bytes;
    if !is_enough && set(fd, libc::SOL_SOCKET, forced, &bytes).is_err() {
        // Cannot fail: the kernel cuts down what is too much.
        let _ = set(fd, libc::SOL_SOCKET, bounded, &bytes);
    }
}
