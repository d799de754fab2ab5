//! Rate and delay, by a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{Device, RxDevice, Transmitted, TxDevice};
use wharf_devices::wire::WireSpec;
use wharf_testkit::content::len_of;
use wharf_testkit::ends::Ends;
use wharf_testkit::threads::TestClock;

fn timed() -> (WireSpec, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    (WireSpec::default().clock(clock.clone()), clock)
}

/// When packets 0 to `count` - 1 sent at 0 will each have left, in nanoseconds.
fn leave_times_ns(count: u32, bits_per_second: u64, overhead: u64) -> Vec<u64> {
    let mut bits = 0;
    let leave_ns = |number| {
        bits += 8 * (len_of(number) as u64 + overhead);
        (bits * 1_000_000_000).div_ceil(bits_per_second)
    };
    (0..count).map(leave_ns).collect()
}

#[test]
fn every_frame_leaves_when_its_transmission_is_over_and_not_before() {
    for overhead in [24, 0] {
        let (spec, clock) = timed();
        let mut ends = Ends::new(&spec.rate(10_000_000_000).overhead(overhead));
        let times_ns = leave_times_ns(200, 10_000_000_000, overhead.into());
        ends.send(200);
        for (number, &leave_ns) in times_ns.iter().enumerate() {
            clock.set(leave_ns - 1);
            ends.near.reap(0, false, &mut wharf_core::device::Completions::new(0)).unwrap();
            assert_eq!(ends.receive(9), [0u32; 0], "packet {number} is still on the line");
            assert_eq!(ends.near.next_completion_ns(), Some(1));
            clock.set(leave_ns);
            let (sent, _) = ends.reap();
            assert_eq!(sent.len(), usize::from(number > 0), "the one before is complete");
            assert_eq!(ends.receive(9), [number as u32]);
        }
        assert_eq!(ends.near.next_completion_ns(), None);
        ends.reap();
        ends.assert_all_home();
    }
}

#[test]
fn a_line_that_is_fed_in_time_runs_without_a_gap() {
    let (spec, clock) = timed();
    let mut ends = Ends::new(&spec.rate(1_000_000_007).ring(2).unwrap());
    let times_ns = leave_times_ns(5000, 1_000_000_007, 24);
    ends.send(2);
    for (number, &leave_ns) in times_ns.iter().enumerate() {
        clock.set(leave_ns);
        ends.near.reap(0, false, &mut wharf_core::device::Completions::new(0)).unwrap();
        assert_eq!(ends.receive(9), [number as u32], "at {leave_ns} ns");
        ends.reap();
        if number + 2 < 5000 {
            assert_eq!(ends.send(1), Transmitted { doorbell: true, stopped: true });
        }
    }
    ends.assert_all_home();
}

#[test]
fn a_ring_full_of_frames_on_the_line_stops_the_sender() {
    let (spec, clock) = timed();
    let mut ends = Ends::new(&spec.rate(1_000_000).ring(4).unwrap());
    assert_eq!(ends.send(6), Transmitted { doorbell: true, stopped: true });
    assert_eq!((ends.batch.len(), ends.near.outstanding()), (2, 4));
    let mut seen = 0;
    ends.near.visit(&mut |_| seen += 1);
    assert_eq!(seen, 4, "frames on the line are in its table");
    clock.set(u64::MAX);
    assert_eq!(ends.reap().0, [0u32; 0], "they have left, and the far end has not taken them");
    assert_eq!(ends.receive(9), [0, 1, 2, 3]);
    assert_eq!(ends.reap().0, [0, 1, 2, 3]);
    ends.from.give(&mut ends.batch).unwrap();
    ends.assert_all_home();
}

#[test]
fn transmission_starts_with_the_doorbell() {
    let (spec, clock) = timed();
    let mut ends = Ends::new(&spec.rate(8_000_000_000).overhead(0));
    ends.offer(1);
    ends.near.transmit(&mut ends.batch, true);
    clock.set(1_000_000);
    assert_eq!(ends.near.next_completion_ns(), None);
    assert!(ends.near.flush());
    assert_eq!(ends.near.next_completion_ns(), Some(len_of(0) as u64));
    clock.set(2_000_000);
    assert_eq!(ends.reap().0, [0u32; 0]);
    assert_eq!(ends.receive(1), [0]);
    ends.reap();
    ends.assert_all_home();
}

#[test]
fn delay_holds_back_arrivals_and_not_completions() {
    let (spec, clock) = timed();
    let mut ends = Ends::new(&spec.delay(Duration::from_micros(5)).ring(4).unwrap());
    ends.send(3);
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert_eq!(ends.reap().0, [0, 1, 2], "complete at once");
    clock.set(2000);
    ends.send(4);
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert_eq!(ends.far_pool.audit().out(), 7, "frames under way lie in the receiver's memory");
    clock.set(4999);
    assert_eq!(ends.receive(9), [0u32; 0]);
    clock.set(5000);
    assert_eq!(ends.receive(2), [0, 1]);
    assert_eq!(ends.receive(9), [2]);
    clock.set(7000);
    assert_eq!(ends.receive(9), [3, 4, 5, 6]);
    ends.reap();
    ends.assert_all_home();
}

#[test]
fn frames_under_way_when_an_end_goes_are_in_nobodys_hands() {
    let (spec, clock) = timed();
    let spec = spec.delay(Duration::from_secs(1));
    let mut ends = Ends::new(&spec);
    ends.send(3);
    ends.receive(9);
    ends.send(2);
    ends.far = None;
    let (sent, failed) = ends.reap();
    assert_eq!((sent, failed), (vec![0, 1, 2], vec![(3, "link-down"), (4, "link-down")]));
    ends.assert_all_home();

    let mut ends = Ends::new(&spec);
    ends.send(3);
    ends.receive(9);
    ends.near.close().unwrap();
    assert!(!ends.far.as_ref().unwrap().ended(), "three are still to come");
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert!(!ends.far.as_ref().unwrap().ended());
    clock.set(1_000_000_000);
    assert_eq!(ends.receive(9), [0, 1, 2]);
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert!(ends.far.as_ref().unwrap().ended());
    ends.reap();
    ends.assert_all_home();
}
