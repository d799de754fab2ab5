//! Audits of a pool whose frames are in a device, with the user, or in return rings.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::pool::Holder;
use wharf_core::sender::SendError;
use wharf_core::wait::Wait;
use wharf_mem::Batch;
use wharf_testkit::gate::Gate;
use wharf_testkit::{assert_conserved, builder, numbered, pool};

#[test]
fn shutdown_returns_frames_not_taken_and_names_holders_of_the_rest() {
    let (gate, _control) = Gate::new(8);
    let pool = pool(256);
    let queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("a stuck one").unwrap();
    for n in 0..5 {
        let mut burst = numbered(&mut sender, n * 10, 10, 100);
        _ = sender.send(&mut burst, Wait::Never).unwrap();
    }
    let held = sender.packet(60, Wait::Never).unwrap();
    let before = queue.audit();
    let with = |place| before.held.iter().filter(|held| held.place == Some(place)).count();
    assert_eq!((with(Holder::Device), before.out()), (1, 51), "BQL lets one packet out at first");
    assert!(before.to_string().contains("with user (taken by a stuck one)"), "{before}");
    let after = queue.shutdown(Duration::ZERO);
    assert_eq!(after.out(), 1, "{after}");
    let mut burst = sender.burst(1);
    assert!(matches!(sender.send(&mut burst, Wait::Forever), Err(SendError::Closed)));
    drop(held);
    drop(sender);
    assert_conserved(&queue);
    assert_eq!(queue.counters().returned.get(), 49);
}

#[test]
fn audit_takes_late_completions_first() {
    let (gate, control) = Gate::new(8);
    let pool = pool(64);
    let queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    let mut burst = numbered(&mut sender, 0, 1, 100);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    let audit = queue.audit();
    assert_eq!((audit.out(), audit.held[0].place), (1, Some(Holder::Device)), "{audit}");
    // It completes with neither a poller nor another send to see it.
    control.allowed.store(1, SeqCst);
    let audit = queue.audit();
    assert_eq!(audit.to_string(), "0 of 64 frames out; 1 free, for their senders to fetch");
    // The same after the end.
    let mut burst = numbered(&mut sender, 1, 1, 100);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    drop(sender);
    assert_eq!(queue.shutdown(Duration::ZERO).out(), 0, "the gate opens as it closes");
    assert_conserved(&queue);
}

#[test]
fn frames_freed_on_another_thread_return_to_their_cache() {
    let pool = pool(32);
    let (mut taker, mut giver) = (pool.cache("taker").unwrap(), pool.cache("giver").unwrap());
    let mut batch = Batch::new(64);
    for _ in 0..10 {
        assert!(taker.take(&mut batch, 32, 64).unwrap() >= 28, "{}", pool.audit());
        giver.give(&mut batch).unwrap();
    }
    drop((taker, giver));
    assert_eq!((pool.audit().out(), pool.free()), (0, 32));
}

#[test]
fn frames_in_a_return_ring_do_not_count_as_out() {
    let pool = pool(64);
    let queue = builder(&pool, Gate::open(64).0).build().unwrap();
    let mut sender = queue.sender("lives").unwrap();
    let mut burst = numbered(&mut sender, 0, 32, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    sender.wait_for_memory(Wait::Forever).unwrap();
    let audit = queue.shutdown(Duration::MAX);
    assert_eq!(audit.out(), 0, "{audit}");
    drop(sender);
    assert_conserved(&queue);
}
