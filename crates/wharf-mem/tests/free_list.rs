//! `FreeList`: each buffer comes out once, in order from either end, though lists share their links.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_mem::{FreeFrame, FreeList, Links, Region, RegionSpec};

fn stock(frames: u32) -> (Region, Vec<FreeFrame>) {
    Region::new(RegionSpec { frames, frame_bytes: 128, headroom_bytes: 0, huge_pages: false }).unwrap()
}

fn drain(list: &mut FreeList) -> Vec<u32> {
    std::iter::from_fn(|| list.pop_front()).map(|free| free.index()).collect()
}

#[derive(Debug, Clone, Copy)]
enum Op {
    /// From the stock to the front of this list.
    Push(usize),
    /// From the front or the back of this list to the stock.
    Pop(usize, bool),
    /// So many buffers from the back of this list to the front of that one.
    Move(usize, usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3usize).prop_map(Op::Push),
        2 => (0..3usize, any::<bool>()).prop_map(|(at, front)| Op::Pop(at, front)),
        1 => (0..3usize, 0..3usize, 1..9usize).prop_map(|(from, to, count)| Op::Move(from, to, count)),
    ]
}

proptest! {
    #[test]
    fn three_lists_on_the_same_links_are_three_deques(
        frames in prop::sample::select(vec![1u32, 2, 40]),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let (region, mut stock) = stock(frames);
        let links = Arc::new(Links::new(region.number(), frames));
        let mut lists: Vec<FreeList> = (0..3).map(|_| FreeList::new(links.clone())).collect();
        let mut deques: Vec<VecDeque<u32>> = vec![VecDeque::new(); 3];
        for op in ops {
            match op {
                Op::Push(at) => if let Some(free) = stock.pop() {
                    deques[at].push_front(free.index());
                    lists[at].push_front(free).unwrap();
                },
                Op::Pop(at, front) => {
                    let (list, deque) = (&mut lists[at], &mut deques[at]);
                    let popped = if front { list.pop_front() } else { list.pop_back() };
                    let index = if front { deque.pop_front() } else { deque.pop_back() };
                    prop_assert_eq!(popped.as_ref().map(FreeFrame::index), index);
                    stock.extend(popped);
                }
                Op::Move(from, to, count) => for _ in 0..count {
                    let Some(free) = lists[from].pop_back() else { break };
                    lists[to].push_front(free).unwrap();
                    let index = deques[from].pop_back().unwrap();
                    deques[to].push_front(index);
                },
            }
            for (list, deque) in lists.iter().zip(&deques) {
                prop_assert_eq!((list.len(), list.is_empty()), (deque.len(), deque.is_empty()));
            }
        }
        for (list, deque) in lists.iter_mut().zip(deques) {
            let left: Vec<_> = std::iter::from_fn(|| list.pop_front()).collect();
            prop_assert!(left.iter().map(FreeFrame::index).eq(deque));
            stock.extend(left);
        }
        prop_assert!(region.retire(stock), "all are back");
    }
}

/// Each thread pops buffers of the shared list under its lock, and pushes them again.
#[test]
fn threads_that_share_a_list_neither_lose_nor_double_a_buffer() {
    const FRAMES: u32 = 256;
    let (region, stock) = stock(FRAMES);
    let links = Arc::new(Links::new(region.number(), FRAMES));
    let mut list = FreeList::new(links.clone());
    stock.into_iter().for_each(|free| list.push_front(free).unwrap());
    let shared = Mutex::new(list);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (shared, links) = (&shared, links.clone());
            scope.spawn(move || {
                let mut own = FreeList::new(links);
                for round in 0..2000 {
                    let mut all = shared.lock().unwrap();
                    (0..(thread + round) % 90)
                        .map_while(|_| all.pop_front())
                        .for_each(|free| own.push_front(free).unwrap());
                    drop(all);
                    let mut back: Vec<_> = std::iter::from_fn(|| own.pop_back()).collect();
                    let third = back.len() / 3;
                    back.rotate_left(third);
                    let mut all = shared.lock().unwrap();
                    back.into_iter().for_each(|free| all.push_front(free).unwrap());
                }
            });
        }
    });
    let mut indices = drain(&mut shared.into_inner().unwrap());
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..FRAMES));
}

#[test]
fn buffers_of_another_pool_come_back() {
    let ((ours, mut free), (_theirs, mut foreign)) = (stock(4), stock(4));
    // Fewer places than the pool has buffers.
    let mut list = FreeList::new(Arc::new(Links::new(ours.number(), 1)));
    assert!(list.push_front(foreign.pop().unwrap()).is_err() && list.is_empty());
    free.sort_unstable_by_key(FreeFrame::index);
    assert!(list.push_front(free.pop().unwrap()).is_err(), "no place");
    assert!(list.push_front(free.swap_remove(0)).is_ok());
    assert_eq!(drain(&mut list), [0]);
}
