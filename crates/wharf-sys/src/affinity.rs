//! The processors that a thread may run on: `sched_setaffinity(2)`.

use crate::call::check;
use std::io;

/// Processors that a set has room for, numbered from 0.
pub(crate) const PROCESSORS_MAX: usize = libc::CPU_SETSIZE as usize;

/// Pins the calling thread to processor `cpu`.
///
/// # Errors
/// `EINVAL` if the machine, or the cpuset of the process, has no such processor.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain bits, for which zero is a valid value; the bit set is below CPU_SETSIZE.
    check(unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu < PROCESSORS_MAX {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    })
    .map(drop)
}

/// Returns the processor that the calling thread runs on at this moment, where the kernel says so.
#[inline]
pub fn current() -> Option<usize> {
    // SAFETY: a plain call, which the C library answers without the kernel.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Returns the processors that the calling thread may run on, lowest first; processor 0 where the kernel does not say.
pub fn allowed() -> Vec<usize> {
    known().unwrap_or_else(|_| vec![0])
}

/// Returns the processors that the calling thread may run on, lowest first.
///
/// # Errors
/// `EINVAL` on a machine with more than [`PROCESSORS_MAX`] processors.
pub(crate) fn known() -> io::Result<Vec<usize>> {
    // SAFETY: as in `pin`; the kernel fills at most the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set))?;
        Ok((0..PROCESSORS_MAX).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect())
    }
}
