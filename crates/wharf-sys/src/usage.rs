//! What the process has used of the machine.

/// Seconds of processor time that the process has used, in user space and in the kernel.
pub fn cpu_seconds() -> (f64, f64) {
    // SAFETY: `rusage` is plain numbers, for which zero is valid; the kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// The same of the calling thread alone.
pub fn thread_cpu_seconds() -> (f64, f64) {
    // SAFETY: as above.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// The effective user's number; 0 is root.
pub fn effective_user() -> u32 {
    // SAFETY: geteuid has no precondition and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_is_counted() {
        let (user, system) = super::cpu_seconds();
        let (thread_user, thread_system) = super::thread_cpu_seconds();
        assert!(user >= 0.0 && system >= 0.0 && thread_user >= 0.0 && thread_system >= 0.0);
    }
}
