//! Socket options, and results of libc calls.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option to a value of plain numbers.
pub(crate) fn set<T: Copy>(
    fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T,
) -> io::Result<()> {
    let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value has that many bytes, which the kernel reads.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, len) } as isize).map(drop)
}

/// Reads an option of whole numbers into `value`, and returns the number of bytes written.
pub(crate) fn get<const N: usize>(
    fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &mut [u32; N],
) -> io::Result<usize> {
    let mut len = size_of::<[u32; N]>() as libc::socklen_t;
    // SAFETY: the value has room for that many bytes, and any bits are valid numbers.
    let returned =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) };
    check(returned as isize).map(|_| len as usize)
}

/// Turns the return of a libc call into a result: -1 becomes the error in `errno`.
#[inline]
pub(crate) fn check(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
