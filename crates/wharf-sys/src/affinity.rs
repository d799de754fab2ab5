//! The processors that a thread may run on: `sched_setaffinity(2)`.

use std::io;

/// Pins the calling thread to processor `cpu`.
///
/// # Errors
/// `EINVAL` if the machine, or the cpuset of the process, has no such processor.
pub fn pin(cpu: usize) -> io::Result<()> {
    pin_to(&[cpu])
}

/// Lets the calling thread run on the processors `cpus` only.
///
/// # Errors
/// `EINVAL` if the machine, or the cpuset of the process, has none of them.
pub fn pin_to(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain bits, for which zero is a valid value; each bit set is below CPU_SETSIZE.
    let returned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the processor that the calling thread runs on at this moment, where the kernel says so.
#[inline]
pub fn current() -> Option<usize> {
    // SAFETY: a plain call, which the C library answers without the kernel.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Returns the processors that the calling thread may run on, lowest first; processor 0 where the kernel does not say.
pub fn allowed() -> Vec<usize> {
    // SAFETY: as in `pin_to`; the kernel fills at most the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}
