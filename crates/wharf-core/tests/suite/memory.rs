//! Senders that wait for memory are served in order of arrival, as many as there are frames for, and none hoards
//! frames.

use crate::starved::Starved;
use proptest::prelude::*;
use std::sync::atomic::Ordering::SeqCst;
use wharf_core::wait::Wait;
use wharf_testkit::numbered;

#[test]
fn freed_frames_serve_as_many_waiters_in_order_of_arrival() {
    let mut rig = Starved::waiting(8, 6);
    rig.complete(1);
    assert_eq!(rig.log(), [0]);
    (0..20).for_each(|_| rig.queue.poll());
    assert_eq!(rig.log(), [0], "no herd");
    rig.complete(3);
    assert_eq!(rig.log(), [0, 1, 2, 3]);
    // Latecomers, and the sender that returned the frames, find none: they are reserved.
    let late = rig.join();
    assert!(!rig.sends(late) && !rig.sends(6));
    assert!(rig.waits(late));
    // Served senders come in any order; each finds one frame.
    for who in [2, 0, 3, 1] {
        assert!(rig.looks(who) && rig.sends(who), "{who}");
    }
    rig.complete(3);
    assert_eq!(rig.log(), [0, 1, 2, 3, 4, 5, late]);
    rig.end();
}

#[test]
fn waiter_gets_an_equal_part_up_to_its_want() {
    let mut rig = Starved::new(64, 3);
    let mut burst = numbered(&mut rig.senders[2].sender, 0, 64, 64);
    _ = rig.senders[2].sender.send(&mut burst, Wait::Forever).unwrap();
    for who in [0, 1] {
        // A failed request for 16 is waited for.
        let sender = &mut rig.senders[who].sender;
        assert_eq!(sender.fill(&mut burst, 16, 64, Wait::Never).unwrap(), 0);
        assert!(rig.waits(who));
    }
    rig.complete(40);
    assert_eq!(rig.log(), [0, 1]);
    let mut bursts = [rig.pool.burst(64), rig.pool.burst(64), rig.pool.burst(64)];
    let mut fill =
        |who: usize, count| rig.senders[who].sender.fill(&mut bursts[who], count, 64, Wait::Never).unwrap();
    // Frames without a waiter are for all.
    assert_eq!((fill(2, 64), fill(0, 16), fill(1, 16)), (8, 16, 16));
    drop(bursts);
    rig.end();
}

#[test]
fn waiter_that_gives_up_passes_its_frames_on() {
    let mut rig = Starved::waiting(8, 4);
    rig.complete(1);
    assert_eq!(rig.log(), [0]);
    rig.senders[0].watch = None;
    assert_eq!(rig.log(), [0, 1], "the next one, without anything completing");
    // A waiter that was not served: no other is woken.
    rig.senders[2].watch = None;
    assert_eq!(rig.log(), [0, 1]);
    // And one that dies with its frame.
    rig.senders.swap_remove(1);
    assert_eq!(rig.log(), [0, 1, 3]);
    rig.end();
}

#[test]
fn forgotten_waiter_keeps_only_frames_handed_to_it() {
    let mut rig = Starved::waiting(4, 3);
    std::mem::forget(rig.senders[0].watch.take());
    std::mem::forget(rig.senders[1].watch.take());
    rig.complete(3);
    assert_eq!(rig.log(), [0, 1, 2]);
    assert!(rig.looks(2) && rig.sends(2));
    // It returns without having waited.
    assert!(rig.sends(0));
    // Without waiters the queue no longer acts as if there were one.
    assert!(rig.waits(2), "one is with the sender that does nothing, the others are under way");
    rig.senders[2].watch = None;
    rig.complete(4);
    assert_eq!(rig.log(), [0, 1, 2]);
    rig.end();
}

/// Senders that send now and then must not hoard frames meanwhile.
#[test]
fn more_senders_than_frames_all_have_their_turn() {
    for (frames, senders) in [(32, 64), (8, 64), (100, 64), (256, 64), (300, 256), (1, 5)] {
        for late in [0, 3] {
            let mut rig = Starved::new(frames, senders);
            for round in 0..40 {
                for who in 0..senders {
                    let is_due = rig.senders[who].watch.is_none() || rig.looks(who);
                    if is_due && !rig.sends(who) {
                        rig.waits(who);
                    }
                    // Frames leave when the next ones do, or only when all have had a look.
                    if late == 0 || who % (late * senders) == late {
                        rig.complete(1 + late * senders);
                    }
                }
                if round == 0 {
                    let waked = rig.log().len();
                    assert!(waked <= 2 * senders, "{waked} wake-ups");
                }
            }
            let sent: Vec<f64> = rig.senders.iter().map(|one| one.sent as f64).collect();
            let (sum, squares) = (sent.iter().sum::<f64>(), sent.iter().map(|n| n * n).sum::<f64>());
            let jain = sum * sum / (senders as f64 * squares);
            assert!(jain >= 0.95, "{frames} frames, {senders} senders, {late}: {jain} of {sent:?}");
            let woken = rig.log().len() as f64;
            assert!(woken <= sum + senders as f64, "{woken} wake-ups for {sum} frames");
            rig.end();
        }
    }
}

