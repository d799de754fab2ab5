//! A reserved cell: senders set bits and wake a poller, which alone owns the cell.

use crate::path::{Owner, Path};
use crate::{OF_THREE_THREADS, OF_TWO_THREADS, Stock, check};
use loom::sync::Arc;
use loom::thread;
use wharf_mem::Published;
use wharf_mem::word::WORK;

/// Drains and leaves, until no bit is set.
fn serve(_: &Path, mut owner: Owner<'_>) {
    loop {
        owner.take_bits(WORK);
        owner.with(|inside| inside.drain(usize::MAX));
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

fn never(_: &Path, _: Owner<'_>) {
    panic!("a sender owns a reserved cell");
}

/// Polls when it is woken, until `count` frames are taken. A lost wake-up is a deadlock, which loom finds.
fn poll(path: &Path, count: usize) {
    let mut taken = 0;
    while taken < count {
        path.bell.wait();
        // A sender that owned the cell before it was reserved leaves it with nothing announced.
        let Published::Owner(mut owner) = path.cell.claim(0) else { continue };
        taken = loop {
            owner.take_bits(WORK);
            let taken = owner.with(|inside| {
                inside.drain(usize::MAX);
                inside.taken()
            });
            match owner.leave() {
                Ok(()) => break taken,
                Err(back) => owner = back,
            }
        };
    }
}

/// Ends the reservation, and looks at what was announced to a poller.
fn withdraw(path: &Path) {
    path.cell.unreserve();
    if let Published::Owner(owner) = path.cell.claim(0) {
        serve(path, owner);
    }
}

#[test]
fn the_first_frame_without_an_owner_wakes_a_poller() {
    let stock = Stock::new();
    check(OF_THREE_THREADS, move || {
        let (path, [mut lane_0, mut lane_1]) = Path::new();
        let path = Arc::new(path);
        path.cell.reserve();
        let (theirs, frames) = (path.clone(), stock.frames(0, 1));
        let first = thread::spawn(move || theirs.send(0, &mut lane_0, frames, never));
        let (theirs, frames) = (path.clone(), stock.frames(1, 1));
        let second = thread::spawn(move || theirs.send(1, &mut lane_1, frames, never));
        poll(&path, 2);
        first.join().unwrap();
        second.join().unwrap();
        withdraw(&path);
        path.finish(&stock).assert_idle_and_empty([1, 1]);
    });
}

#[test]
fn a_reservation_that_ends_strands_no_frame() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (path, [mut lane_0, _lane_1]) = Path::new();
        let path = Arc::new(path);
        path.cell.reserve();
        let (theirs, frames) = (path.clone(), stock.frames(0, 2));
        let sender = thread::spawn(move || theirs.send(0, &mut lane_0, frames, serve));
        withdraw(&path);
        sender.join().unwrap();
        path.finish(&stock).assert_idle_and_empty([2, 0]);
    });
}

#[test]
fn a_reservation_that_begins_strands_no_frame() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (path, [mut lane_0, _lane_1]) = Path::new();
        let path = Arc::new(path);
        let (theirs, frames) = (path.clone(), stock.frames(0, 2));
        let sender = thread::spawn(move || {
            theirs.send(0, &mut lane_0, frames, serve);
            // Ends the last wait.
            theirs.bell.notify();
        });
        path.cell.reserve();
        poll(&path, 2);
        sender.join().unwrap();
        withdraw(&path);
        path.finish(&stock).assert_idle_and_empty([2, 0]);
    });
}
