//! Bytes of a stream socket, before they are read.

use crate::call::{check, has};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most descriptors that may come with one message.
pub const DESCRIPTORS_MAX: usize = 32;

/// Copies unread bytes to the front of `to`, and leaves them unread (`MSG_PEEK`). Returns their number: 0 if
/// the other end has closed, `None` if there are none yet. The bytes end where descriptors came with them.
///
/// # Errors
/// `InvalidData` if more than [`DESCRIPTORS_MAX`] descriptors came; `EMFILE` if this process may have no more
/// descriptors; those of `recvmsg(2)`.
pub fn peek(socket: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Option<usize>> {
    /// Room for the control message, aligned as its header is (`cmsg(3)`): 16 bytes and the descriptors.
    #[repr(align(8))]
    struct Control([u8; 16 + DESCRIPTORS_MAX * size_of::<libc::c_int>()]);
    let mut control = Control([0; 16 + DESCRIPTORS_MAX * size_of::<libc::c_int>()]);
    let mut part = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: plain numbers and null pointers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: places for bytes and control messages, of the lengths given, which live as long as the call.
    let count = match check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        count => count?,
    };
    // SAFETY: recvmsg has just filled `message` in.
    let came = unsafe { close_all(&message) };
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        // The message has room for more: it is this process that may have no more.
        if came < DESCRIPTORS_MAX {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let what = format!("more than {DESCRIPTORS_MAX} descriptors with one message");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(Some(count))
}

/// Closes the descriptors that came with a peeked message, and returns their number: a later read gets
/// others.
///
/// # Safety
/// recvmsg has filled in `message`, whose control buffer lives.
unsafe fn close_all(message: &libc::msghdr) -> usize {
    // SAFETY: the macros of `cmsg(3)` stay inside what the kernel wrote. The descriptors there are new, and
    // owned by nothing else.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(message);
        if first.is_null()
            || (*first).cmsg_level != libc::SOL_SOCKET
            || (*first).cmsg_type != libc::SCM_RIGHTS
        {
            return 0;
        }
        let bytes = ((*first).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
        let descriptors = libc::CMSG_DATA(first).cast::<libc::c_int>();
        let count = bytes / size_of::<libc::c_int>();
        for at in 0..count {
            libc::close(descriptors.add(at).read_unaligned());
        }
        count
    }
}

/// Returns the number of unread bytes (`FIONREAD`).
///
/// # Errors
/// Those of `ioctl(2)`.
pub fn unread_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes an int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// True if the other end will send nothing more: all that is left is what came before.
pub fn has_ended(socket: BorrowedFd<'_>) -> bool {
    has(socket.as_raw_fd(), libc::POLLRDHUP)
}
