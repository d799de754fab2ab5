//! Ownership of the path: senders that become owners, a named successor, and senders that wait for space.

use crate::path::{LANES, Owner, Path, Serve};
use crate::{OF_THREE_THREADS, OF_TWO_THREADS, Stock, Witness, check, may};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use wharf_mem::lane::LaneProducer;
use wharf_mem::word::{READY, WAIT, WORK, ready_bit};
use wharf_mem::{Batch, Published};

/// The protocol: clears bits, then reads tails, then leaves, and repeats if that fails.
fn serve(_: &Path, mut owner: Owner<'_>) {
    loop {
        // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
        owner.take_bits(WORK);
        // core/tx/queue/qdisc_run.rs step_by: let (packets, pause) = owned.with(|state| state.engine.transmit(&mut state.lanes, quota));
        owner.with(|inside| inside.drain(usize::MAX));
        // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

/// The mistake that the protocol prevents: a frame published after its tail was read loses its bit.
fn serve_clearing_late(_: &Path, mut owner: Owner<'_>) {
    loop {
        owner.with(|inside| inside.drain(usize::MAX));
        owner.take_bits(WORK);
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

/// Two senders, each with its lane. Returns true if some interleaving strands a frame.
fn two_senders(serve: Serve, sent: [u32; LANES]) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let (path, [mut lane_0, mut lane_1]) = Path::new();
        let path = Arc::new(path);
        let theirs = (path.clone(), stock.frames(1, sent[1]));
        let sender = thread::spawn(move || theirs.0.send(1, &mut lane_1, theirs.1, serve));
        path.send(0, &mut lane_0, stock.frames(0, sent[0]), serve);
        sender.join().unwrap();
        let outcome = path.finish(&stock);
        witness.note(outcome.stranded != 0);
        if outcome.stranded == 0 {
            outcome.assert_idle_and_empty(sent);
        }
    })
}

#[test]
fn an_idle_path_has_no_frame() {
    assert!(!two_senders(serve, [2, 2]));
}

#[test]
fn clearing_bits_after_reading_tails_is_found() {
    assert!(two_senders(serve_clearing_late, [2, 2]));
}

/// Takes one frame per lane, then names the poller as its successor if there is more.
fn serve_within_quota(path: &Path, mut owner: Owner<'_>) {
    loop {
        owner.take_bits(WORK);
        let more = owner.with(|inside| {
            inside.drain(1);
            inside.left() != 0
        });
        if more {
            assert!(matches!(path.cell.claim(READY), Published::Seen));
            // After the last change of the word: the hand-over alone must release the value.
            // core/tx/queue/qdisc_run/hand_over.rs hand_over: self.before_release();
            owner.with(|inside| inside.hand_overs += 1);
            // core/tx/queue/qdisc_run/hand_over.rs hand_over: owned.hand_over();
            owner.hand_over();
            // core/tx/queue/qdisc_run/hand_over.rs hand_over: self.after_release();
            return path.bell.notify();
        }
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

/// A sender with a quota, one without, and a poller that comes when it is named, if it listens. Returns true
/// if some interleaving strands a frame.
fn with_successor(listens: bool, sent: [u32; LANES]) -> bool {
    let stock = Stock::new();
    may(OF_THREE_THREADS, move |witness| {
        let (path, [mut lane_0, mut lane_1]) = Path::new();
        let (path, closing) = (Arc::new(path), Arc::new(AtomicBool::new(false)));
        let theirs = (path.clone(), stock.frames(1, sent[1]));
        let sender = thread::spawn(move || theirs.0.send(1, &mut lane_1, theirs.1, serve_within_quota));
        let polled = (path.clone(), closing.clone());
        let poller = listens.then(|| thread::spawn(move || poll(&polled.0, &polled.1)));
        path.send(0, &mut lane_0, stock.frames(0, sent[0]), serve_within_quota);
        sender.join().unwrap();
        closing.store(true, Ordering::Release);
        if let Some(poller) = poller {
            path.bell.notify();
            poller.join().unwrap();
        }
        let outcome = path.finish(&stock);
        witness.note(outcome.stranded != 0);
        if outcome.stranded == 0 && listens {
            outcome.assert_idle_and_empty(sent);
        }
    })
}

/// Claims the path whenever the poller is named, until the path closes.
fn poll(path: &Path, closing: &AtomicBool) {
    loop {
        let last = closing.load(Ordering::Acquire);
        if let Published::Owner(owner) = path.cell.claim(0) {
            serve(path, owner);
        }
        if last {
            return;
        }
        path.bell.wait();
    }
}

#[test]
fn a_named_successor_takes_the_frames_left() {
    assert!(!with_successor(true, [2, 1]));
}

/// Leaving with ready bits set, and without a successor, strands frames.
#[test]
fn leaving_with_bits_set_and_no_successor_is_found() {
    assert!(with_successor(false, [2, 1]));
}

/// Serves, and wakes the waiter once its space is published. Returns true if a waiter made it look again.
fn serve_and_wake(path: &Path, mut owner: Owner<'_>) -> bool {
    let mut looked_again = false;
    loop {
        let bits = owner.take_bits(WORK);
        owner.with(|inside| inside.drain(usize::MAX));
        if bits & WAIT != 0 {
            path.bell.notify();
        }
        match owner.leave() {
            Ok(()) => return looked_again,
            Err(back) => owner = back,
        }
        looked_again |= path.cell.word() & WAIT != 0;
    }
}

/// Sends more frames than the lane holds. When the lane is full, sets WAIT, looks again, and sleeps. Returns
/// true if it slept.
fn send_waiting(path: &Path, lane: usize, lane_in: &mut LaneProducer, mut frames: Batch) -> bool {
    let mut slept = false;
    loop {
        lane_in.push(&mut frames);
        if let Published::Owner(owner) = path.cell.publish(ready_bit(lane)) {
            serve_and_wake(path, owner);
        }
        if frames.is_empty() {
            return slept;
        }
        match path.cell.claim(WAIT) {
            Published::Owner(owner) => _ = serve_and_wake(path, owner),
            _ if lane_in.room() != 0 => {}
            _ => {
                path.bell.wait();
                slept = true;
            }
        }
    }
}

/// A sleeper that no thread wakes would be a deadlock, which loom finds.
#[test]
fn a_sender_that_waits_for_space_is_woken() {
    let (stock, looked_again, slept) = (Stock::new(), Witness::default(), Witness::default());
    let witnesses = (looked_again.clone(), slept.clone());
    check(OF_TWO_THREADS, move || {
        let (path, [mut lane_0, mut lane_1]) = Path::new();
        let path = Arc::new(path);
        let (theirs, frames) = (path.clone(), stock.frames(1, 3));
        let waiter = thread::spawn(move || send_waiting(&theirs, 1, &mut lane_1, frames));
        let mut frames = stock.frames(0, 1);
        lane_0.push(&mut frames);
        if let Published::Owner(owner) = path.cell.publish(ready_bit(0)) {
            witnesses.0.note(serve_and_wake(&path, owner));
        }
        witnesses.1.note(waiter.join().unwrap());
        path.finish(&stock).assert_idle_and_empty([1, 3]);
    });
    assert!(looked_again.happened() && slept.happened());
}

/// Takes one frame per lane, then offers the path, checks once whether a thread took it, and takes it back if
/// not.
fn serve_offering(path: &Path, mut owner: Owner<'_>) {
    owner.take_bits(WORK);
    let more = owner.with(|inside| {
        inside.drain(1);
        inside.left() != 0
    });
    if !more {
        return match owner.leave() {
            Ok(()) => {}
            Err(back) => serve_offering(path, back),
        };
    }
    // After the last change of the word: the offer alone must release the value.
    owner.with(|inside| inside.hand_overs += 1);
    owner.offer();
    if path.cell.is_offered()
        && let Published::Owner(again) = path.cell.claim(0)
    {
        serve_offering(path, again);
    }
}

/// The mistake that standing by prevents: the next thread may never come.
fn serve_offering_and_gone(path: &Path, mut owner: Owner<'_>) {
    owner.take_bits(WORK);
    let more = owner.with(|inside| {
        inside.drain(1);
        inside.left() != 0
    });
    if more {
        return owner.offer();
    }
    if let Err(back) = owner.leave() {
        serve(path, back);
    }
}

#[test]
fn an_offer_is_taken_or_taken_back() {
    assert!(!two_senders(serve_offering, [2, 1]));
}

#[test]
fn an_offer_without_standing_by_is_found() {
    assert!(two_senders(serve_offering_and_gone, [2, 2]));
}
