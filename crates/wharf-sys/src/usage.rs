//! Processor time that the process has used.

use std::path::{Path, PathBuf};

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
    let seconds = of_threads().map(|folder| runqueue_seconds(&text(&folder, "schedstat")));
    seconds.reduce(|sum, one| Some(sum? + one.unwrap_or(0.0)))?
}

/// The processor time of a thread.
#[derive(Debug, Clone)]
pub struct ThreadTime {
    /// Its id: gettid(2).
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The time, seconds.
    pub seconds: f64,
}

/// Returns the processor time of each thread that lives; none if the kernel does not count it.
pub fn thread_times() -> Vec<ThreadTime> {
    let time = |folder: PathBuf| {
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        let name = text(&folder, "comm").trim_end().into();
        Some(ThreadTime { id, name, seconds: seconds(&text(&folder, "schedstat"), 0)? })
    };
    of_threads().filter_map(time).collect()
}

fn of_threads() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|thread| thread.path())
}

/// Returns the text of a file; nothing if the thread has ended.
fn text(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap_or_default()
}

fn runqueue_seconds(schedstat: &str) -> Option<f64> {
    seconds(schedstat, 1)
}

/// Reads a number of nanoseconds: on a processor, and on a run queue
/// (Documentation/scheduler/sched-stats.rst).
fn seconds(schedstat: &str, at: usize) -> Option<f64> {
    let ns: u64 = schedstat.split_whitespace().nth(at)?.parse().ok()?;
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
    fn each_thread_has_its_name_and_its_time() {
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let found = named("of-the-test")
            .spawn(|| thread_times().into_iter().find(|thread| thread.name == "of-the-test"));
        let found = found.unwrap().join().unwrap();
        assert!(thread_runqueue_seconds().is_none() || found.is_some_and(|thread| thread.seconds < 60.0));
    }

    #[test]
    fn all_threads_have_waited_as_long_as_one_of_them() {
        if let Some(one) = thread_runqueue_seconds() {
            assert!(runqueue_seconds_of_threads() >= Some(one));
        }
    }
}
