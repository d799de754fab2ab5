//! Network namespaces (network_namespaces(7)): which network the calling thread sees.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

/// Puts the calling thread, and what it spawns from now on, into a new network of its own: only a loopback that is
/// down. The namespace lives as long as a thread or process in it.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: takes a number; concerns only what the calling thread sees of the network.
    let returned = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Does `work` in the network `space`, a descriptor of one, in a thread of its own: the calling one stays where it is.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, EINVAL when that is no network, and when there is no further thread to be had.
pub fn within<T: Send>(space: OwnedFd, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let there = move || {
        // SAFETY: takes numbers; concerns only what this thread sees of the network.
        if unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("wharf-namespace".into()).spawn_scoped(scope, there)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
