//! Timing errors are noted once for each frame that the device took.

use wharf_core::device::{Completions, Device, TxDevice};
use wharf_core::pool::PagePool;
use wharf_devices::wire::{WireSpec, wire};
use wharf_mem::Batch;
use wharf_sys::clock::monotonic_ns;
use wharf_tools::traffic::{Schedule, Timed};

#[test]
fn taken_frames_are_noted_once_and_left_ones_not() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let schedule = Schedule::new(&pool);
    let (near, _far) = wire(&WireSpec::default().ring(4).unwrap());
    let mut device = Timed::new(Box::new(near), schedule.clone());
    device.attach(pool.region().clone()).unwrap();
    let (mut cache, mut batch) = (pool.cache("test").unwrap(), Batch::new(8));
    cache.take(&mut batch, 6, 60).unwrap();
    let now_ns = monotonic_ns();
    for (at, frame) in batch.frames().iter().enumerate() {
        // The fifth has no due time, and the sixth does not fit the ring.
        schedule.set(frame, if at == 2 { 0 } else { now_ns - 1_000_000_000 * at as u64 });
    }
    device.transmit(&mut batch, false);
    let left = batch.len();
    assert!(left > 0 && left < 6, "{left} left of 6 in a ring of 4");
    assert_eq!(schedule.errors().packets(), 0, "nothing is said before the end");
    device.close().unwrap();
    let errors = schedule.errors();
    assert_eq!(errors.packets(), 6 - left as u64 - 1);
    let late_ns = 1_000_000_000 * (6 - left as u64 - 1);
    assert!(errors.max_ns() >= late_ns && errors.max_ns() < late_ns + 900_000_000, "{errors:?}");
    let mut back = Completions::new(8);
    device.reap(8, false, &mut back).unwrap();
    cache.give(&mut back.sent).unwrap();
    back.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).map_err(|error| error.0).unwrap());
    cache.give(&mut batch).unwrap();
}
