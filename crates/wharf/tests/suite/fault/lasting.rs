//! Faults that last, call by call: freezes, and answers of which a part comes later.

use super::by_hand::{Rig, spec};
use std::sync::Arc;
use wharf::testing::Fault;
use wharf_core::device::{Device, Notify, RxDevice, Transmitted, TxDevice};
use wharf_devices::wire::{Wire, WireSpec};
use wharf_testkit::ends::Ends;
use wharf_testkit::threads::TestClock;

const NONE: [u32; 0] = [];

/// Both ends of a wire, and the far one's faults.
fn receiving(faults: &str) -> (Ends, Fault<Wire>, Arc<TestClock>) {
    let (mut ends, clock) = (Ends::new(&WireSpec::default()), Arc::new(TestClock::default()));
    let far = Fault::new(ends.far.take().unwrap(), &spec(faults)).clock(clock.clone());
    (ends, far, clock)
}

/// Receives up to `budget` frames, and gives them back. Returns their number.
fn receive(ends: &mut Ends, far: &mut Fault<Wire>, budget: usize) -> usize {
    let count = far.receive(&mut ends.to, &mut ends.received, budget).unwrap();
    ends.to.give(&mut ends.received).unwrap();
    count
}

#[test]
fn a_frozen_device_does_nothing_and_says_nothing_until_its_time_is_over() {
    let mut rig = Rig::new("freeze=1/3:1ms");
    rig.offer(1);
    assert!(!rig.transmit(false).stopped);
    assert_eq!(rig.reap().0, [0]);
    rig.offer(1);
    assert!(!rig.transmit(false).stopped, "the call goes, and the device freezes behind it");
    assert_eq!((rig.device.outstanding(), rig.counts.of("freeze")), (1, 1));
    rig.offer(1);
    for now_ns in [0, 500_000, 999_999] {
        rig.clock.set(now_ns);
        assert!(rig.transmit(false).stopped && rig.batch.len() == 1);
        assert_eq!(rig.reap(), (vec![], vec![]));
        // A stall would say when it is over.
        assert_eq!((rig.device.next_completion_ns(), rig.device.arm()), (None, true));
    }
    rig.clock.set(1_000_000);
    assert_eq!(rig.reap().0, [1]);
    assert_eq!(rig.transmit(false), Transmitted { doorbell: true, stopped: false });
    assert_eq!((rig.device.wait_fd(), rig.counts.of("freeze")), (None, 1));
    assert_eq!(rig.reap().0, [2], "and the third call freezes it again");
    rig.offer(1);
    assert!(rig.transmit(false).stopped);
    assert_eq!(rig.counts.of("freeze"), 2);
    rig.assert_home();
}

#[test]
fn a_device_that_freezes_after_every_call_still_sends() {
    let mut rig = Rig::new("freeze=100%:10us");
    let mut sent = Vec::new();
    for step in 0..20 {
        rig.clock.set(step * 10_000);
        if step % 2 == 0 {
            rig.offer(3);
            assert!(!rig.transmit(false).stopped, "step {step}");
            assert_eq!(rig.reap().0, NONE);
        } else {
            sent.extend(rig.reap().0);
            assert!(rig.transmit(false).stopped, "step {step}");
        }
    }
    assert!(sent.into_iter().eq(0..30));
    rig.assert_home();
}

#[test]
fn a_frozen_device_that_is_closed_gives_all_back() {
    let mut rig = Rig::new("freeze=100%:60s,error=1/4");
    rig.offer(8);
    rig.transmit(false);
    assert_eq!((rig.reap(), rig.device.outstanding()), ((vec![], vec![]), 8));
    rig.device.close().unwrap();
    assert_eq!(rig.reap(), (vec![0, 1, 2, 4, 5, 6], vec![3, 7]));
    rig.assert_home();
}

#[test]
fn a_reset_ends_a_freeze_and_loses_the_frames_that_never_complete() {
    let mut rig = Rig::new("never=1/4");
    rig.offer(8);
    rig.transmit(false);
    assert_eq!((rig.reap(), rig.device.outstanding()), ((vec![0, 1, 2, 4, 5, 6], vec![]), 2));
    rig.device.reset()();
    assert_eq!(rig.device.next_completion_ns(), Some(0));
    assert_eq!((rig.reap(), rig.device.outstanding()), ((vec![], vec![3, 7]), 0));
    rig.offer(4);
    rig.transmit(false);
    assert_eq!(rig.reap().0, [8, 9, 10], "and it goes on as before");
    rig.device.close().unwrap();
    assert_eq!(rig.reap(), (vec![], vec![11]));
    rig.assert_home();
    let mut rig = Rig::new("freeze=100%:60s");
    rig.offer(1);
    rig.transmit(false);
    assert_eq!(rig.reap().0, NONE);
    rig.device.reset()();
    assert_eq!(rig.reap().0, [0]);
    rig.assert_home();
}

