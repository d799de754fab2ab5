//! Processor time that the process has used.

/// Returns the processor time that the process has used, in user space and in the kernel, seconds.
pub fn cpu_seconds() -> (f64, f64) {
    of(libc::RUSAGE_SELF)
}

/// Returns the processor time that the calling thread has used, in user space and in the kernel, seconds.
pub fn thread_cpu_seconds() -> (f64, f64) {
    of(libc::RUSAGE_THREAD)
}

fn of(whose: libc::c_int) -> (f64, f64) {
    // SAFETY: `rusage` is plain numbers, for which zero is valid. The kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}
