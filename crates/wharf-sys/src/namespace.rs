//! Network namespaces (network_namespaces(7)): which network the calling thread sees.

use std::io;

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
