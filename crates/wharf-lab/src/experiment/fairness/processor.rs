//! Processor time of other threads, while they run.

use std::path::PathBuf;
use std::sync::OnceLock;

/// A thread, once it has said which it is.
#[derive(Debug, Default)]
pub(super) struct Task(OnceLock<PathBuf>);

impl Task {
    /// It is the calling thread.
    pub(super) fn begin(&self) {
        // PID/task/TID, as the kernel has it since Linux 3.17 (proc(5)).
        if let Ok(task) = std::fs::read_link("/proc/thread-self") {
            let _ = self.0.set(PathBuf::from("/proc").join(task).join("schedstat"));
        }
    }

    /// Time that it has run for so far, in nanoseconds; 0 before its start, and where the kernel does not say
    /// (Documentation/scheduler/sched-stats.rst, of a task).
    pub(super) fn processor_ns(&self) -> u64 {
        let said = self.0.get().and_then(|path| std::fs::read_to_string(path).ok());
        let ran = said.as_deref().and_then(|said| said.split_whitespace().next());
        ran.and_then(|ran| ran.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_used_more() {
        let task = Task::default();
        assert_eq!(task.processor_ns(), 0, "it has not begun");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                task.begin();
                let before = task.processor_ns();
                let used = || task.processor_ns() > before + 1_000_000;
                while !used() {
                    std::hint::spin_loop();
                }
            });
        });
    }
}
