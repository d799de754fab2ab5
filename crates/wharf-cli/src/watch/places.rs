//! The places of control sockets: one folder of each user, and those of the services for root.

use super::socket::is_left_over;
use anyhow::{Context, bail};
use std::fs::{DirBuilder, read_dir, remove_file};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use wharf_sys::unix_socket::{self, Kind};

/// The folder of root's sockets.
const OF_ROOT: &str = "/run/wharf";
/// The socket of the unit `wharf-forward@NAME` is this one of the folder `wharf-NAME` (`packaging/systemd`).
const OF_SERVICE: &str = "control.sock";

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

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the sockets of services, for root.
fn of_services() -> Vec<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let of_unit = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("wharf-"))
    };
    let sockets = entries(Path::new("/run")).filter(of_unit).map(|folder| folder.join(OF_SERVICE));
    // A link is the service's user's way to a socket of another.
    let is_socket = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    let mut sockets: Vec<PathBuf> = sockets.filter(is_socket).filter(|path| !is_left_over(path)).collect();
    sockets.sort_unstable();
    sockets
}

/// Returns the sockets of this user's processes, and of services for root. Those left by killed processes are
/// removed.
pub(super) fn all() -> Vec<PathBuf> {
    let Some((folder, prefix)) = folder() else { return Vec::new() };
    let mut sockets: Vec<(u32, PathBuf)> =
        entries(&folder).filter_map(|path| Some((process_of(&path, prefix)?, path))).collect();
    // A process that has just made its socket does not listen yet: its connection is refused, too.
    let is_of_ended = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
    sockets.retain(|(pid, path)| !is_left_over(path) || is_of_ended(*pid) && remove_file(path).is_err());
    sockets.sort_unstable();
    sockets.into_iter().map(|(_, path)| path).chain(of_services()).collect()
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
        let of_service = of_services().into_iter().find(|path| self::pid(path) == pid);
        return of_service.with_context(|| {
            format!("process {pid} has no control socket: `wharf show` lists those that have one")
        });
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
    match named(path) {
        None => path.display().to_string(),
        Some(pid) => format!("process {pid}"),
    }
}

/// Returns the process whose socket `path` is: by its name, else the one that listens there; 0 if unknown.
pub(super) fn pid(path: &Path) -> u32 {
    let listens = || unix_socket::peer_pid(&unix_socket::connect(path, Kind::Stream).ok()?).ok();
    named(path).or_else(listens).unwrap_or(0)
}

/// Returns the process that the socket's name tells, in this user's folder.
fn named(path: &Path) -> Option<u32> {
    let (_, prefix) = folder().filter(|(folder, _)| path.parent() == Some(folder))?;
    process_of(path, prefix)
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
