//! How late timed sleeps may end.

/// Lets the calling thread's timed sleeps end within about a microsecond of their time, in place of the 50 that
/// the kernel takes to bundle wake-ups. prctl(2), PR_SET_TIMERSLACK.
pub fn precise_sleeps() {
    // SAFETY: this option takes a number; 1 is the least that is not "back to the default".
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn takes_effect() {
        super::precise_sleeps();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1);
    }
}