#[test]
fn a_frozen_device_receives_nothing_and_loses_nothing() {
    let (mut ends, mut far, clock) = receiving("freeze=1/2:1ms");
    ends.send(10);
    assert_eq!(receive(&mut ends, &mut far, 4), 4);
    assert_eq!(receive(&mut ends, &mut far, 4), 4, "and freezes");
    assert_eq!((receive(&mut ends, &mut far, 4), far.next_arrival_ns(), far.arm()), (0, None, true));
    clock.set(1_000_000);
    assert_eq!((receive(&mut ends, &mut far, 4), far.counts().of("freeze")), (2, 1));
    ends.reap();
    ends.assert_all_home();
}

#[test]
fn the_rest_of_half_a_batch_comes_unannounced_with_the_next_call() {
    let mut rig = Rig::new("seed=3,half=1/2");
    rig.offer(10);
    rig.transmit(false);
    assert_eq!(rig.reap().0.len(), 10, "the first batch is whole");
    rig.offer(10);
    rig.transmit(false);
    let first = rig.reap().0;
    let count = first.len();
    assert!((1..10).contains(&count) && first.into_iter().eq(10..10 + count as u32));
    assert_eq!((rig.device.next_completion_ns(), rig.device.arm()), (Some(u64::MAX), true));
    assert_eq!((rig.device.outstanding(), rig.counts.of("half")), (10 - count, 1));
    assert!(rig.reap().0.into_iter().eq(10 + count as u32..20));
    rig.offer(1);
    rig.transmit(false);
    assert_eq!((rig.reap().0, rig.counts.total()), (vec![20], 1), "a single completion cannot be halved");
    rig.assert_home();
}

/// The completions of each call, of 50 batches that are all cut.
fn parts(seed: u64, more: &str) -> Vec<usize> {
    let mut rig = Rig::new(&format!("seed={seed},half=100%{more}"));
    let mut parts = Vec::new();
    for _ in 0..50 {
        rig.offer(12);
        rig.transmit(false);
        parts.extend([rig.reap().0.len(), rig.reap().0.len()]);
    }
    assert_eq!((rig.counts.of("half"), parts.iter().sum()), (50, 600));
    rig.assert_home();
    parts
}

#[test]
fn the_same_seed_cuts_at_the_same_places() {
    let first = parts(1, "");
    assert!(first.chunks(2).all(|parts| parts[0] > 0 && parts[0] + parts[1] == 12), "{first:?}");
    assert_eq!(first, parts(1, ""));
    assert_eq!(first, parts(1, ",short=1/1000000"), "whatever else may happen");
    assert_ne!(first, parts(2, ""));
}

#[test]
fn a_device_closed_between_the_halves_gives_the_rest_back() {
    let mut rig = Rig::new("half=100%,lost=1/2");
    rig.offer(20);
    rig.transmit(false);
    let first = rig.reap().0.len();
    assert!(first < 20);
    rig.device.close().unwrap();
    assert_eq!(rig.reap().0.len(), 20 - first);
    rig.assert_home();
}

#[test]
fn half_a_reception_leaves_the_rest_to_the_next_call() {
    let (mut ends, mut far, _) = receiving("half=1/2");
    for _ in 0..5 {
        ends.send(35);
        assert_eq!(receive(&mut ends, &mut far, 64), 35);
        // Calls that find nothing are no receptions.
        assert_eq!((receive(&mut ends, &mut far, 64), receive(&mut ends, &mut far, 64)), (0, 0));
        ends.send(35);
        let part = receive(&mut ends, &mut far, 64);
        assert!((1..=8).contains(&part));
        assert_eq!((far.arm(), far.next_arrival_ns(), far.wait_fd()), (true, None, None), "nothing is said");
        assert_eq!(receive(&mut ends, &mut far, 64), 35 - part);
        // The fourth reception would be cut, and is of one frame.
        ends.send(1);
        assert_eq!(receive(&mut ends, &mut far, 1), 1, "a budget of one cannot be halved");
        ends.send(1);
        receive(&mut ends, &mut far, 64);
        ends.reap();
    }
    assert!(far.counts().of("half") >= 5);
    ends.assert_all_home();
}
