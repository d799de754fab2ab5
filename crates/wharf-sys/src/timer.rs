//! The slack of timed sleeps.

use std::num::NonZeroU64;

/// Sets the calling thread's timer slack to 1 ns (`prctl(2)`, `PR_SET_TIMERSLACK`): its timed sleeps end
/// within about a microsecond of their time. The kernel's default is 50 us, to bundle wake-ups.
pub fn precise_sleeps() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
