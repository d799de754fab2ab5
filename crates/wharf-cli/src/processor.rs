//! Processor time of a run: the evidence on which a verdict says that a processor bounded it, or did not.

use std::time::Instant;
use wharf_sys::usage;

/// Share of the time from which on a receiver counts as never idle.
const LOADED_SHARE: f64 = 0.8;

/// Time of one thread, or of several together, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProcessorTime {
    /// Time that passed, for each thread.
    pub(crate) wall: f64,
    /// Processor time, and the part of it in the kernel.
    pub(crate) used: f64,
    pub(crate) kernel: f64,
    /// Time in which a thread could run and had no processor: 0 if the kernel does not count it.
    pub(crate) queued: f64,
}

/// A measurement that has begun.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    is_thread: bool,
    start: ProcessorTime,
}

impl Meter {
    /// Begins to measure the calling thread.
    pub(crate) fn of_thread() -> Self {
        Self::new(true)
    }

    /// Begins to measure the process.
    pub(crate) fn of_process() -> Self {
        Self::new(false)
    }

    fn new(is_thread: bool) -> Self {
        Self { began: Instant::now(), is_thread, start: now(is_thread) }
    }

    /// Returns the time since the start. The wall time of a process is that of one thread.
    pub(crate) fn elapsed(&self) -> ProcessorTime {
        let now = now(self.is_thread);
        ProcessorTime {
            wall: self.began.elapsed().as_secs_f64(),
            used: now.used - self.start.used,
            kernel: now.kernel - self.start.kernel,
            queued: (now.queued - self.start.queued).max(0.0),
        }
    }
}

fn now(is_thread: bool) -> ProcessorTime {
    let ((user, kernel), queued) = if is_thread {
        (usage::thread_cpu_seconds(), usage::thread_runqueue_seconds())
    } else {
        (usage::cpu_seconds(), usage::runqueue_seconds_of_threads())
    };
    ProcessorTime { wall: 0.0, used: user + kernel, kernel, queued: queued.unwrap_or(0.0) }
}

impl ProcessorTime {
    /// Returns the same use within `wall` seconds of each of `threads`: of the time in which there was work.
    pub(crate) fn within(self, wall: f64, threads: usize) -> Self {
        Self { wall: wall * threads.max(1) as f64, ..self }
    }

    /// Returns it for a receiver that had frames to check for nearly all of the seconds of its load. One that polls uses a processor
    /// without frames, too.
    pub(crate) fn if_loaded(self, seconds: f64, load_share: f64) -> Option<Self> {
        (load_share >= LOADED_SHARE).then(|| self.within(seconds, 1))
    }

    /// Returns the share of the time on a processor, 0 to 1.
    pub(crate) fn busy_share(self) -> f64 {
        self.share(self.used)
    }

    /// Returns the share of the time in which a thread waited for a processor.
    pub(crate) fn queued_share(self) -> f64 {
        self.share(self.queued)
    }

    /// True if other work had the processor for longer.
    pub(crate) fn is_behind_others(self) -> bool {
        self.queued_share() > self.busy_share()
    }

    /// Returns the share of the time in which the threads slept.
    pub(crate) fn idle_share(self) -> f64 {
        (1.0 - self.busy_share() - self.queued_share()).max(0.0)
    }

    /// Returns the kernel's share of the processor time.
    pub(crate) fn kernel_share(self) -> f64 {
        if self.used > 0.0 { (self.kernel / self.used).clamp(0.0, 1.0) } else { 0.0 }
    }

    fn share(self, seconds: f64) -> f64 {
        if self.wall > 0.0 { (seconds / self.wall).clamp(0.0, 1.0) } else { 0.0 }
    }
}

impl std::iter::Sum for ProcessorTime {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            wall: sum.wall + one.wall,
            used: sum.used + one.used,
            kernel: sum.kernel + one.kernel,
            queued: sum.queued + one.queued,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spins_is_busy_and_one_that_sleeps_is_idle() {
        let meter = Meter::of_thread();
        while meter.elapsed().used < 0.05 {}
        let spun = meter.elapsed();
        assert!(spun.busy_share() + spun.queued_share() > 0.7, "{spun:?}");
        let meter = Meter::of_thread();
        std::thread::sleep(std::time::Duration::from_millis(50));
        // It may have waited for a processor behind that.
        let slept = meter.elapsed();
        assert!(slept.idle_share() * slept.wall > 0.035, "{slept:?}");
    }
}
