//! Files for what others shall not read, and pipes that are written without waiting.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Creates a file that only its owner reads and writes, or opens the one that is there, which keeps its mode, to
/// be written at its end. A link is not followed: another user might have put it there.
///
/// # Errors
/// Those of `open(2)`; `ELOOP` for a link.
pub fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Lengthens the pipe `fd` to `bytes` (`F_SETPIPE_SZ`), if it is one and the kernel allows it: its two ends
/// then wake one another more seldom.
pub fn lengthen_pipe(fd: BorrowedFd<'_>, bytes: usize) {
    // A pipe that stays as it is works as well. A longer one is not shortened.
    if rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|now| now < bytes) {
        _ = rustix::pipe::fcntl_setpipe_size(fd, bytes);
    }
}

/// Opens the pipe `fd` once more, to be written without waiting (`O_NONBLOCK`). Programs that share `fd` wait as before.
/// Returns `None` if it is no pipe.
///
/// # Errors
/// Those of `open(2)`; `ENXIO` if the pipe has no reader any more, `EACCES` if it is another user's.
pub fn reopen_pipe(fd: BorrowedFd<'_>) -> io::Result<Option<File>> {
    if !File::from(fd.try_clone_to_owned()?).metadata()?.file_type().is_fifo() {
        return Ok(None);
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path).map(Some)
}
