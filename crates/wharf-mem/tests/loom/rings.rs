//! The rings alone. loom itself checks that no slot is read and written at once.

use crate::{CAPACITY, OF_TWO_THREADS, START, Stock, assert_in_order, check, names};
use loom::thread;
use wharf_mem::lane::lane;
use wharf_mem::return_ring::return_ring;
use wharf_mem::{Batch, FreeFrame};

#[test]
fn a_lane_keeps_order_and_loses_nothing() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (mut lane_in, mut lane_out) = lane(CAPACITY, START);
        let mut frames = stock.frames(1, 4);
        let sender = thread::spawn(move || {
            while !frames.is_empty() {
                if lane_in.push(&mut frames) == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut got = Batch::new(4);
        // Taking one frame at a time leaves one that is known of; the next call reads the index again.
        for max in [1, 4].into_iter().cycle() {
            if got.room() == 0 {
                break;
            }
            if lane_out.pop(&mut got, max) == 0 {
                thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert_eq!(lane_out.ready_now(), 0);
        assert_in_order(&names(&got), 1, 4);
        stock.give(got);
        stock.assert_whole();
    });
}

/// A thread that sees a lane abandoned sees all frames in it.
#[test]
fn an_abandoned_lane_shows_its_last_frame() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (mut lane_in, mut lane_out) = lane(CAPACITY, START);
        let mut frames = stock.frames(1, 2);
        let sender = thread::spawn(move || assert_eq!(lane_in.push(&mut frames), 2));
        let mut got = Batch::new(2);
        loop {
            let abandoned = lane_out.is_abandoned();
            lane_out.pop(&mut got, 2);
            if abandoned {
                break;
            }
            thread::yield_now();
        }
        sender.join().unwrap();
        assert_in_order(&names(&got), 1, 2);
        stock.give(got);
    });
}

#[test]
fn a_return_ring_keeps_order_and_loses_nothing() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let (mut returns_in, mut returns_out) = return_ring(CAPACITY, START);
        let mut frames = stock.frames(1, 4);
        let indices: Vec<_> = frames.frames().iter().map(|frame| frame.index()).collect();
        let owner = thread::spawn(move || {
            while !frames.is_empty() {
                let count = frames.len();
                if returns_in.push(&mut frames, count) == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut got = Vec::new();
        for max in [1, 4].into_iter().cycle() {
            if got.len() == 4 {
                break;
            }
            if returns_out.pop(&mut got, max) == 0 {
                thread::yield_now();
            }
        }
        owner.join().unwrap();
        assert!(returns_out.is_empty());
        assert!(got.iter().map(FreeFrame::index).eq(indices));
        stock.free.lock().unwrap().append(&mut got);
        stock.assert_whole();
    });
}
