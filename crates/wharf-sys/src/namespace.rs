//! Network namespaces: `network_namespaces(7)`.

use crate::call::check;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

/// Moves the calling thread, and threads that it spawns later, into a new network namespace, which has only a
/// loopback that is down. The namespace lives as long as a thread or process in it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: takes a number. It changes only which network the calling thread sees.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Calls `work` in the network namespace `space`, on a thread of its own: the calling thread stays in its
/// namespace.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; `EINVAL` if `space` is no network namespace; those of a new thread.
pub fn within<T: Send>(space: OwnedFd, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let there = move || {
        // SAFETY: takes numbers. It changes only which network this thread sees.
        check(unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) }).map(|_| work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("wharf-namespace".into()).spawn_scoped(scope, there)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
