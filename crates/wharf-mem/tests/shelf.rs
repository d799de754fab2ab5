//! A shelf: a place holds one buffer, and what it refuses stays with its owner.

use wharf_mem::shelf::Shelf;
use wharf_mem::{FreeFrame, Region, RegionSpec};

fn buffers() -> (Region, Vec<FreeFrame>) {
    let spec = RegionSpec { frames: 4, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
    Region::new(spec).unwrap()
}

#[test]
fn a_place_is_open_full_or_closed() {
    let (region, mut free) = buffers();
    let shelf = Shelf::new(2);
    let refused = |at: usize, free: &mut Vec<FreeFrame>| match shelf.lay(at, free.pop().unwrap()) {
        Ok(()) => false,
        Err(back) => {
            free.push(back);
            true
        }
    };
    assert!(refused(0, &mut free), "closed at first");
    shelf.open(0);
    assert!(!refused(0, &mut free) && refused(0, &mut free), "it holds one");
    assert!(refused(1, &mut free) && refused(2, &mut free), "closed; none there");
    shelf.open(0); // changes nothing
    free.extend(shelf.pick(0));
    assert!((free.len(), shelf.pick(0), shelf.pick(1), shelf.pick(9)) == (4, None, None, None));
    assert!(!refused(0, &mut free), "picking leaves it open");
    free.extend(shelf.collect(0));
    assert!(refused(0, &mut free), "collecting closes it");
    shelf.open(0);
    assert!(!refused(0, &mut free));
    free.extend(shelf.close(0));
    assert!((free.len(), shelf.close(0), shelf.close(9), shelf.places()) == (4, None, None, 2));
    assert!(refused(0, &mut free) && region.retire(free));
}

/// Four threads lay and pick at the same places; nothing is doubled or lost.
#[test]
fn threads_that_share_places_share_no_buffer() {
    let spec = RegionSpec { frames: 64, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
    let (region, mut free) = Region::new(spec).unwrap();
    let shelf = Shelf::new(8);
    (0..8).for_each(|at| shelf.open(at));
    let all = std::thread::scope(|scope| {
        let threads = std::array::from_fn::<_, 4, _>(|thread| {
            let (mut own, shelf) = (free.split_off(free.len() - 16), &shelf);
            scope.spawn(move || {
                for turn in 0..20_000 {
                    let at = (turn * 7 + thread) % 8;
                    if let Some(free) = own.pop() {
                        own.extend(shelf.lay(at, free).err());
                    }
                    own.extend(shelf.pick((at + turn) % 8));
                }
                own
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let rest = (0..8).filter_map(|at| shelf.close(at));
    let mut free: Vec<FreeFrame> = all.into_iter().flatten().chain(rest).collect();
    free.sort_unstable_by_key(FreeFrame::index);
    assert!(free.iter().map(FreeFrame::index).eq(0..64));
    assert!(region.retire(free));
}
