//! Rings, doorbells and memory, call by call.

use std::sync::Arc;
use wharf_core::device::{Device, DeviceError, RxDevice, Transmitted, TxDevice};
use wharf_devices::wire::{WireSpec, wire};
use wharf_mem::Batch;
use wharf_testkit::ends::Ends;
use wharf_testkit::pool;
use wharf_testkit::threads::UnreadClock;

fn spec(ring: u32) -> WireSpec {
    WireSpec::default().clock(Arc::new(UnreadClock)).ring(ring).unwrap()
}

#[test]
fn a_full_ring_stops_the_sender_and_loses_nothing() {
    for start in [0, u32::MAX - 2] {
        let mut ends = Ends::new(&spec(4).index_start(start));
        assert_eq!(ends.send(3), Transmitted { doorbell: true, stopped: false });
        assert_eq!(ends.send(3), Transmitted { doorbell: true, stopped: true });
        assert_eq!(
            (ends.batch.len(), ends.near.outstanding()),
            (2, 4),
            "frames that do not fit stay in the batch"
        );
        assert_eq!(ends.send(0), Transmitted { doorbell: false, stopped: true });
        assert_eq!(ends.reap().0, [0u32; 0], "nothing has left: the far end has not taken it");
        assert_eq!(ends.receive(2), [0, 1]);
        assert_eq!(
            ends.send(0),
            Transmitted { doorbell: false, stopped: true },
            "room comes with the reaping"
        );
        assert_eq!(ends.reap().0, [0, 1]);
        assert_eq!(ends.send(0), Transmitted { doorbell: true, stopped: true });
        assert_eq!(ends.receive(9), [2, 3, 4, 5]);
        assert_eq!(ends.reap(), (vec![2, 3, 4, 5], vec![]));
        ends.assert_all_home();
    }
}

#[test]
fn both_directions_are_one_anothers_equal() {
    let (mut left, mut right) = wire(&spec(8));
    let pool = pool(64);
    let mut cache = pool.cache("both").unwrap();
    let (mut batch, mut received) = (Batch::new(8), Batch::new(8));
    left.attach(pool.region().clone()).unwrap();
    right.attach(pool.region().clone()).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut left, &mut right];
        cache.take(&mut batch, 5, 100).unwrap();
        ends[from].transmit(&mut batch, false);
        assert_eq!(
            ends[from].receive(&mut cache, &mut received, 8).unwrap(),
            0,
            "nothing comes back to the sender"
        );
        assert_eq!(ends[to].receive(&mut cache, &mut received, 8).unwrap(), 5);
        cache.give(&mut received).unwrap();
        let mut done = wharf_core::device::Completions::new(8);
        ends[from].reap(8, false, &mut done).unwrap();
        assert_eq!(done.len(), 5);
        cache.give(&mut done.sent).unwrap();
    }
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn frames_wait_for_their_doorbell() {
    let mut ends = Ends::new(&spec(4));
    ends.offer(6);
    let mut first = Batch::new(2);
    first.append(&mut ends.batch, 2);
    assert_eq!(ends.near.transmit(&mut first, true), Transmitted { doorbell: false, stopped: false });
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert!(ends.near.flush());
    assert!(!ends.near.flush(), "one doorbell is enough");
    assert_eq!(ends.receive(9), [0, 1]);

    first.append(&mut ends.batch, 1);
    ends.near.transmit(&mut first, true);
    assert_eq!(ends.receive(9), [0u32; 0]);
    first.append(&mut ends.batch, 1);
    assert_eq!(ends.near.transmit(&mut first, false), Transmitted { doorbell: true, stopped: true });
    assert_eq!(ends.receive(9), [2, 3], "a later doorbell is for all before it");

    ends.reap();
    ends.offer(2);
    let rung = ends.near.transmit(&mut ends.batch, true);
    assert_eq!(
        rung,
        Transmitted { doorbell: true, stopped: true },
        "it rings as it stops, with or without `more`"
    );
    assert_eq!(ends.receive(9), [4, 5, 6, 7]);
    ends.reap();
    ends.assert_all_home();
}

#[test]
fn a_receiver_without_memory_lets_frames_wait() {
    let mut ends = Ends::with(&spec(16), pool(64), pool(4));
    ends.send(10);
    let mut kept = Batch::new(8);
    let far = ends.far.as_mut().unwrap();
    assert_eq!(far.receive(&mut ends.to, &mut kept, 8).unwrap(), 4, "as many as it has memory for");
    assert_eq!(far.receive(&mut ends.to, &mut kept, 4).unwrap(), 0);
    assert!(!far.ended());
    assert_eq!(ends.reap().0, [0, 1, 2, 3], "only these have left");
    ends.to.give(&mut kept).unwrap();
    assert_eq!(ends.receive(9), [4, 5, 6, 7]);
    assert_eq!(ends.receive(9), [8, 9]);
    assert_eq!(ends.reap().0, [4, 5, 6, 7, 8, 9]);
    ends.assert_all_home();
}

#[test]
fn budgets_and_room_bound_every_call() {
    let mut ends = Ends::new(&spec(64));
    ends.send(20);
    assert_eq!(ends.receive(3), [0, 1, 2]);
    let (mut small, far) = (Batch::new(5), ends.far.as_mut().unwrap());
    assert_eq!(far.receive(&mut ends.to, &mut small, 9).unwrap(), 5, "the room in the batch");
    assert_eq!(far.receive(&mut ends.to, &mut small, 9).unwrap(), 0);
    ends.to.give(&mut small).unwrap();
    assert_eq!(ends.receive(100).len(), 12);
    let mut done = wharf_core::device::Completions::new(6);
    ends.near.reap(4, false, &mut done).unwrap();
    assert_eq!(done.len(), 4);
    ends.near.reap(4, false, &mut done).unwrap();
    assert_eq!(done.len(), 6, "the room in the completions");
    ends.from.give(&mut done.sent).unwrap();
    assert_eq!(ends.reap().0.len(), 14);
    ends.assert_all_home();
}

#[test]
fn an_end_is_attached_once_and_before_it_sends() {
    let mut ends = Ends::new(&spec(2));
    let again = ends.near.attach(ends.near_pool.region().clone());
    assert!(matches!(again, Err(DeviceError::Unsupported { .. })));

    let (mut near, mut far) = wire(&spec(2));
    ends.offer(1);
    near.transmit(&mut ends.batch, false);
    assert_eq!(far.receive(&mut ends.to, &mut ends.received, 1).unwrap(), 0);
    near.reap(8, false, &mut ends.done).unwrap();
    assert_eq!(ends.done.failed[0].1, "not-attached");
    let (frame, _) = ends.done.failed.pop().unwrap();
    ends.from.give_one(frame).unwrap();
    ends.assert_all_home();
}

#[test]
fn a_frame_of_another_pool_fails_and_comes_back() {
    let mut ends = Ends::new(&spec(8));
    let stranger = pool(4);
    let mut cache = stranger.cache("stranger").unwrap();
    ends.offer(2);
    cache.take(&mut ends.batch, 1, 60).unwrap();
    ends.offer(1);
    ends.near.transmit(&mut ends.batch, false);
    assert_eq!(ends.receive(9), [0, 1, 2]);
    ends.near.reap(9, false, &mut ends.done).unwrap();
    let (frame, reason) = ends.done.failed.pop().unwrap();
    assert_eq!((reason, ends.done.sent.len()), ("foreign-pool", 3));
    cache.give_one(frame).unwrap();
    ends.from.give(&mut ends.done.sent).unwrap();
    assert_eq!(stranger.audit().out(), 0);
    ends.assert_all_home();
}
