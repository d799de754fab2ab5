//! Threads go round the processors, so that each has as much of them as any other.
//!
//! Assumptions: processors of a shared machine are not equally fast, nor does the kernel deal them out equally: of three threads on two
//! processors one may have one for itself for seconds, since to move a thread would only exchange who has. Goal: what senders
//! come to differ by is the queue's doing, and not that.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use wharf_devices::host::{pin, processors};

/// Which processor is whose, for now.
#[derive(Debug)]
pub(super) struct Rounds {
    turn: AtomicUsize,
    processors: Vec<usize>,
    threads: usize,
    /// How long a turn is; `None`: threads stay where the kernel has them.
    every: Option<Duration>,
}

impl Rounds {
    /// Of `threads`, each `every` so long on the next processor; with a duration of 0 it is left to the kernel.
    pub(super) fn new(threads: usize, every: Duration) -> Self {
        let every = (!every.is_zero()).then_some(every);
        Self { turn: AtomicUsize::new(0), processors: processors(), threads, every }
    }

    /// The turn that it is.
    #[inline]
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Relaxed)
    }

    /// Puts the calling thread, which is number `thread`, where it belongs in that turn.
    #[cold]
    pub(super) fn go(&self, thread: usize, turn: usize) {
        if self.every.is_some() {
            // A processor that is taken away from the process meanwhile is no reason to stop.
            let _ = pin(self.processors[self.place(thread, turn)]);
        }
    }

    /// Numbers of processors in turn; where there are more threads, those beyond share them, each in its turn.
    fn place(&self, thread: usize, turn: usize) -> usize {
        let processors = self.processors.len();
        (thread + turn) % self.threads.max(processors) % processors
    }

    /// Turn after turn, until `stop`.
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
    fn each_thread_has_as_much_of_each_processor_and_as_few_beside_it() {
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
