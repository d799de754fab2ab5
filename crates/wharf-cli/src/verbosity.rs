//! The amount of output on standard error.

use std::sync::atomic::{AtomicI8, Ordering::Relaxed};

/// -1 with `--quiet`, else the number of `--verbose`.
static LEVEL: AtomicI8 = AtomicI8::new(0);

/// Sets the amount of output on standard error.
pub(crate) fn set(quiet: bool, verbose: u8) {
    let level = i8::try_from(verbose).unwrap_or(i8::MAX);
    LEVEL.store(if quiet { -1 } else { level }, Relaxed);
}

/// True with `--quiet`.
pub(crate) fn is_quiet() -> bool {
    LEVEL.load(Relaxed) < 0
}

/// True with `--verbose`, given `times` times.
pub(crate) fn is_verbose(times: i8) -> bool {
    LEVEL.load(Relaxed) >= times
}
