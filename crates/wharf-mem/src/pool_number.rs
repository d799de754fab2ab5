//! Pool numbers: 1 to 63, one per living pool of the process.
//!
//! A number is used again only when no frame of its pool is left: a region that is dropped with frames out keeps its
//! number for good (see `Region::retire`).
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Bit n is set while number n is taken. Number 0 is never handed out: it marks an empty place.
static TAKEN: AtomicU64 = AtomicU64::new(1);

/// Takes the lowest free number; `None` while 63 are taken.
pub(crate) fn take() -> Option<u8> {
    let mut taken = TAKEN.load(Ordering::Relaxed);
    loop {
        let number = taken.trailing_ones();
        if number == 64 {
            return None;
        }
        match TAKEN.compare_exchange_weak(taken, taken | 1 << number, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Some(number as u8),
            Err(now) => taken = now,
        }
    }
}

/// Makes `number` free for the next pool.
pub(crate) fn give_back(number: u8) {
    TAKEN.fetch_and(!(1 << number), Ordering::AcqRel);
}
