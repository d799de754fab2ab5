//! What the process has used of the machine.

/// Seconds of processor time that the process has used, in user space and in the kernel.
pub fn cpu_seconds() -> (f64, f64) {
    // SAFETY: `rusage` is plain numbers, for which zero is valid; the kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
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
        assert!(user >= 0.0 && system >= 0.0);
    }
}
