//! Processor time that the process has used.

/// Returns the processor time that the process has used, in user space and in the kernel, seconds.
pub fn cpu_seconds() -> (f64, f64) {
    of(libc::RUSAGE_SELF)
}

/// Returns the processor time that the calling thread has used, in user space and in the kernel, seconds.
pub fn thread_cpu_seconds() -> (f64, f64) {
    of(libc::RUSAGE_THREAD)
}

/// Returns the time that the calling thread has waited for a processor while it could run, seconds; `None` if the kernel does not count
/// it (proc_pid_schedstat, CONFIG_SCHED_INFO).
pub fn thread_runqueue_seconds() -> Option<f64> {
    runqueue_seconds(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Returns the same of all threads of the process that live, together.
pub fn runqueue_seconds_of_threads() -> Option<f64> {
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        runqueue_seconds(&text)
    };
    let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    threads.map(of_thread).reduce(|sum, one| Some(sum? + one.unwrap_or(0.0)))?
}

/// Reads the second number: nanoseconds on a run queue (Documentation/scheduler/sched-stats.rst).
fn runqueue_seconds(schedstat: &str) -> Option<f64> {
    let ns: u64 = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(ns as f64 / 1e9)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_a_run_queue_is_the_second_number() {
        assert_eq!(runqueue_seconds("813000 2500000000 17\n"), Some(2.5));
        assert_eq!([runqueue_seconds(""), runqueue_seconds("1 x 2")], [None, None]);
    }

    #[test]
    fn all_threads_have_waited_as_long_as_one_of_them() {
        if let Some(one) = thread_runqueue_seconds() {
            assert!(runqueue_seconds_of_threads() >= Some(one));
        }
    }
}
