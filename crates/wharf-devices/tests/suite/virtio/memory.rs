//! Tables of a driver's memory.

use super::pair::area;
use wharf_devices::virtio::{Memory, MemoryError, MemoryRegion};

#[test]
fn regions_that_overlap_or_wrap_are_refused() {
    let region = |(guest, user)| MemoryRegion::new(guest, user, &area(4096), 0, 4096).unwrap();
    for (first, second) in
        [((0x1000, 0), (0x1fff, 0x9000)), ((0, 0x1000), (0x9000, 0x1fff)), ((0, 0), (0, 0x9000))]
    {
        let regions = vec![region(first), region(second)];
        assert!(matches!(Memory::new(regions), Err(MemoryError::Overlap { .. })));
    }
    let area = area(8192);
    let new = |guest, user, at, len| MemoryRegion::new(guest, user, &area, at, len).is_some();
    assert!(new(0, 0, 4096, 4096) && new(u64::MAX - 8192, 0, 0, 8192));
    assert!(!new(0, 0, 4096, 4097) && !new(0, 0, u64::MAX, 1) && !new(0, 0, 0, 0));
    assert!(!new(u64::MAX - 100, 0, 0, 4096) && !new(0, u64::MAX - 100, 0, 4096));
}
