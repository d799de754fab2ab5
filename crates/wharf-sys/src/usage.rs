//! Processor time that the process has used.

/// Returns the processor time that the process has used, in user space and in the kernel, seconds.
pub fn cpu_seconds() -> (f64, f64) {
    // SAFETY: `rusage` is plain numbers, for which zero is valid. The kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Returns the processor time that the calling thread has used, in user space and in the kernel, seconds.
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