/// Frames returned to the mailbox of an idle sender are called in.
#[test]
fn waiter_calls_in_frames_from_mailboxes() {
    let mut rig = Starved::new(16, 2);
    let mut other = rig.pool.cache("frees").unwrap();
    let mut burst = rig.pool.burst(16);
    assert_eq!(rig.senders[0].sender.fill(&mut burst, 16, 64, Wait::Never).unwrap(), 16);
    // A few at a time, so that they do go to the mailbox.
    let mut few = rig.pool.burst(1);
    assert!(few.push(burst.pop().unwrap()).is_ok());
    while let Some(frame) = few.pop() {
        drop(frame);
    }
    assert_eq!(rig.pool.depot_len(), 0, "it went home");
    assert!(other.packet(64).is_err());
    assert!(!rig.waits(1), "it is there at once");
    assert!(rig.sends(1));
    drop(burst);
    rig.end();
}

#[test]
fn sender_with_cached_frames_gives_them_up_with_its_next_packet() {
    let mut rig = Starved::new(64, 2);
    // It has had many in use, and has a share of them at hand now.
    let mut burst = numbered(&mut rig.senders[0].sender, 0, 64, 64);
    rig.control.allowed.store(usize::MAX / 2, SeqCst);
    _ = rig.senders[0].sender.send(&mut burst, Wait::Forever).unwrap();
    let mut rest = rig.pool.burst(64);
    while rig.senders[1].sender.fill(&mut rest, 64, 64, Wait::Never).unwrap() > 0 {}
    assert!(rig.waits(1), "the others are out of reach");
    assert!(rig.sends(0));
    assert_eq!(rig.log(), [1]);
    assert!(rig.looks(1) && rig.sends(1));
    drop(rest);
    rig.end();
}

#[derive(Debug, Clone)]
enum Act {
    Wait(usize),
    Come(usize),
    GiveUp(usize),
    Forget(usize),
    Die(usize),
    Complete(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let who = 0..12_usize;
    let act = prop_oneof![
        4 => who.clone().prop_map(Act::Wait),
        6 => who.clone().prop_map(Act::Come),
        1 => who.clone().prop_map(Act::GiveUp),
        1 => who.clone().prop_map(Act::Forget),
        1 => who.prop_map(Act::Die),
        4 => (1..4_usize).prop_map(Act::Complete),
    ];
    prop::collection::vec(act, 1..200)
}

/// Completes frames until no sender waits.
fn serve_all(rig: &mut Starved) -> Result<(), TestCaseError> {
    let mut rounds = 0;
    while rig.senders.iter().any(|one| one.watch.is_some()) {
        rig.complete(1);
        for who in 0..rig.senders.len() {
            if rig.senders[who].watch.is_none() {
                // A sender that does not fetch its frames sends now and then.
                rig.sends(who);
            } else if rig.looks(who) {
                prop_assert!(rig.sends(who));
            }
        }
        rounds += 1;
        prop_assert!(rounds < 1000, "a sender waits for ever");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Waiters are served in order of arrival whatever others do; each served one finds a frame, and all are served
    /// in the end.
    #[test]
    fn any_order_of_events_serves_all_in_order_of_arrival(frames in 1..20_u32, acts in acts()) {
        let mut rig = Starved::new(frames, 12);
        // Open waits in order, with their senders, and the wait of each sender.
        let mut line: Vec<(usize, usize)> = Vec::new();
        let (mut own, mut waits, mut read) = ([usize::MAX; 12], 0, 0);
        for act in acts {
            match act {
                Act::Wait(who) if rig.senders[who].watch.is_none() && !rig.sends(who) => {
                    (own[who], waits) = (waits, waits + 1);
                    if rig.waits_as(who, own[who]) {
                        line.push((own[who], who));
                    }
                }
                Act::Come(who) if rig.senders[who].watch.is_some() => {
                    let was_served = !line.contains(&(own[who], who));
                    let has_come = rig.looks(who);
                    prop_assert!(has_come || !was_served, "{who} was woken without a frame");
                    if has_come {
                        line.retain(|other| other.0 != own[who]);
                        prop_assert!(rig.sends(who), "{who} was served without a frame");
                    }
                }
                Act::GiveUp(who) if rig.senders[who].watch.is_some() => {
                    line.retain(|other| other.0 != own[who]);
                    rig.senders[who].watch = None;
                }
                Act::Forget(who) => {
                    // It stays on the list.
                    let forgotten = rig.senders[who].watch.take();
                    rig.limbo.extend(forgotten);
                }
                Act::Die(who) => {
                    line.retain(|other| other.1 != who);
                    rig.senders[who].watch = None;
                    let sender = rig.queue.sender("comes").unwrap();
                    rig.senders[who].sender = sender;
                }
                Act::Complete(frames) => rig.complete(frames),
                _ => {}
            }
            let log = rig.log();
            for name in &log[read..] {
                if let Some(at) = line.iter().position(|other| other.0 == *name) {
                    prop_assert!(at == 0, "{:?} before {:?}", line[at], &line[..at]);
                    line.remove(0);
                }
            }
            read = log.len();
        }
        serve_all(&mut rig)?;
        rig.end();
    }
}
