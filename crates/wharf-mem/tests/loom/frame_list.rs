//! `FrameList`: a thread that finds the list empty takes all frames, under a lock.

use crate::{OF_TWO_THREADS, Stock, Witness, assert_in_order, check};
use loom::sync::{Arc, Mutex};
use loom::thread;
use wharf_mem::{Batch, FrameList};

struct Lists {
    list: FrameList,
    taken: Mutex<Batch>,
}

fn push_all(lists: &Lists, mut frames: Batch) {
    while let Some(frame) = frames.pop() {
        if lists.list.push(frame).unwrap() {
            let mut taken = lists.taken.lock().unwrap();
            lists.list.take(|frame| taken.push(frame).unwrap());
        }
    }
}

#[test]
fn the_thread_that_found_it_empty_takes_all_frames() {
    let (stock, together) = (Stock::new(), Witness::default());
    let witness = together.clone();
    check(OF_TWO_THREADS, move || {
        let list = FrameList::new(stock.region.number(), crate::BUFFERS);
        let lists = Arc::new(Lists { list, taken: Mutex::new(Batch::new(4)) });
        let (theirs, frames) = (lists.clone(), stock.frames(1, 2));
        let other = thread::spawn(move || push_all(&theirs, frames));
        push_all(&lists, stock.frames(0, 2));
        other.join().unwrap();
        let taken = std::mem::replace(&mut *lists.taken.lock().unwrap(), Batch::new(0));
        let names = crate::names(&taken);
        assert!(lists.list.is_empty() && names.len() == 4, "{names:?}");
        (0..2).for_each(|sender| assert_in_order(&names, sender, 2));
        witness.note(names[1].0 != names[0].0);
        stock.give(taken);
        stock.assert_whole();
    });
    assert!(together.happened(), "frames of both lay in between");
}
