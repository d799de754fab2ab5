//! Network namespaces: `network_namespaces(7)`.

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

/// Moves the calling thread, and threads that it spawns later, into a new network namespace, which has only a
/// loopback that is down. The namespace lives as long as a thread or process in it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: it changes only which network the calling thread sees.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Calls `work` in the network namespace `space`, on a thread of its own: the calling thread stays in its
/// namespace.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; `EINVAL` if `space` is no network namespace; those of a new thread.
pub fn within<T: Send>(space: OwnedFd, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let there = move || {
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("wharf-namespace".into()).spawn_scoped(scope, there)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
