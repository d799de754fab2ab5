//! Virtqueues of any bytes, either layout, seen by the device or by the driver: buffers, or an error, and an end.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use wharf_devices::virtio::packed::{PackedDevice, PackedDriver};
use wharf_devices::virtio::split::{SplitDevice, SplitDriver};
use wharf_devices::virtio::{
    Chain, DeviceRing, DirtyLog, DriverRing, Extent, Layout, Memory, MemoryRegion, Options, Place,
};
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

const SIZE: u16 = 16;
/// Indirect tables may lie in the ring's own memory: all shared memory is fuzzed.
const GUEST: u64 = 0x1000;

fuzz_target!(|bytes: &[u8]| {
    let [how, base, bytes @ ..] = bytes else { return };
    if how & 64 != 0 {
        return log((usize::from(*base) + 1) * 8, bytes);
    }
    let layout = if how & 1 == 0 { Layout::Split } else { Layout::Packed };
    let options = Options { event_idx: how & 2 != 0, indirect: how & 4 != 0, in_order: how & 8 != 0 };
    let area = Arc::new(Area::new(Mapping::shared_small_pages(4096).unwrap()));
    let all = View::new(&area, 0, 4096).unwrap();
    let place = Place::within(&area, 0, layout, SIZE.into()).unwrap();
    if how & 16 == 0 {
        all.copy_in(0, &bytes[..bytes.len().min(4096)]);
        let region = MemoryRegion::new(GUEST, GUEST, &area, 0, 4096).unwrap();
        let memory = Memory::new(vec![region]).unwrap();
        let base = u32::from(*base);
        // The table of what is in flight, of a head that is read and any rest.
        let table = View::new(&area, 2048, 2048).unwrap();
        let place = if how & 32 == 0 {
            place
        } else {
            [(8, 1), (10, SIZE)].into_iter().for_each(|(at, word)| table.store_u16(at, word));
            place.with_inflight(&table).unwrap()
        };
        match layout {
            Layout::Split => {
                SplitDevice::new(place, options, base).map(|ring| device(ring, &memory)).unwrap()
            }
            Layout::Packed => {
                let resumed = PackedDevice::resumed(place, base | 0x8000, options);
                let _ = resumed.map(|found| found.into_iter().for_each(|(ring, _)| device(ring, &memory)));
            }
        }
    } else {
        match layout {
            Layout::Split => driver(SplitDriver::new(place, options).unwrap(), &all, *base, bytes),
            Layout::Packed => driver(PackedDriver::new(place, options).unwrap(), &all, *base, bytes),
        }
    }
});

/// A log of pages of so many bytes, whatever addresses are noted: the memory behind it stays as it is.
fn log(len_bytes: usize, bytes: &[u8]) {
    let area = Arc::new(Area::new(Mapping::shared_small_pages(4096).unwrap()));
    let log = DirtyLog::new(View::new(&area, 0, len_bytes).unwrap()).unwrap();
    for step in bytes.chunks_exact(16).take(64) {
        let [address, count] = [0, 8].map(|at| u64::from_le_bytes(step[at..at + 8].try_into().unwrap()));
        log.note(address, count);
    }
    let behind = View::new(&area, len_bytes, 4096 - len_bytes).unwrap();
    assert!((0..behind.len_bytes()).step_by(8).all(|at| behind.load_u64(at) == 0));
}

/// Pops and uses until the ring is empty, an error occurs, or the ring has wrapped often: a ring whose used buffers look available
/// has no end.
fn device(mut ring: impl DeviceRing, memory: &Memory) {
    let (mut chain, mut buffer) = (Chain::new(), [0; 512]);
    let mut plain = [(); 3].map(|()| Chain::new());
    for _ in 0..100 {
        let count = ring.pop_plain(memory, &mut plain);
        for chain in &plain[..count] {
            let copied = chain.copy_out(memory, 0, &mut buffer);
            assert!(copied <= chain.readable_bytes() as usize);
        }
        ring.put_all_used(&plain[..count]);
        match ring.pop(memory, &mut chain) {
            Ok(true) => {
                let count = chain.copy_out(memory, 0, &mut buffer);
                assert!(count <= chain.readable_bytes() as usize);
                let written = chain.copy_in(memory, 0, &buffer[..count.min(4)]);
                ring.put_used(chain.token(), written as u32);
                ring.publish();
            }
            Ok(false) | Err(_) => break,
        }
    }
    let _ = (ring.needs_notification(), ring.enable_notification());
}

/// Checks that each buffer comes back at most once, whatever the device writes.
fn driver(mut ring: impl DriverRing, all: &View, count: u8, bytes: &[u8]) {
    let mut held = [false; SIZE as usize];
    for n in 0..u64::from(count) % 20 {
        let part = Extent { address: n * 64, len_bytes: 64 };
        let id = if n % 3 == 0 { ring.add(&[part], &[part]) } else { ring.add(&[], &[part]) };
        id.into_iter().for_each(|id| assert!(!std::mem::replace(&mut held[usize::from(id)], true)));
    }
    ring.publish();
    all.copy_in(0, &bytes[..bytes.len().min(4096)]);
    for _ in 0..100 {
        match ring.next_used() {
            Ok(Some(used)) => {
                assert!(std::mem::take(&mut held[usize::from(used.id)]) && used.written_bytes <= 64)
            }
            Ok(None) | Err(_) => break,
        }
    }
    let _ = (ring.needs_kick(), ring.enable_notification(), ring.enable_notification_delayed());
}
