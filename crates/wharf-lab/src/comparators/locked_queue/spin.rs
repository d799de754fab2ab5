//! A lock taken by spinning.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Tries before a thread sleeps for the lock: some tens of microseconds, far longer than a running thread
/// holds any.
const SPINS: u32 = 2000;

/// Takes the lock, also after a panic of its holder: the device is gone for all threads then.
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
