//! User, groups and capabilities: `credentials(7)`, `capabilities(7)`. The kernel keeps them for each thread. [`forbid_gains`]
//! is for a process that has one thread; [`become_user`] and [`restrict_capabilities`] change all threads.

mod threads;

pub use threads::restrict_capabilities;

use crate::call::check;
use std::io;

/// `_LINUX_CAPABILITY_VERSION_3` (linux/capability.h): 64 capabilities, in two words.
const VERSION: u32 = 0x2008_0522;
/// Bits of capabilities in the sets of that version.
const CAPABILITIES: libc::c_ulong = 64;

/// `struct __user_cap_header_struct`. Process 0 is the calling thread.
#[repr(C)]
struct Header {
    version: u32,
    process: libc::c_int,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Returns true if the effective user of the calling thread is root.
pub fn is_root() -> bool {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Takes from the calling thread, and from threads that it starts later, all that could raise their privileges: an executed
/// file gives none (`PR_SET_NO_NEW_PRIVS`), and the ambient, the inheritable and the bounding set of capabilities are
/// empty. The capabilities that the thread has stay. Without `CAP_SETPCAP` the bounding set stays, too.
///
/// # Errors
/// Those of `prctl(2)` and `capset(2)`: a kernel before Linux 4.3, or a seccomp filter.
pub fn forbid_gains() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong)?;
    // A capability that the kernel does not know, or none may be dropped.
    let _ = (0..CAPABILITIES).try_for_each(|capability| prctl(libc::PR_CAPBSET_DROP, capability));
    let mut sets = sets()?;
    sets.iter_mut().for_each(|sets| sets.inheritable = 0);
    let mut header = Header { version: VERSION, process: 0 };
    // SAFETY: the kernel reads or corrects the header, and reads the two words of each set that its version has.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) }).map(drop)
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
    match sets()?.iter().any(|sets| sets.permitted | sets.effective != 0) {
        true => Err(io::Error::from_raw_os_error(libc::EPERM)),
        false => Ok(()),
    }
}

/// Works like [`become_user`], but capabilities stay permitted in the threads that [`keep_capabilities`] holds for:
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

/// Has the calling thread, and threads that it starts later, keep the capabilities that they may use when root becomes another user
/// (`PR_SET_KEEPCAPS`).
///
/// # Errors
/// `EPERM` if the secure bits of the process forbid it.
pub fn keep_capabilities() -> io::Result<()> {
    prctl(libc::PR_SET_KEEPCAPS, 1)
}

/// Returns the sets of the calling thread: the lower 32 capabilities, then the others.
fn sets() -> io::Result<[Sets; 2]> {
    let (mut header, mut sets) = (Header { version: VERSION, process: 0 }, [Sets::default(); 2]);
    // SAFETY: the kernel reads or corrects the header, and writes the two words of each set that its version has.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) })?;
    Ok(sets)
}

fn prctl(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: each option used here takes numbers.
    check(unsafe { libc::prctl(option, value, none, none, none) }).map(drop)
}
