//! Exchange slots: each holds one buffer, and one thread takes it.

use wharf_lab::comparators::page_policy::ExchangeSlots;
use wharf_mem::{Region, RegionSpec};

const SPEC: RegionSpec = RegionSpec { frames: 2, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };

#[test]
fn a_slot_holds_one_buffer_while_a_thread_waits_for_it() {
    let (region, mut free) = Region::new(SPEC).unwrap();
    let (mut second, first) = (free.pop().unwrap(), free.pop().unwrap());
    let slots = ExchangeSlots::new(1, false);
    let first = slots.lay(0, first).unwrap_err();
    slots.open(0);
    assert_eq!(slots.pick(0), None);
    slots.lay(0, first).unwrap();
    slots.open(0);
    second = slots.lay(0, second).unwrap_err();
    let first = slots.pick(0).unwrap();
    slots.lay(0, first).unwrap();
    let first = slots.collect(0).unwrap();
    let first = slots.lay(0, first).unwrap_err();
    slots.open(0);
    slots.lay(0, first).unwrap();
    let first = slots.close(0).unwrap();
    assert_eq!((slots.close(0), slots.pick(0)), (None, None));
    let first = slots.lay(1, first).unwrap_err();
    assert!(region.retire(vec![first, second]));
}

#[test]
fn one_of_two_threads_takes_the_buffer() {
    let (region, mut free) = Region::new(RegionSpec { frames: 1, ..SPEC }).unwrap();
    let slots = ExchangeSlots::new(1, true);
    for _ in 0..1000 {
        slots.lay(0, free.pop().unwrap()).unwrap();
        let taken: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| slots.pick(0)));
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 1);
        free.extend(taken);
    }
    assert!(region.retire(free));
}
