//! A process has 63 pool numbers. A number is free again once every buffer of its pool is back. This is one
//! test, alone in its process.

use wharf_mem::{FreeFrame, MemError, Region, RegionSpec};

const POOLS: usize = 63;

fn new() -> Result<(Region, Vec<FreeFrame>), MemError> {
    Region::new(RegionSpec { frames: 2, frame_bytes: 128, headroom_bytes: 0, huge_pages: false })
}

fn assert_none_left() {
    assert!(matches!(new(), Err(MemError::PoolNumbers)));
}

#[test]
fn a_number_is_free_again_once_all_buffers_are_back() {
    let mut pools: Vec<_> = (0..POOLS).map(|_| new().unwrap()).collect();
    assert!(pools.iter().map(|pool| usize::from(pool.0.number())).eq(1..=POOLS));
    assert_none_left();

    // Retired, but not dropped: its frames would be taken for those of a new region.
    let (region, free) = pools.remove(20);
    assert!(region.retire(free));
    assert_none_left();
    drop(region);
    let (region, free) = new().unwrap();
    assert_eq!(region.number(), 21);
    assert_none_left();

    // Dropped without being retired, or with a buffer out: the number is taken for good.
    drop((region, free));
    assert_none_left();
    let (region, mut free) = pools.remove(0);
    assert_eq!(free.pop().map(|buffer| buffer.pool()), Some(1));
    assert!(!region.retire(free));
    drop(region);
    assert_none_left();

    // Another pool's buffers do not count as its own.
    let (region, mut free) = pools.remove(0);
    let (other, mut others) = pools.remove(0);
    free.pop();
    free.extend(others.pop());
    assert!(!region.retire(free));
    drop((region, other));
    assert_none_left();

    while let Some((region, free)) = pools.pop() {
        let number = region.number();
        assert!(region.retire(free));
        drop(region);
        assert_eq!(new().unwrap().0.number(), number);
    }
}
