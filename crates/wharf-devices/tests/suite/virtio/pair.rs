//! A ring with both of its sides, and memory for its buffers.

use std::sync::Arc;
use wharf_devices::virtio::packed::{PackedDevice, PackedDriver};
use wharf_devices::virtio::split::{SplitDevice, SplitDriver};
use wharf_devices::virtio::{DeviceRing, DriverRing, Extent, Layout, Memory, MemoryRegion, Options, Place};
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

/// Address of the buffers for the device, and their size in bytes.
pub const GUEST: u64 = 0x10_0000;
pub const BUFFER_BYTES: u32 = 1 << 20;
/// Bytes for one buffer in tests that give each its own.
pub const STRIDE: u32 = 4096;

pub const LAYOUTS: [Layout; 2] = [Layout::Split, Layout::Packed];

pub fn all_options() -> impl Iterator<Item = Options> {
    (0..8).map(|bits| Options { event_idx: bits & 1 != 0, indirect: bits & 2 != 0, in_order: bits & 4 != 0 })
}

pub fn area(len_bytes: usize) -> Arc<Area> {
    Arc::new(Area::new(Mapping::shared_small_pages(len_bytes).unwrap()))
}

/// Memory of buffers, as the device sees it, and as it lies here.
pub fn buffers() -> (Memory, View) {
    let area = area(BUFFER_BYTES as usize);
    let view = View::new(&area, 0, BUFFER_BYTES as usize).unwrap();
    let region = MemoryRegion::new(GUEST, GUEST, &area, 0, BUFFER_BYTES.into()).unwrap();
    (Memory::new(vec![region]).unwrap(), view)
}

pub fn place(layout: Layout, size: u16) -> Place {
    Place::within(&area(Place::len_bytes(layout, size)), 0, layout, size.into()).unwrap()
}

pub fn driver(place: &Place, options: Options, index: u16) -> Box<dyn DriverRing> {
    match place.layout() {
        Layout::Split => Box::new(SplitDriver::beginning_at(place.clone(), options, index).unwrap()),
        Layout::Packed => Box::new(PackedDriver::new(place.clone(), options).unwrap()),
    }
}

pub fn device(place: &Place, options: Options, index: u16) -> Box<dyn DeviceRing> {
    match place.layout() {
        Layout::Split => Box::new(SplitDevice::new(place.clone(), options, index.into()).unwrap()),
        Layout::Packed => Box::new(PackedDevice::new(place.clone(), options, 0x8000).unwrap()),
    }
}

/// `len_bytes` of the buffers, from byte `at` on.
pub fn extent(at: u32, len_bytes: u32) -> Extent {
    Extent { address: GUEST + u64::from(at), len_bytes }
}
