//! Processor time of other threads, while they run.

use std::path::PathBuf;
use std::sync::OnceLock;

/// A thread that has registered itself.
#[derive(Debug, Default)]
pub(super) struct Task(OnceLock<PathBuf>);

impl Task {
    /// Registers the calling thread.
    pub(super) fn begin(&self) {
        // PID/task/TID, as the kernel writes it since Linux 3.17 (proc(5)).
        let task = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        let _ = self.0.set(PathBuf::from("/proc").join(task).join("schedstat"));
    }

    /// Returns the time that it has run so far, in nanoseconds; 0 before its start, and `None` if the kernel
    /// does not report it (Documentation/scheduler/sched-stats.rst, of a task).
    pub(super) fn processor_ns(&self) -> Option<u64> {
        let Some(path) = self.0.get() else { return Some(0) };
        let said = std::fs::read_to_string(path).ok()?;
        said.split_whitespace().next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_thread_has_used_more_time() {
        let task = Task::default();
        assert_eq!(task.processor_ns(), Some(0), "it has not begun");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                task.begin();
                // Some kernels do not report it.
                let Some(before) = task.processor_ns() else { return };
                while task.processor_ns().is_some_and(|ns| ns < before + 1_000_000) {
                    std::hint::spin_loop();
                }
            });
        });
    }
}
