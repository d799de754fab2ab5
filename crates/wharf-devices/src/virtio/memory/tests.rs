//! Addresses that are there, and such that are not.

use super::*;
use wharf_sys::mapping::Mapping;

fn area(len_bytes: usize) -> Arc<Area> {
    Arc::new(Area::new(Mapping::shared_small_pages(len_bytes).unwrap()))
}

fn region(guest: u64, user: u64, len_bytes: u64) -> MemoryRegion {
    MemoryRegion::new(guest, user, &area(len_bytes as usize), 0, len_bytes).unwrap()
}

#[test]
fn bytes_are_found_up_to_the_end_of_their_region() {
    let memory = Memory::new(vec![region(0x9000, 0x1000, 4096), region(0x4000, 0x8000, 8192)]).unwrap();
    let find =
        |address, len| memory.find(address, len, &mut 7).map(|part| (part.region, part.at, part.len_bytes));
    assert_eq!(find(0x4000, 8192), Some((0, 0, 8192)));
    assert_eq!(find(0x5fff, 10), Some((0, 0x1fff, 1)));
    assert_eq!(find(0x9123, 10), Some((1, 0x123, 10)));
    for address in [0, 0x3fff, 0x6000, 0x8fff, 0xa000, u64::MAX] {
        assert_eq!(find(address, 1), None, "{address:#x}");
    }
    assert!(memory.view_of_user(0x1000, 4096).is_some() && memory.view_of_user(0x1001, 4096).is_none());
    assert!(memory.view_of_user(0x7fff, 1).is_none() && memory.view_of_user(0x9fff, 1).is_some());
}

#[test]
fn reading_goes_on_in_a_region_that_begins_where_one_ends() {
    let memory = Memory::new(vec![region(0x1000, 0, 4096), region(0x2000, 0x9000, 4096)]).unwrap();
    for (n, region) in memory.regions().iter().enumerate() {
        region.view.copy_in(0, &[n as u8 + 1; 4096]);
    }
    let mut bytes = [0; 8];
    memory.read(0x1ffc, &mut bytes, &mut 0).unwrap();
    assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2]);
    let fault = memory.read(0x2ffc, &mut bytes, &mut 0).unwrap_err();
    assert!(matches!(fault, RingError::Outside { address: 0x2ffc, .. }), "{fault}");
    assert!(memory.read(u64::MAX - 2, &mut bytes, &mut 0).is_err());
}

#[test]
fn a_part_of_another_memory_is_not_touched() {
    let memory = Memory::new(vec![region(0, 0, 4096), region(0x10000, 0x10000, 8192)]).unwrap();
    let part = memory.find(0x10000, 8192, &mut 0).unwrap();
    let other = Memory::new(vec![region(0, 0, 4096)]).unwrap();
    assert!(other.window(&part).is_none());
    let smaller = Memory::new(vec![region(0, 0, 4096), region(0x10000, 0x10000, 4096)]).unwrap();
    let (whole, cut) = (memory.window(&part).unwrap(), smaller.window(&part).unwrap());
    assert!(cut.copy_in(4095, &[1]) && !cut.copy_in(4096, &[1]) && !cut.copy_out(4096, &mut [1]));
    assert!(!whole.copy_in(8192, &[1]) && !whole.copy_in(usize::MAX, &[1]));
}
