//! `FrameList` on real threads: every frame comes out once, each thread's in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use wharf_mem::{Batch, Frame, FrameList, FreeFrame, Region, RegionSpec};

const THREADS: u32 = 4;
const EACH: u32 = 1500;

fn stock(frames: u32) -> (Region, Vec<FreeFrame>) {
    Region::new(RegionSpec { frames, frame_bytes: 2048, headroom_bytes: 0, huge_pages: false }).unwrap()
}

fn take(region: &Region, free: &mut Vec<FreeFrame>, sender: u16, count: u32) -> Vec<Frame> {
    let mut batch = Batch::new(1);
    let one = |number| {
        region.take(free, &mut batch, 1, sender, number, |_| {}).unwrap();
        batch.pop().unwrap()
    };
    (1..=count).map(one).collect()
}

#[test]
fn frames_that_many_push_are_taken_in_order() {
    let (region, mut free) = stock(THREADS * EACH);
    let list = FrameList::new(region.number(), THREADS * EACH);
    let (taken, takes) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let stocks: Vec<_> = (0..THREADS).map(|who| take(&region, &mut free, who as u16, EACH)).collect();
    std::thread::scope(|scope| {
        for frames in stocks {
            let (list, taken, takes) = (&list, &taken, &takes);
            scope.spawn(move || {
                for frame in frames {
                    if list.push(frame).unwrap() {
                        let mut taken = taken.lock().unwrap();
                        list.take(|frame| taken.push((frame.sender(), frame.len_bytes())));
                        takes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let taken = taken.into_inner().unwrap();
    assert!(list.is_empty() && takes.into_inner() > 0);
    for who in 0..THREADS as u16 {
        let mine = taken.iter().filter(|name| name.0 == who).map(|name| name.1);
        assert!(mine.eq(1..=EACH), "order of {who}");
    }
}

#[test]
fn a_frame_of_another_pool_comes_back() {
    let ((ours, _), (theirs, mut free)) = (stock(4), stock(4));
    let list = FrameList::new(ours.number(), 4);
    let frame = take(&theirs, &mut free, 0, 1).pop().unwrap();
    assert_eq!(list.push(frame).unwrap_err().pool(), theirs.number());
    assert!(list.is_empty());
}
