//! Locks of a pool, with counts kept by the thread that takes them.

use crate::host::Clock;
use std::sync::{Mutex, MutexGuard, TryLockError};
use wharf_mem::lock;

/// Looks at a held lock before sleeping for it: some microseconds, longer than a running thread holds any pool lock.
const SPINS: u32 = 200;

/// One thread's counts of locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Locks taken.
    pub taken: u64,
    /// Locks found held by another thread.
    pub waits: u64,
    /// Time spent waiting for locks, ns; 0 with a clock that stands still.
    pub waited_ns: u64,
}

impl LockCounts {
    /// Takes a lock. A free lock costs no look at the clock.
    #[doc(hidden)]
    pub fn lock<'m, T>(&mut self, mutex: &'m Mutex<T>, clock: &dyn Clock) -> MutexGuard<'m, T> {
        self.taken += 1;
        try_lock(mutex).unwrap_or_else(|| self.wait(mutex, clock))
    }

    #[cold]
    fn wait<'m, T>(&mut self, mutex: &'m Mutex<T>, clock: &dyn Clock) -> MutexGuard<'m, T> {
        let since_ns = clock.now_ns();
        let look = |_| {
            std::hint::spin_loop();
            try_lock(mutex)
        };
        let guard = (0..SPINS).find_map(look).unwrap_or_else(|| lock(mutex));
        self.waits += 1;
        self.waited_ns += clock.now_ns().saturating_sub(since_ns);
        guard
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.waits += other.waits;
        self.waited_ns += other.waited_ns;
    }
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[derive(Debug, Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now_ns(&self) -> u64 {
            self.0.fetch_add(5, Relaxed)
        }
    }

    #[test]
    fn held_lock_is_timed_and_free_lock_reads_no_clock() {
        let (mutex, clock, mut counts) = (Mutex::new(1), Ticking::default(), LockCounts::default());
        assert_eq!(*counts.lock(&mutex, &clock), 1);
        assert_eq!((counts, clock.0.load(Relaxed)), (LockCounts { taken: 1, ..LockCounts::default() }, 0));
        let held = mutex.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut counts = LockCounts::default();
                drop(counts.lock(&mutex, &clock));
                counts
            });
            // The waiting thread has looked at the clock once it has found the lock held.
            while clock.0.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(waiting.join().unwrap(), LockCounts { taken: 1, waits: 1, waited_ns: 5 });
        });
    }
}
