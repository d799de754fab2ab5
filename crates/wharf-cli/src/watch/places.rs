//! The places of control sockets: one folder of each user.

use super::socket::is_left_over;
use anyhow::{Context, bail};
use std::fs::{DirBuilder, read_dir, remove_file};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// The folder of root's sockets.
const OF_ROOT: &str = "/run/wharf";

/// Returns the folder of this user's sockets, and what the names of sockets in it begin with; none if the user has no such folder.
fn folder() -> Option<(PathBuf, &'static str)> {
    if rustix::process::geteuid().is_root() {
        return Some((OF_ROOT.into(), ""));
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
    Some((folder.into(), "wharf-"))
}

/// Returns the socket of this process, in a folder that is there. Sockets that killed processes have left are removed.
pub(super) fn own() -> anyhow::Result<PathBuf> {
    let (folder, prefix) = folder().context("XDG_RUNTIME_DIR is not set")?;
    if folder == Path::new(OF_ROOT) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.with_context(|| format!("cannot make {OF_ROOT}"))?;
    }
    let _ = all();
    Ok(folder.join(format!("{prefix}{}.sock", std::process::id())))
}

/// Returns the sockets of this user's processes. Those that killed processes have left are removed.
pub(super) fn all() -> Vec<PathBuf> {
    let Some((folder, prefix)) = folder() else { return Vec::new() };
    let paths = read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<(u32, PathBuf)> =
        paths.filter_map(|path| Some((process_of(&path, prefix)?, path))).collect();
    // A process that has just made its socket does not listen yet: its connection is refused, too.
    let is_of_ended = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
    sockets.retain(|(pid, path)| !is_left_over(path) || is_of_ended(*pid) && remove_file(path).is_err());
    sockets.sort_unstable();
    sockets.into_iter().map(|(_, path)| path).collect()
}

/// Returns the process that a socket's name tells.
fn process_of(path: &Path, prefix: &str) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(prefix)?.strip_suffix(".sock")?.parse().ok()
}

/// Returns the socket of a process by its number, or by the path of its socket.
pub(super) fn find(which: &str) -> anyhow::Result<PathBuf> {
    if which.contains('/') || Path::new(which).metadata().is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(which.into());
    }
    let pid: u32 =
        which.parse().ok().with_context(|| format!("{which}: want a process, or the path of a socket"))?;
    let (folder, prefix) = folder().context("XDG_RUNTIME_DIR is not set: name the path of the socket")?;
    let path = folder.join(format!("{prefix}{pid}.sock"));
    if !path.exists() {
        bail!("process {pid} has no control socket: `wharf show` lists those that have one");
    }
    Ok(path)
}

/// Returns the processes that have a socket, as one types them.
pub(crate) fn runs() -> Vec<String> {
    all().iter().map(|path| pid(path).to_string()).collect()
}

/// Returns the line that says that no process has a socket.
pub(super) fn none() -> String {
    let others = if rustix::process::geteuid().is_root() { "" } else { " of this user's; root's need sudo" };
    format!("no wharf with a control socket runs{others}")
}

/// Returns the process whose socket `path` is, or the path itself.
pub(super) fn process(path: &Path) -> String {
    match pid(path) {
        0 => path.display().to_string(),
        pid => format!("process {pid}"),
    }
}

/// Returns the number of the process whose socket `path` is; 0 if the path does not tell it.
pub(super) fn pid(path: &Path) -> u32 {
    let own = folder().filter(|(folder, _)| path.parent() == Some(folder));
    own.and_then(|(_, prefix)| process_of(path, prefix)).unwrap_or(0)
}

/// Returns the only socket that there is.
pub(super) fn only() -> anyhow::Result<PathBuf> {
    let mut all = all();
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => bail!(none()),
        count => bail!("{count} processes have a control socket: name one of them; `wharf show` lists them"),
    }
}
