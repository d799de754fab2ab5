//! User, groups and capabilities: `credentials(7)`, `capabilities(7)`. The kernel keeps them for each thread. [`forbid_gains`]
//! is for a process that has one thread; [`become_user`] and [`restrict_capabilities`] change all threads.

mod threads;

pub use threads::restrict_capabilities;

use crate::call::check;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::io;

/// Capabilities that a set has room for.
const CAPABILITIES: u32 = u64::BITS;

/// Takes from the calling thread, and from threads that it starts later, all that could raise their privileges: an executed
/// file gives none (`PR_SET_NO_NEW_PRIVS`), and the ambient, the inheritable and the bounding set of capabilities are
/// empty. The capabilities that the thread has stay. Without `CAP_SETPCAP` the bounding set stays, too.
///
/// # Errors
/// Those of `prctl(2)` and `capset(2)`: a kernel before Linux 4.3, or a seccomp filter.
pub fn forbid_gains() -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    // A capability that the kernel does not know, or none may be dropped.
    let mut all = (0..CAPABILITIES).map(|number| CapabilitySet::from_bits_retain(1 << number));
    let _ = all.try_for_each(remove_capability_from_bounding_set);
    let sets = capabilities(None)?;
    Ok(set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..sets })?)
}

/// Makes every thread of this process one of user `uid` and of group `gid` alone, for good. Root's threads lose their
/// capabilities by that.
///
/// # Errors
/// `EPERM` without `CAP_SETUID` and `CAP_SETGID`, or where the secure bits of the process keep its capabilities;
/// `EINVAL` for a user or group that the user namespace has not, or that is no number of one. The process may have lost
/// its groups by then: it should end.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    change_user(uid, gid)?;
    // All threads have inherited their secure bits from the first one.
    let sets = capabilities(None)?;
    if (sets.permitted | sets.effective).is_empty() { Ok(()) } else { Err(Errno::PERM.into()) }
}

/// Works like [`become_user`], but capabilities stay permitted in threads that keep theirs (`PR_SET_KEEPCAPS`):
/// [`restrict_capabilities`] is to follow.
///
/// # Errors
/// Those of [`become_user`], but for secure bits.
pub fn change_user(uid: u32, gid: u32) -> io::Result<()> {
    // To setresuid(2) the highest number means "as it is".
    if uid == u32::MAX || gid == u32::MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: numbers, and an empty list. The C library has each thread make the call (nptl(7)).
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map(drop)
}
