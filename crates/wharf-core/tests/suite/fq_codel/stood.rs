//! A device that stood for long: its other side was stopped.

use super::{Arrival, Event, Ours, Queue};
use wharf_core::qdisc::{CODEL, FqCodelOptions, WhenFull};

const MS: u64 = 1_000_000;

/// Packets in before and during a stop of `stop_ms`, of 7 flows. Returns the numbers of those that leave
/// behind it, and the number dropped.
fn stop(when_full: WhenFull, stop_ms: u64) -> (Vec<u64>, u64) {
    let mut ours =
        Ours::new(FqCodelOptions { when_full, ..FqCodelOptions::default() }, |number| (number % 7) as u16);
    let (mut events, end_ns) = (Vec::new(), 1_000_000 + stop_ms * MS);
    let arrival = Arrival { at_ns: 0, bytes: 200, ecn: 0 };
    (0..50).for_each(|number| ours.enqueue(0, number, arrival));
    (0..5).for_each(|_| _ = ours.dequeue(MS, &mut events));
    events.clear();
    // These are 100 ms old when it is over.
    (50..60).for_each(|number| ours.enqueue(end_ns - 100 * MS, number, arrival));
    while ours.dequeue(end_ns, &mut events).is_some() {}
    let left = events.iter().filter_map(|event| match event {
        Event::Left(_, number) => Some(*number),
        _ => None,
    });
    let left: Vec<u64> = left.collect();
    assert!(ours.reasons.iter().all(|(reason, _)| *reason == CODEL));
    (left, ours.reasons.iter().map(|(_, count)| count).sum())
}

#[test]
fn packets_that_came_long_before_a_device_goes_on_are_dropped_unless_senders_wait_for_room() {
    for stop_ms in [1_500, 18_000, 3_600_000] {
        let (mut left, dropped) = stop(WhenFull::DropHead, stop_ms);
        left.sort_unstable();
        assert_eq!((left, dropped), ((50..60).collect(), 45), "{stop_ms} ms");
    }
    for (when_full, stop_ms) in [(WhenFull::Wait, 18_000), (WhenFull::DropHead, 900)] {
        let (left, dropped) = stop(when_full, stop_ms);
        let old = left.iter().filter(|number| **number < 50).count();
        assert!(
            old > 30 && dropped < 15,
            "{when_full:?}, {stop_ms} ms: {old} old ones left, {dropped} were dropped"
        );
    }
}
