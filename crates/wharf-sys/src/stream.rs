//! What has come over a stream socket, before it is read.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Copies what has come and not been read to the front of `to`, and leaves it to be read; how many bytes: 0 when the other end
/// has closed, `None` when nothing has come yet. It ends where descriptors came with something.
///
/// # Errors
/// Those of recv(2).
pub fn peek(socket: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Option<usize>> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: room for as many bytes as are asked for.
    let count = unsafe { libc::recv(socket.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), flags) };
    match usize::try_from(count) {
        Ok(count) => Ok(Some(count)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}

/// Bytes that have come and not been read.
///
/// # Errors
/// Those of ioctl(2).
pub fn unread_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes an int.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if done == 0 { Ok(usize::try_from(count).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_looked_at_is_still_there() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let mut bytes = [0; 4];
        assert_eq!(peek(near.as_fd(), &mut bytes).unwrap(), None);
        far.write_all(b"ab").unwrap();
        far.write_all(b"cdef").unwrap();
        assert_eq!((peek(near.as_fd(), &mut bytes).unwrap(), &bytes), (Some(4), b"abcd"));
        assert_eq!(unread_bytes(near.as_fd()).unwrap(), 6);
        let mut read = [0; 6];
        near.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"abcdef");
        drop(far);
        assert_eq!(peek(near.as_fd(), &mut bytes).unwrap(), Some(0));
    }
}
