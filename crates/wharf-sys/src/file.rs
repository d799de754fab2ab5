//! Files for what others shall not read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates a file that only its owner reads and writes, or empties the one that is there, which keeps its mode. A link is
/// not followed: another user might have put it there.
///
/// # Errors
/// Those of `open(2)`; `ELOOP` for a link.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}
