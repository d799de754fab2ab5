//! An end that closes or goes.

use std::sync::Arc;
use wharf_core::device::{Device, RxDevice, Transmitted, TxDevice};
use wharf_devices::wire::WireSpec;
use wharf_testkit::ends::Ends;
use wharf_testkit::threads::TestClock;

fn slow() -> (WireSpec, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    (WireSpec::default().clock(clock.clone()).rate(8_000_000).overhead(0), clock)
}

fn each(numbers: std::ops::Range<u32>, reason: &'static str) -> Vec<(u32, &'static str)> {
    numbers.map(|number| (number, reason)).collect()
}

#[test]
fn a_far_end_that_goes_gives_everything_back() {
    for closes in [false, true] {
        let mut ends = Ends::new(&WireSpec::default());
        ends.send(10);
        assert_eq!(ends.receive(4), [0, 1, 2, 3]);
        match closes {
            true => ends.far.as_mut().unwrap().close().unwrap(),
            false => ends.far = None,
        }
        assert_eq!(ends.reap(), (vec![0, 1, 2, 3], each(4..10, "link-down")));
        assert_eq!(ends.send(3), Transmitted { doorbell: true, stopped: false });
        assert_eq!(
            ends.reap(),
            (vec![], each(10..13, "link-down")),
            "a dead line fails frames and blocks no sender"
        );
        ends.assert_all_home();
    }
}

#[test]
fn frames_a_gone_end_could_not_copy_come_back() {
    let mut ends = Ends::with(&WireSpec::default(), wharf_testkit::pool(64), wharf_testkit::pool(2));
    ends.send(10);
    assert_eq!(ends.receive(9), [0, 1]);
    assert_eq!(ends.receive(1), [2]);
    ends.far = None;
    assert_eq!(ends.reap(), (vec![0, 1, 2], each(3..10, "link-down")));
    ends.assert_all_home();
}

#[test]
fn frames_on_a_line_and_unrung_fail_with_it() {
    let (spec, clock) = slow();
    let mut ends = Ends::new(&spec);
    ends.send(5);
    clock.set(u64::MAX);
    ends.reap();
    ends.send(3);
    ends.offer(2);
    ends.near.transmit(&mut ends.batch, true);
    ends.far = None;
    let (sent, failed) = ends.reap();
    assert_eq!((sent, failed), (vec![], each(0..8, "link-down")));
    ends.near.flush();
    assert_eq!(ends.reap().1, each(8..10, "link-down"));
    ends.assert_all_home();
}

#[test]
fn failures_come_within_the_budget() {
    let mut ends = Ends::new(&WireSpec::default());
    ends.send(10);
    ends.far = None;
    ends.near.reap(4, false, &mut ends.done).unwrap();
    assert_eq!((ends.done.failed.len(), ends.near.outstanding()), (4, 6));
    let mut seen = 0;
    ends.near.visit(&mut |_| seen += 1);
    assert_eq!(seen, 6, "the others are in its table");
    assert_eq!(ends.reap().1.len(), 10, "with the four from before");
    ends.assert_all_home();
}

#[test]
fn close_gives_unsent_frames_back_and_lets_the_far_end_finish() {
    let (spec, clock) = slow();
    let mut ends = Ends::new(&spec);
    ends.send(4);
    clock.set(1_000_000_000);
    ends.reap();
    ends.send(2);
    ends.offer(1);
    ends.near.transmit(&mut ends.batch, true);
    ends.near.close().unwrap();
    assert_eq!(ends.reap(), (vec![], each(4..7, "closed")));
    assert_eq!(ends.send(1), Transmitted { doorbell: false, stopped: true }, "a closed end takes nothing");
    assert!(!ends.far.as_ref().unwrap().ended());
    assert_eq!(ends.receive(9), [0, 1, 2, 3]);
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert!(ends.far.as_ref().unwrap().ended());
    assert_eq!(ends.reap().0, [0, 1, 2, 3]);
    ends.assert_all_home();
}

#[test]
fn a_near_end_that_goes_ends_the_receiving_after_the_last_frame() {
    let mut ends = Ends::new(&WireSpec::default());
    let far = ends.far.as_mut().unwrap();
    assert_eq!(far.receive(&mut ends.to, &mut ends.received, 9).unwrap(), 0);
    assert!(!far.ended());
    ends.near.close().unwrap();
    let far = ends.far.as_mut().unwrap();
    assert_eq!(far.receive(&mut ends.to, &mut ends.received, 0).unwrap(), 0);
    assert!(!far.ended(), "a call without budget has not looked");
    assert_eq!(far.receive(&mut ends.to, &mut ends.received, 9).unwrap(), 0);
    assert!(far.ended());
    ends.assert_all_home();
}

#[test]
fn closing_twice_and_in_any_order_is_well() {
    for first_near in [true, false] {
        let mut ends = Ends::new(&WireSpec::default());
        ends.send(3);
        for near in [first_near, !first_near, first_near] {
            match near {
                true => ends.near.close().unwrap(),
                false => ends.far.as_mut().unwrap().close().unwrap(),
            }
        }
        assert_eq!(ends.receive(9), [0u32; 0], "a closed end receives nothing");
        assert_eq!(ends.reap(), (vec![], each(0..3, "link-down")));
        ends.assert_all_home();
    }
}
