//! Buffers popped and used by many at a time: what they are by one at a time, whatever the ring says, and
//! wherever it begins.

use super::pair::{BUFFER_BYTES, GUEST, LAYOUTS, area, place};
use proptest::prelude::*;
use wharf_devices::virtio::packed::PackedDevice;
use wharf_devices::virtio::split::SplitDevice;
use wharf_devices::virtio::{Chain, DeviceRing, Layout, Memory, MemoryRegion, Options, Place};

const SIZE: u16 = 8;
/// Address and size of a second region.
const FAR: u64 = 1 << 40;
const FAR_BYTES: u64 = 4096;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// The state that a driver has written: descriptors, heads of chains, and the index of the first head.
#[derive(Debug, Clone)]
struct Written {
    descriptors: Vec<(u64, u32, u16, u16)>,
    heads: Vec<u16>,
    start: u16,
}

fn written() -> impl Strategy<Value = Written> {
    let end = GUEST + u64::from(BUFFER_BYTES);
    let address = prop_oneof![
        6 => GUEST..end,
        6 => FAR..FAR + FAR_BYTES,
        1 => prop_oneof![Just(0), Just(GUEST - 1), Just(end - 1), Just(end), Just(FAR + FAR_BYTES), Just(u64::MAX)],
    ];
    let len = prop_oneof![8 => 0..100u32, 1 => Just(u32::MAX), 1 => 4000..5000u32];
    let flags =
        prop_oneof![12 => Just(0), 4 => Just(WRITE), 1 => Just(NEXT), 1 => Just(INDIRECT), 1 => any::<u16>()];
    let descriptors = proptest::collection::vec((address, len, flags, 0..SIZE), usize::from(SIZE));
    let head = prop_oneof![20 => 0..SIZE, 1 => any::<u16>()];
    let heads = proptest::collection::vec(head, 0..=usize::from(SIZE));
    // Indices of split rings wrap behind 2^16, those of packed rings behind the ring.
    let start = prop_oneof![Just(0), any::<u16>(), u16::MAX - SIZE..=u16::MAX];
    (descriptors, heads, start).prop_map(|(descriptors, heads, start)| Written { descriptors, heads, start })
}

impl Written {
    fn place(&self, layout: Layout) -> Place {
        let place = place(layout, SIZE);
        let [table, driver, device] = place.areas();
        for (at, &(address, len, flags, number)) in self.descriptors.iter().enumerate() {
            // In a packed ring one descriptor per head is available, and numbers come before flags.
            let ahead = (at as u16).wrapping_sub(self.start) % SIZE;
            let (third, fourth) = match layout {
                Layout::Split => (flags, number),
                Layout::Packed if usize::from(ahead) >= self.heads.len() => (number, flags),
                // Available on the round that the ring begins with, or on the next one.
                Layout::Packed if at as u16 >= self.start % SIZE => (number, flags ^ AVAILABLE),
                Layout::Packed => (number, flags ^ USED),
            };
            table.store_u64(16 * at, address);
            table.store_u32(16 * at + 8, len);
            table.store_u16(16 * at + 12, third);
            table.store_u16(16 * at + 14, fourth);
        }
        if layout == Layout::Split {
            for (at, &head) in (0u16..).zip(&self.heads) {
                driver.store_u16(4 + 2 * usize::from(self.start.wrapping_add(at) % SIZE), head);
            }
            driver.store_u16(2, self.start.wrapping_add(self.heads.len() as u16));
            device.store_u16(2, self.start);
        }
        place
    }
}

fn memory() -> Memory {
    let near = MemoryRegion::new(GUEST, GUEST, &area(BUFFER_BYTES as usize), 0, BUFFER_BYTES.into());
    let far = MemoryRegion::new(FAR, FAR, &area(FAR_BYTES as usize), 0, FAR_BYTES);
    Memory::new([near, far].into_iter().flatten().collect()).unwrap()
}

/// All that can be popped, `many` plain ones at a time, what ended it, and the areas once all of it was used.
fn drained(written: &Written, layout: Layout, many: usize) -> (Vec<String>, Vec<u16>) {
    let (memory, place) = (memory(), written.place(layout));
    let mut ring: Box<dyn DeviceRing> = match layout {
        Layout::Split => {
            Box::new(SplitDevice::new(place.clone(), Options::default(), written.start.into()).unwrap())
        }
        Layout::Packed => {
            let base = u32::from(written.start % SIZE) | 0x8000;
            Box::new(PackedDevice::new(place.clone(), Options::default(), base).unwrap())
        }
    };
    let (mut seen, mut chains) = (Vec::new(), (0..many.max(1)).map(|_| Chain::new()).collect::<Vec<_>>());
    for _ in 0..2 * SIZE {
        let count = ring.pop_plain(&memory, &mut chains[..many]);
        seen.extend(chains[..count].iter().map(told));
        ring.put_all_used(&chains[..count]);
        match ring.pop(&memory, &mut chains[0]) {
            Ok(true) => {
                seen.push(told(&chains[0]));
                ring.put_used(chains[0].token(), 0);
            }
            end => {
                seen.push(format!("{end:?}"));
                break;
            }
        }
    }
    ring.publish();
    let words = place.areas().map(|area| (0..area.len_bytes() / 2).map(|at| area.load_u16(2 * at)));
    (seen, words.into_iter().flatten().collect())
}

fn told(chain: &Chain) -> String {
    let (readable, writable) = (chain.readable(), chain.writable());
    format!(
        "{:?} {} {} {readable:?} {writable:?}",
        chain.token(),
        chain.readable_bytes(),
        chain.writable_bytes()
    )
}

proptest! {
    #[test]
    fn many_at_a_time_are_as_one_at_a_time(written in written(), many in 1..10usize) {
        for layout in LAYOUTS {
            prop_assert_eq!(drained(&written, layout, many), drained(&written, layout, 0));
        }
    }
}

#[test]
fn plain_buffers_go_on_where_indices_wrap() {
    for layout in LAYOUTS {
        for start in [0, 5, SIZE - 1, u16::MAX - 2, u16::MAX] {
            let descriptors = (0..SIZE).map(|at| (GUEST + u64::from(at), 1, 0, at)).collect();
            let heads = (0..SIZE).map(|at| start.wrapping_add(at) % SIZE).collect::<Vec<_>>();
            let written = Written { descriptors, heads: heads.clone(), start };
            for many in [1, 3, 9] {
                let (seen, _) = drained(&written, layout, many);
                // All of them in order, and then nothing.
                assert_eq!(seen.len(), usize::from(SIZE) + 1, "{layout} from {start}, {many} at a time");
                for (told, head) in seen.iter().zip(&heads) {
                    assert!(
                        told.starts_with(&format!("Token {{ id: {head}, descriptors: 1 }} 1 0 ")),
                        "{told}"
                    );
                }
            }
        }
    }
}
