//! A dedicated owner: it polls tails, and sleeps only where every sender is sure to wake it.

use crate::path::{Owner, Path};
use crate::{Stock, Witness, check};
use loom::sync::Arc;
use loom::thread;
use wharf_mem::Published;
use wharf_mem::word::{CONTROL, WORK};

/// Looks at every tail and at the notices; whether there was anything.
fn look(owner: &mut Owner<'_>) -> bool {
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
    let Published::Owner(owner) = path.cell.claim(0) else { unreachable!("nobody else is there yet") };
    owner
}

/// Polls, arms, looks again, sleeps, until `count` frames have come.
fn poll_until(path: &Path, owner: &mut Owner<'_>, count: usize, rechecks: bool) {
    loop {
        look(owner);
        if owner.with(|inside| inside.taken()) == count {
            return;
        }
        owner.arm();
        if !(rechecks && look(owner)) {
            path.bell.wait();
        }
        owner.disarm();
    }
}

/// Two frames to an owner that becomes dedicated meanwhile, polls, and goes.
fn two_frames_to_a_sleeper(rechecks: bool) {
    let stock = Stock::new();
    check(move || {
        let (path, [mut lane_0, _lane_1]) = Path::new();
        let path = Arc::new(path);
        let mut owner = first_owner(&path);
        let (theirs, frames) = (path.clone(), stock.frames(0, 2));
        let sender = thread::spawn(move || theirs.send(0, &mut lane_0, frames, serve));
        owner.dedicate();
        poll_until(&path, &mut owner, 2, rechecks);
        owner.undedicate();
        serve(&path, owner);
        sender.join().unwrap();
        path.finish(&stock).assert_idle_and_empty([2, 0]);
    });
}

/// A lost wake-up would be a deadlock, which loom finds.
#[test]
fn a_sleeping_owner_is_woken() {
    two_frames_to_a_sleeper(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn sleeping_without_a_last_look_would_be_found() {
    two_frames_to_a_sleeper(false);
}

/// A control message, or a waiter, wakes a sleeping owner as a packet does.
#[test]
fn a_notice_wakes_a_sleeping_owner() {
    let stock = Stock::new();
    check(move || {
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

/// An owner that stops being dedicated, and then looks at every tail before it leaves, or does not; whether any
/// interleaving strands a frame.
fn stops_being_dedicated(looks: bool) -> bool {
    let (stock, stranded) = (Stock::new(), Witness::default());
    let witness = stranded.clone();
    check(move || {
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
    });
    stranded.happened()
}

#[test]
fn stopping_to_be_dedicated_strands_nothing() {
    assert!(!stops_being_dedicated(true));
}

#[test]
fn leaving_without_a_last_look_would_be_found() {
    assert!(stops_being_dedicated(false));
}
