//! Order, capacity, sums and moves of one or two batches.
#![forbid(unsafe_code)]

use super::*;

fn frame(index: u32, sender: u16) -> Frame {
    Frame::from_parts(FreeFrame::new(1, index), Frame::template(1, sender, 100 + index))
}

#[test]
fn a_batch_that_shifts_keeps_order_and_capacity() {
    let mut batch = Batch::new(4);
    let (mut next_in, mut next_out) = (0, 0);
    for round in 0..50u32 {
        while batch.push(frame(next_in, 3)).is_ok() {
            next_in += 1;
        }
        assert_eq!(batch.len(), 4);
        for _ in 0..1 + round % 4 {
            assert_eq!(batch.pop().unwrap().index(), next_out);
            next_out += 1;
        }
    }
}

#[test]
fn a_taker_that_panics_has_each_frame_once() {
    let mut batch = Batch::new(8);
    (0..6).for_each(|index| batch.push(frame(index, 1)).unwrap());
    let mut taken = Vec::new();
    batch.take_while(|frame| frame.index() < 2, |frame| taken.push(frame.index()));
    assert_eq!((&taken[..], batch.len(), batch.bytes()), (&[0, 1][..], 4, batch.bytes_of_first(4)));
    let panics = std::panic::AssertUnwindSafe(|| {
        batch.take_while(|_| true, |frame| assert!(frame.index() < 3, "this one is too much"));
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!((batch.len(), batch.frames()[0].index()), (2, 4));
    batch.take_while(|_| true, drop);
    assert!(batch.is_empty() && batch.bytes() == 0);
}

#[test]
fn a_batch_that_is_moved_keeps_sums_and_runs() {
    let mut batch = Batch::new(8);
    for (index, sender) in [(0, 1), (1, 1), (2, 9), (3, 1)] {
        batch.push(frame(index, sender)).unwrap();
    }
    assert_eq!((batch.bytes(), batch.bytes_of_first(2), batch.run_of_sender().0), (406, 201, 2));
    let mut other = Batch::new(3);
    assert_eq!(other.append(&mut batch, 8), 3);
    assert_eq!((other.len(), batch.len(), batch.run_of_sender()), (3, 1, (1, 103)));
    assert_eq!(other.pop_back().unwrap().index(), 2);
    batch.refresh();
    assert!(batch.is_of_pool(1) && !batch.is_of_pool(2) && !batch.any_meta());
    assert_eq!((batch.sender(), batch.bytes()), (Some(1), batch.bytes_of_first(1)));
    batch.frames_mut()[0].set_sender(8);
    assert_eq!(batch.sender(), None, "unknown until it is computed");
    batch.refresh();
    assert_eq!(batch.sender(), Some(8));
}
