//! A rotation of threads over the processors, so that each has an equal share of them.
//!
//! Assumptions: processors of a shared machine are not equally fast, and the kernel does not deal them out
//! equally. Of three threads on two processors one may keep a processor for seconds, since moving a thread
//! would only exchange the one that waits. Goal: differences between senders are the queue's doing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use wharf_devices::host::{pin, processors};

/// The assignment of processors to threads.
#[derive(Debug)]
pub(super) struct Rounds {
    turn: AtomicUsize,
    processors: Vec<usize>,
    threads: usize,
    /// Length of a turn; `None`: the kernel places the threads.
    every: Option<Duration>,
}

impl Rounds {
    /// Creates a rotation of `threads`, each on the next processor after `every`. A duration of 0 leaves the
    /// placing to the kernel.
    pub(super) fn new(threads: usize, every: Duration) -> Self {
        let every = (!every.is_zero()).then_some(every);
        Self { turn: AtomicUsize::new(0), processors: processors(), threads, every }
    }

    /// Returns the current turn.
    #[inline]
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Relaxed)
    }

    /// Moves the calling thread, number `thread`, to its processor of that turn.
    #[cold]
    pub(super) fn go(&self, thread: usize, turn: usize) {
        if self.every.is_some() {
            // A processor taken away from the process meanwhile is no reason to stop.
            let _ = pin(self.processors[self.place(thread, turn)]);
        }
    }

    /// Returns the processor's index. If there are more threads than processors, the excess ones share them
    /// in turn.
    fn place(&self, thread: usize, turn: usize) -> usize {
        let processors = self.processors.len();
        (thread + turn) % self.threads.max(processors) % processors
    }

    /// Advances the turn until `stop`.
    pub(super) fn run(&self, stop: &AtomicBool) {
        let Some(every) = self.every else { return };
        while !stop.load(Relaxed) {
            std::thread::sleep(every);
            self.turn.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_equal_shares_of_all_processors() {
        for (threads, count) in [(1, 1), (1, 4), (2, 2), (3, 2), (3, 4), (4, 4), (5, 4), (16, 2), (16, 3)] {
            let (turn, every) = (AtomicUsize::new(0), None);
            let rounds = Rounds { turn, processors: (0..count).collect(), threads, every };
            // A thread's share of its processor, in 5040ths, and its turns on each.
            let mut shares = vec![0; threads];
            let mut turns = vec![vec![0; count]; threads];
            for turn in 0..threads.max(count) * count {
                let places: Vec<usize> = (0..threads).map(|thread| rounds.place(thread, turn)).collect();
                for (thread, &place) in places.iter().enumerate() {
                    shares[thread] += 5040 / places.iter().filter(|&&other| other == place).count();
                    turns[thread][place] += 1;
                }
            }
            assert!(shares.iter().all(|&share| share == shares[0]), "{threads} on {count}: {shares:?}");
            assert!(turns.iter().all(|each| *each == turns[0]), "{threads} on {count}: {turns:?}");
        }
    }
}
