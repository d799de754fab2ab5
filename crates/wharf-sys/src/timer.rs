//! The slack of timed sleeps.

/// Sets the calling thread's timer slack to 1 ns (`prctl(2)`, `PR_SET_TIMERSLACK`): its timed sleeps end
/// within about a microsecond of their time. The kernel's default is 50 us, to bundle wake-ups.
pub fn precise_sleeps() {
    // SAFETY: this option takes a number. 0 would mean the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}
