//! A lock that is spun for.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Looks at a lock that another has before going to sleep for it: some tens of microseconds, far longer than any is held
/// by a thread that runs.
const SPINS: u32 = 2000;

/// Takes it. One that a panicking thread left is taken as it is: its device is gone for the others, too.
#[inline]
pub(super) fn spin<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(_) => wait(mutex),
    }
}

#[cold]
fn wait<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..SPINS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
