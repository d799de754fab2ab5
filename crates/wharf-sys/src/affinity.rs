//! Which processors a thread may run on.

use std::io;

/// Pins the calling thread to processor `cpu`.
///
/// # Errors
/// EINVAL when this machine, or the set that this process may use, has no such processor.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `cpu_set_t` is plain bits, for which zero is a valid value; `cpu` is below CPU_SETSIZE.
    let returned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processor that the calling thread runs on, at this moment.
#[inline]
pub fn current() -> Option<usize> {
    // SAFETY: a plain call, which the C library answers without the kernel.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The processors that the calling thread may run on, in order.
pub fn allowed() -> Vec<usize> {
    // SAFETY: as in `pin`; the kernel fills at most the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pins_to_an_allowed_processor_and_refuses_others() {
        let first = super::allowed()[0];
        std::thread::spawn(move || {
            super::pin(first).unwrap();
            assert_eq!(super::allowed(), [first]);
            assert!(super::pin(1 << 20).is_err());
        })
        .join()
        .unwrap();
    }
}
