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

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_that_computes_uses_processor_time() {
        let total = |(user, kernel): (f64, f64)| user + kernel;
        let (process, thread) = (total(super::cpu_seconds()), total(super::thread_cpu_seconds()));
        while total(super::thread_cpu_seconds()) < thread + 0.01 {
            std::hint::spin_loop();
        }
        // The kernel counts a running thread's time at ticks and switches: a tick may be missing.
        assert!(total(super::cpu_seconds()) >= process + 0.005);
    }
}
