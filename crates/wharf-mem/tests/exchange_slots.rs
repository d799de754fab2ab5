//! `ExchangeSlots`: a slot has one buffer, and a buffer that it refuses stays with its owner.

use wharf_mem::exchange_slots::ExchangeSlots;
use wharf_mem::{FreeFrame, Region, RegionSpec};

fn buffers() -> (Region, Vec<FreeFrame>) {
    let spec = RegionSpec { frames: 4, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
    Region::new(spec).unwrap()
}

#[test]
fn a_slot_is_open_full_or_closed() {
    let (region, mut free) = buffers();
    let slots = ExchangeSlots::new(2);
    let refused = |at: usize, free: &mut Vec<FreeFrame>| match slots.lay(at, free.pop().unwrap()) {
        Ok(()) => false,
        Err(back) => {
            free.push(back);
            true
        }
    };
    assert!(refused(0, &mut free), "closed at first");
    slots.open(0);
    assert!(!refused(0, &mut free) && refused(0, &mut free), "it holds one");
    assert!(refused(1, &mut free) && refused(2, &mut free), "closed; none there");
    slots.open(0); // changes nothing
    free.extend(slots.pick(0));
    assert!((free.len(), slots.pick(0), slots.pick(1), slots.pick(9)) == (4, None, None, None));
    assert!(!refused(0, &mut free), "picking leaves it open");
    free.extend(slots.collect(0));
    assert!(refused(0, &mut free), "collecting closes it");
    slots.open(0);
    assert!(!refused(0, &mut free));
    free.extend(slots.close(0));
    assert!((free.len(), slots.close(0), slots.close(9), slots.places()) == (4, None, None, 2));
    assert!(refused(0, &mut free) && region.retire(free));
}

/// Four threads put and take at the same slots; no buffer is doubled or lost.
#[test]
fn threads_that_share_slots_share_no_buffer() {
    let spec = RegionSpec { frames: 64, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
    let (region, mut free) = Region::new(spec).unwrap();
    let slots = ExchangeSlots::new(8);
    (0..8).for_each(|at| slots.open(at));
    let all = std::thread::scope(|scope| {
        let threads = std::array::from_fn::<_, 4, _>(|thread| {
            let (mut own, slots) = (free.split_off(free.len() - 16), &slots);
            scope.spawn(move || {
                for turn in 0..20_000 {
                    let at = (turn * 7 + thread) % 8;
                    if let Some(free) = own.pop() {
                        own.extend(slots.lay(at, free).err());
                    }
                    own.extend(slots.pick((at + turn) % 8));
                }
                own
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let rest = (0..8).filter_map(|at| slots.close(at));
    let mut free: Vec<FreeFrame> = all.into_iter().flatten().chain(rest).collect();
    free.sort_unstable_by_key(FreeFrame::index);
    assert!(free.iter().map(FreeFrame::index).eq(0..64));
    assert!(region.retire(free));
}
