//! The watchdog's bound, and what it says of a device at each look.

use std::time::Duration;
use wharf_core::monitor::{Sign, Watchdog};

const MS: u64 = 1_000_000;

#[test]
fn a_stall_is_overdue_until_it_is_told_and_then_resumed() {
    let mut watchdog = Watchdog::new(Some(Duration::from_millis(50)));
    assert_eq!(watchdog.look(0, 0, 0), None);
    assert_eq!(watchdog.look(1000 * MS, 3, 0), None, "an idle time is no stall");
    assert_eq!(watchdog.look(1049 * MS, 3, 0), None);
    let overdue = Some(Sign::Overdue { since_ns: 1000 * MS });
    assert_eq!(watchdog.look(1050 * MS, 3, 0), overdue);
    assert_eq!(watchdog.look(1060 * MS, 9, 0), overdue, "more frames change nothing");
    watchdog.stall();
    assert_eq!(watchdog.look(1070 * MS, 9, 0), None, "told once");
    assert_eq!(watchdog.look(1080 * MS, 8, 1), Some(Sign::Resumed { after_ns: 80 * MS }));
    assert_eq!(watchdog.look(1100 * MS, 8, 1), None);
    assert_eq!(watchdog.look(1130 * MS, 8, 1), Some(Sign::Overdue { since_ns: 1080 * MS }));
    watchdog.excuse(1130 * MS);
    assert_eq!(watchdog.look(1179 * MS, 8, 1), None, "the device knows when");
    watchdog.stall();
    assert_eq!(watchdog.look(1200 * MS, 0, 9), Some(Sign::Resumed { after_ns: 70 * MS }));
    assert_eq!(watchdog.look(9999 * MS, 0, 9), None);
}

#[test]
fn a_device_that_is_opened_anew_and_stays_stuck_is_overdue_again() {
    let mut watchdog = Watchdog::new(Some(Duration::from_millis(50)));
    assert_eq!(watchdog.look(0, 3, 0), None);
    assert_eq!(watchdog.look(50 * MS, 3, 0), Some(Sign::Overdue { since_ns: 0 }));
    watchdog.stall();
    watchdog.begin_anew();
    assert_eq!(watchdog.look(60 * MS, 3, 0), Some(Sign::Resumed { after_ns: 60 * MS }));
    assert_eq!(watchdog.look(100 * MS, 3, 0), None);
    assert_eq!(watchdog.look(110 * MS, 3, 0), Some(Sign::Overdue { since_ns: 60 * MS }));
}

#[test]
fn the_bound_is_learnt_from_delays() {
    let mut watchdog = Watchdog::new(None);
    assert_eq!(watchdog.bound_ns(), 1000 * MS, "nothing is known of the device");
    let mut now_ns = 0;
    let mut run = |watchdog: &mut Watchdog, delay_ns: u64, looks: u64| {
        for completed in 0..looks {
            now_ns += delay_ns;
            assert_eq!(watchdog.look(now_ns, 1, completed), None);
        }
        watchdog.bound_ns()
    };
    // A minute of traffic with completions at each look, and then ones that are 60 ms late.
    assert_eq!(run(&mut watchdog, 5 * MS, 12_000), 100 * MS);
    assert_eq!(run(&mut watchdog, 60 * MS, 10), 480 * MS);
    assert_eq!(run(&mut watchdog, 95 * MS, 10), 760 * MS);
}
