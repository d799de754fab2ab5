//! A process has 63 pool numbers, and a number comes free only with every buffer of its pool. One test, alone
//! in its process.

use wharf_mem::{FreeFrame, MemError, Region, RegionSpec};

const POOLS: usize = 63;

fn new() -> Result<(Region, Vec<FreeFrame>), MemError> {
    Region::new(RegionSpec { frames: 2, frame_bytes: 128, headroom_bytes: 0, huge_pages: false })
}

fn assert_none_left() {
    assert!(matches!(new(), Err(MemError::PoolNumbers)));
}

#[test]
fn numbers_run_out_and_come_back_with_all_buffers() {
    let mut pools: Vec<_> = (0..POOLS).map(|_| new().unwrap()).collect();
    assert!(pools.iter().map(|pool| usize::from(pool.0.number())).eq(1..=POOLS));
    assert_none_left();

    // Retired, but still there: frames of it could not be told from those of a new one.
    let (region, free) = pools.remove(20);
    assert!(region.retire(free));
    assert_none_left();
    drop(region);
    let (region, free) = new().unwrap();
    assert_eq!(region.number(), 21);
    assert_none_left();

    // Dropped without being retired, or with a buffer out: the number is gone for good.
    drop((region, free));
    assert_none_left();
    let (region, mut free) = pools.remove(0);
    assert_eq!(free.pop().map(|buffer| buffer.pool()), Some(1));
    assert!(!region.retire(free));
    drop(region);
    assert_none_left();

    // Another pool's buffers do not stand in for its own.
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
