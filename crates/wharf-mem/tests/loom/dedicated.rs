//! A dedicated owner: it polls tails, and sleeps only if every sender will wake it.

use crate::path::{Owner, Path};
use crate::{OF_TWO_THREADS, Stock, check, may};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use wharf_mem::Published;
use wharf_mem::word::{ARMED, CONTROL, WORK};

/// Reads every tail and the notices, and returns true if there was work.
fn look(owner: &mut Owner<'_>) -> bool {
    // core/poller/dedicated.rs poll: let bits = owned.take_bits(WORK);
    // core/poller/dedicated.rs poll: let (packets, pause) = state.engine.transmit(&mut state.lanes, quota);
    owner.take_bits(WORK) | owner.with(|inside| inside.drain(usize::MAX)) as u64 != 0
}

fn serve(_: &Path, mut owner: Owner<'_>) {
    loop {
        look(&mut owner);
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

fn first_owner(path: &Path) -> Owner<'_> {
    let Published::Owner(owner) = path.cell.claim(0) else { unreachable!("the only thread so far") };
    owner
}

/// Two frames to an owner that becomes dedicated meanwhile, and that reads the tails once more after arming,
/// or does not. Returns true if some interleaving leaves it asleep, armed, with frames published and no
/// thread about to wake it.
fn sleeps_through_a_frame(looks: bool) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let (path, [mut lane_0, _lane_1]) = Path::new();
        let (path, sent_all) = (Arc::new(path), Arc::new(AtomicBool::new(false)));
        let mut owner = first_owner(&path);
        let (theirs, frames, done) = (path.clone(), stock.frames(0, 2), sent_all.clone());
        let sender = thread::spawn(move || {
            theirs.send(0, &mut lane_0, frames, serve);
            done.store(true, Ordering::Release);
            theirs.bell.notify(); // ends the sleep, so that the model can report it
        });
        owner.dedicate();
        while !polled_all(&mut owner, 2) {
            // core/poller/dedicated.rs poll_or_sleep: owned.arm();
            owner.arm();
            // core/poller/dedicated.rs poll_or_sleep: let late = owned.with(|state| state.lanes.len() > 0 || state.is_pending());
            // core/poller/dedicated.rs poll_or_sleep: if !late && owned.peek_bits(CONTROL | WAIT) == 0 {
            if !(looks && look(&mut owner)) {
                path.bell.wait();
                let over = sent_all.load(Ordering::Acquire);
                let asleep = path.cell.word() & ARMED != 0;
                witness.note(over && asleep && owner.with(|inside| inside.left()) != 0);
            }
            // core/poller/dedicated.rs poll_or_sleep: owned.disarm();
            owner.disarm();
        }
        // core/poller/dedicated.rs drop: owned.undedicate();
        owner.undedicate();
        // core/poller/dedicated.rs drop: crate::host::outlive(|| _ = QdiscRun::new(self.shared, owned, READY).finish());
        serve(&path, owner);
        sender.join().unwrap();
        path.finish(&stock).assert_idle_and_empty([2, 0]);
    })
}

fn polled_all(owner: &mut Owner<'_>, count: usize) -> bool {
    look(owner);
    owner.with(|inside| inside.taken()) == count
}

#[test]
fn a_frame_wakes_a_sleeping_owner() {
    assert!(!sleeps_through_a_frame(true));
}

#[test]
fn sleeping_without_a_last_look_is_found() {
    assert!(sleeps_through_a_frame(false));
}

/// A control message, or a waiter, wakes a sleeping owner as a packet does. A lost wake-up would be a
/// deadlock, which loom finds.
#[test]
fn a_notice_wakes_a_sleeping_owner() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (path, _lanes) = Path::new();
        let path = Arc::new(path);
        let mut owner = first_owner(&path);
        owner.dedicate();
        let theirs = path.clone();
        let asker = thread::spawn(move || match theirs.cell.claim(CONTROL) {
            Published::WakeOwner => theirs.bell.notify(),
            Published::Seen => {}
            Published::Owner(_) | Published::Dead => unreachable!("the owner is there all along"),
        });
        while owner.take_bits(CONTROL) == 0 {
            owner.arm();
            if path.cell.word() & CONTROL == 0 {
                path.bell.wait();
            }
            owner.disarm();
        }
        owner.undedicate();
        serve(&path, owner);
        asker.join().unwrap();
        path.finish(&stock).assert_idle_and_empty([0, 0]);
    });
}

/// A claim without work, whose caller wakes nobody, leaves the owner to be woken by the next frame.
#[test]
fn a_claim_without_work_takes_no_wake_up_from_a_frame() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (path, [mut lane_0, _lane_1]) = Path::new();
        let path = Arc::new(path);
        let mut owner = first_owner(&path);
        owner.dedicate();
        let (theirs, frames) = (path.clone(), stock.frames(0, 1));
        let asker = thread::spawn(move || {
            // core/tx/queue.rs poll: if let Published::Owner(owned) = self.shared.cell().claim(0) {
            assert!(matches!(theirs.cell.claim(0), Published::Seen));
            theirs.send(0, &mut lane_0, frames, serve);
        });
        while !polled_all(&mut owner, 1) {
            owner.arm();
            if !look(&mut owner) {
                path.bell.wait();
            }
            owner.disarm();
        }
        owner.undedicate();
        serve(&path, owner);
        asker.join().unwrap();
        path.finish(&stock).assert_idle_and_empty([1, 0]);
    });
}

/// An owner that stops being dedicated, and then reads every tail before it leaves, or does not. Returns true
/// if some interleaving strands a frame.
fn stops_being_dedicated(looks: bool) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let (path, [mut lane_0, _lane_1]) = Path::new();
        let path = Arc::new(path);
        let mut owner = first_owner(&path);
        owner.dedicate();
        let (theirs, frames) = (path.clone(), stock.frames(0, 2));
        let sender = thread::spawn(move || theirs.send(0, &mut lane_0, frames, serve));
        look(&mut owner);
        owner.undedicate();
        match (looks, owner) {
            (true, owner) => serve(&path, owner),
            (false, owner) => _ = owner.leave().map_err(|back| serve(&path, back)),
        }
        sender.join().unwrap();
        let outcome = path.finish(&stock);
        witness.note(outcome.stranded != 0);
        if outcome.stranded == 0 {
            outcome.assert_idle_and_empty([2, 0]);
        }
    })
}

#[test]
fn an_owner_that_stops_being_dedicated_strands_no_frame() {
    assert!(!stops_being_dedicated(true));
}

#[test]
fn leaving_without_a_last_look_is_found() {
    assert!(stops_being_dedicated(false));
}
