//! An allocator that counts the allocations of each thread, for the whole binary.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Neither made nor dropped at run time, so that it can be used in an allocator.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn add_one() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: `System` does all the work; its callers keep its rules if ours keep theirs, which are the same.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add_one();
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add_one();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        add_one();
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, bytes) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Runs `work`, and adds the allocations that this thread makes in it to `count`.
pub fn counted<R>(count: &mut u64, work: impl FnOnce() -> R) -> R {
    let before = ALLOCATIONS.get();
    let result = work();
    *count += ALLOCATIONS.get() - before;
    result
}

#[test]
fn an_allocation_is_counted() {
    let mut count = 0;
    let vector: Vec<u8> = counted(&mut count, || std::hint::black_box(Vec::with_capacity(100)));
    assert_eq!((vector.capacity(), count), (100, 1));
}
