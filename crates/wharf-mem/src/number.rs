//! Numbers for pools: 1 to 63, one per living pool of the process.
//!
//! A number is not given out again while a frame of its pool may still be around: whoever drops a region
//! with frames out keeps the number taken for good (see `Region::retire`).
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Bit n is set while number n is taken; 0 is never given out: it marks an empty place.
static TAKEN: AtomicU64 = AtomicU64::new(1);

/// The lowest free number, or `None` when 63 pools live.
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
