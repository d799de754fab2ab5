//! Memory held by stopped senders while others wait for it: idle senders, queues without an owner, unused wake-ups.

use crate::starved::Starved;
use std::sync::atomic::Ordering::SeqCst;
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_testkit::gate::Gate;
use wharf_testkit::{builder, numbered};

/// Time to fetch handed frames, ns.
const PATIENCE_NS: u64 = 100_000_000;

#[test]
fn stopped_senders_leave_frames_for_the_last_one() {
    for frames in [8, 64, 256, 1000, 4096] {
        let mut rig = Starved::new(frames, 0);
        for _ in 0..40 {
            let who = rig.join();
            assert!(rig.comes_by_one(who), "{frames} frames: {who} senders before have all of them");
            rig.complete(1);
            rig.has_its_fill(who);
        }
        let late = [(); 3].map(|()| rig.join());
        for who in late {
            assert!(rig.comes_by_one(who), "{frames} frames");
        }
        rig.complete(3);
        rig.end();
    }
}

/// All frames lie in the device of a queue whose only sender has stopped.
fn stranded_elsewhere(
    rig: &Starved,
) -> (TxQueue, wharf_core::sender::Sender, std::sync::Arc<wharf_testkit::gate::Control>) {
    let (gate, control) = Gate::new(1024);
    let queue = builder(&rig.pool, gate).build().unwrap();
    queue.apply(|run| run.set_bql(None));
    let mut sender = queue.sender("stopped").unwrap();
    let mut burst = numbered(&mut sender, 0, rig.pool.frames() as usize, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    (queue, sender, control)
}

#[test]
fn waiter_reaps_peer_queues_without_an_owner() {
    let mut rig = Starved::new(16, 2);
    let (queue, sender, control) = stranded_elsewhere(&rig);
    assert!(rig.waits(0) && rig.waits(1), "the device has all");
    control.allowed.store(16, SeqCst);
    // They look now and then, as senders do on a queue without a poller.
    for who in [0, 1] {
        assert!((0..10).any(|_| rig.looks(who)) && rig.sends(who), "{who}");
    }
    drop((queue, sender));
    rig.end();
}

#[test]
fn dedicated_owner_reaps_peer_queues_without_an_owner() {
    let mut rig = Starved::new(16, 2);
    let (queue, sender, control) = stranded_elsewhere(&rig);
    let driven = rig.queue.clone();
    let mut owner = driven.dedicate().unwrap();
    assert!(rig.waits(0) && rig.waits(1), "the device has all");
    (0..1000).for_each(|_| _ = owner.poll());
    control.allowed.store(2, SeqCst);
    (0..1000).for_each(|_| _ = owner.poll());
    assert_eq!(rig.log(), [0, 1], "they sleep until they are woken");
    drop(owner);
    for who in [0, 1] {
        assert!(rig.looks(who) && rig.sends(who), "{who}");
    }
    drop((queue, sender));
    rig.end();
}

#[test]
fn frames_not_fetched_in_time_go_to_the_next_waiter() {
    let mut rig = Starved::waiting(4, 3);
    rig.complete(1);
    assert_eq!(rig.log(), [0]);
    rig.clock.0.store(PATIENCE_NS - 1, SeqCst);
    rig.queue.poll();
    assert_eq!(rig.log(), [0], "it has time");
    rig.clock.0.store(PATIENCE_NS, SeqCst);
    rig.queue.poll();
    assert_eq!(rig.log(), [0, 1]);
    assert!(rig.looks(1) && rig.sends(1));
    // A latecomer joins the list again, behind those that have waited.
    assert!(!rig.looks(0));
    rig.complete(1);
    assert_eq!(rig.log(), [0, 1, 2]);
    rig.complete(1);
    assert_eq!(rig.log(), [0, 1, 2, 0]);
    for who in [0, 2] {
        assert!(rig.looks(who) && rig.sends(who), "{who}");
    }
    rig.end();
}

/// A waiter may be busy elsewhere when its turn comes.
#[test]
fn frames_fetched_but_not_taken_in_time_go_to_the_next_waiter() {
    let mut rig = Starved::waiting(4, 3);
    rig.complete(1);
    assert!(rig.looks(0), "its wait is over, and the frame lies where it was handed to it");
    rig.clock.0.store(PATIENCE_NS - 1, SeqCst);
    rig.queue.poll();
    assert_eq!(rig.log(), [0], "it has time to take it");
    rig.clock.0.store(PATIENCE_NS, SeqCst);
    rig.queue.poll();
    assert_eq!(rig.log(), [0, 1]);
    assert!(rig.looks(1) && rig.sends(1));
    assert!(!rig.sends(0), "others have it");
    rig.complete(4);
    assert!(rig.looks(2) && rig.sends(2) && rig.sends(0));
    rig.end();
}

/// Frames that a sender has waited for, and waits for again, stay its own for the usual time.
#[test]
fn waiter_that_waits_again_has_its_time_again() {
    let mut rig = Starved::waiting(4, 3);
    rig.complete(1);
    assert!(rig.looks(0) && rig.sends(0));
    rig.clock.0.store(PATIENCE_NS / 2, SeqCst);
    assert!(rig.waits(0));
    (0..3).for_each(|_| rig.complete(1));
    assert_eq!(rig.log(), [0, 1, 2, 0]);
    assert!(rig.looks(1) && rig.looks(2) && rig.sends(1) && rig.sends(2));
    assert!(rig.waits(1));
    rig.clock.0.store(PATIENCE_NS, SeqCst);
    rig.queue.poll();
    assert_eq!(rig.log(), [0, 1, 2, 0], "frames handed to it before are long gone, and this one is not due");
    rig.clock.0.store(PATIENCE_NS + PATIENCE_NS / 2, SeqCst);
    rig.queue.poll();
    assert_eq!(rig.log(), [0, 1, 2, 0, 1]);
    assert!(!rig.looks(0) && rig.looks(1) && rig.sends(1));
    rig.complete(4);
    assert!(rig.looks(0) && rig.sends(0));
    rig.end();
}

#[test]
fn handed_frames_stay_while_no_other_waits() {
    let mut rig = Starved::waiting(4, 1);
    rig.complete(1);
    rig.clock.0.store(10 * PATIENCE_NS, SeqCst);
    (0..10).for_each(|_| rig.queue.poll());
    assert!(rig.looks(0) && rig.sends(0));
    rig.end();
}

#[test]
fn waiter_takes_frames_from_its_own_return_ring() {
    for takes in 1..=16 {
        let mut rig = Starved::new(16, 2);
        for _ in 0..takes {
            assert!(rig.sends(0));
        }
        let mut rest = rig.pool.burst(16);
        while let Ok(packet) = rig.pool.packet(64) {
            rest.push(packet).unwrap();
        }
        while let Ok(packet) = rig.senders[0].sender.packet(64, Wait::Never) {
            rest.push(packet).unwrap();
        }
        // One is in its return ring before an owner knows that it waits.
        let (logs, log) = (wharf_testkit::threads::Logs, rig.log.clone());
        let mut begun = rig.senders[0].sender.watch_memory(std::sync::Arc::new(logs(0, log)));
        rig.complete(1);
        assert!(rig.waits(1));
        rig.senders[0].sender.look(&mut begun).unwrap().unwrap();
        assert!(rig.sends(0), "{takes}: its frame had come, and has gone to the next waiter");
        drop((begun, rest));
        rig.end();
    }
}

#[test]
fn direct_path_gives_up_unused_frames() {
    let mut rig = Starved::new(64, 1);
    let (gate, _control) = Gate::open(1024);
    let mut direct = builder(&rig.pool, gate).build_direct().unwrap();
    let mut burst = direct.burst(64);
    assert_eq!(direct.fill(&mut burst, 16, 64, Wait::Never).unwrap(), 16);
    _ = direct.send(&mut burst, Wait::Forever).unwrap();
    direct.poll();
    let mut rest = rig.pool.burst(64);
    while let Ok(packet) = rig.senders[0].sender.packet(64, Wait::Never) {
        rest.push(packet).unwrap();
    }
    assert!(rest.len() < 64, "some lie with the other");
    assert!(rig.waits(0));
    for _ in 0..16 {
        direct.fill(&mut burst, 1, 64, Wait::Never).unwrap();
        _ = direct.send(&mut burst, Wait::Forever).unwrap();
        if !rig.log().is_empty() {
            break;
        }
    }
    assert_eq!(rig.log(), [0]);
    assert!(rig.looks(0) && rig.sends(0));
    drop(rest);
    drop(direct);
    rig.end();
}
