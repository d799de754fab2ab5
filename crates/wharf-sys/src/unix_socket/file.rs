//! The file of a socket, reached by its folder as that was when the socket was bound.

use rustix::fs::{AtFlags, Gid, Mode, OFlags, chownat, openat, unlinkat};
use rustix::process::geteuid;
use std::ffi::{CStr, CString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Mode with which a socket is bound that is given another one: no user may connect to it, and no other
/// socket has it. So it also shows which file is the one that was bound.
pub(super) const UNGIVEN: u32 = 0;
/// Number of `fchmodat2` (Linux 6.6), the same on all processors.
const FCHMODAT2: libc::c_long = 452;

/// A folder, whatever its path names later.
#[derive(Debug)]
pub(super) struct Folder(File);

impl Folder {
    /// Opens the folder of `path`. Returns the name in it, too.
    pub(super) fn of(path: &Path) -> io::Result<(Self, CString)> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let folder = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
        Ok((Self(folder), CString::new(name.as_bytes())?))
    }

    /// Checks that no user but root and the folder's own may put another file in the place of one in it.
    /// Whether its group may is checked once the socket has a group.
    pub(super) fn check(&self) -> io::Result<()> {
        let folder = self.0.metadata()?;
        if may_replace(&folder, libc::S_IWOTH) {
            let what = "any user may put another file in its place: take that right from its folder (chmod o-w, or chmod +t), or \
                        choose another";
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        Ok(())
    }

    fn check_group(&self, group: u32) -> io::Result<()> {
        let folder = self.0.metadata()?;
        if folder.gid() != group && may_replace(&folder, libc::S_IWGRP) {
            let what = format!(
                "the members of group {} may put another file in its place: take that right from its folder (chmod g-w, or chmod \
                 +t), or choose another",
                folder.gid()
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        Ok(())
    }

    /// Opens the file `name`, and no other that it may be a link to, without a right to its bytes.
    fn find(&self, name: &CStr) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// True if `name` is a socket, and no link to one.
    pub(super) fn has_socket(&self, name: &CStr) -> bool {
        self.find(name).and_then(|file| file.metadata()).is_ok_and(|file| file.file_type().is_socket())
    }

    /// Removes the file `name`.
    pub(super) fn remove(&self, name: &CStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

/// True if the users of this bit may rename and remove files of others in `folder`.
fn may_replace(folder: &Metadata, bit: libc::mode_t) -> bool {
    folder.mode() & bit != 0 && folder.mode() & libc::S_ISVTX == 0
}

/// The file of a socket that this process has bound.
#[derive(Debug)]
pub struct SocketFile {
    folder: Folder,
    name: CString,
    /// File system and number of the file; `None` if it has gone.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    pub(super) fn new(folder: Folder, name: CString) -> Self {
        let found = folder.find(&name).and_then(|file| file.metadata());
        let identity = found.ok().filter(|file| file.file_type().is_socket()).map(|file| identity(&file));
        Self { folder, name, identity }
    }

    /// Removes the file, unless another one is there by now.
    pub fn remove(&self) {
        let found = self.folder.find(&self.name).and_then(|file| file.metadata());
        if self.identity.is_some() && found.ok().map(|file| identity(&file)) == self.identity {
            // The user that the process has become may not be allowed to.
            let _ = self.folder.remove(&self.name);
        }
    }

    /// Gives the socket, which was bound with the mode [`UNGIVEN`], this mode and group. Removes it if that
    /// fails.
    pub(super) fn give(&self, mode: u32, group: Option<u32>) -> io::Result<()> {
        let file = self.bound()?;
        // In this order the mode is never that of another group.
        let given = group.map_or(Ok(()), |group| set_group(&file, group));
        let given = given.and_then(|()| self.folder.check_group(file.metadata()?.gid()));
        given.and_then(|()| set_mode(&file, mode)).inspect_err(|_| self.remove())
    }

    /// Opens the socket that was bound with the mode [`UNGIVEN`]: another user may have put another file in
    /// its place.
    fn bound(&self) -> io::Result<File> {
        let file = self.folder.find(&self.name)?;
        let found = file.metadata()?;
        let is_ungiven = found.file_type().is_socket() && found.mode() & 0o7777 == UNGIVEN;
        if is_ungiven && found.uid() == geteuid().as_raw() && self.identity == Some(identity(&found)) {
            return Ok(file);
        }
        let what = "another file was put in its place as it was bound: choose a folder that no other user may write to";
        Err(io::Error::new(ErrorKind::PermissionDenied, what))
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn set_group(file: &File, group: u32) -> io::Result<()> {
    Ok(chownat(file, c"", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?)
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: an empty text, and plain numbers.
    let set = unsafe { libc::syscall(FCHMODAT2, fd, c"".as_ptr(), mode, libc::AT_EMPTY_PATH) };
    if set == 0 {
        return Ok(());
    }
    // An older kernel has no such call, and the filter of a container may refuse it.
    let by_proc = std::fs::set_permissions(format!("/proc/self/fd/{fd}"), Permissions::from_mode(mode));
    by_proc.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            io::Error::other("its mode cannot be set: Linux before 6.6 wants /proc for that")
        }
        _ => error,
    })
}
