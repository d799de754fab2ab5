//! The processors that a thread may run on: `sched_setaffinity(2)`.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Processors that a set has room for, numbered from 0.
pub(crate) const PROCESSORS_MAX: usize = CpuSet::MAX_CPU;

/// Pins the calling thread to processor `cpu`.
///
/// # Errors
/// `EINVAL` if the machine, or the cpuset of the process, has no such processor.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu < PROCESSORS_MAX {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the processor that the calling thread runs on at this moment, where the kernel says so.
#[inline]
pub fn current() -> Option<usize> {
    // SAFETY: a plain call, which the C library answers from the thread's memory (rseq(2)).
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
    let set = sched_getaffinity(None)?;
    Ok((0..PROCESSORS_MAX).filter(|&cpu| set.is_set(cpu)).collect())
}
