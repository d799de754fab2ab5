//! Packed rings whose buffers are used in order, many by one entry: what the driver gets back, and where a
//! device that is gone stood.

use super::pair::{buffers, extent, place};
use proptest::prelude::*;
use std::collections::VecDeque;
use wharf_devices::virtio::packed::{PackedDevice, PackedDriver};
use wharf_devices::virtio::{Chain, DeviceRing, DriverRing, Layout, Memory, Options, Place};

const SIZE: u16 = 12;
const IN_ORDER: Options = Options { event_idx: true, indirect: false, in_order: true };
const START: u32 = 0x8000;

/// One round: buffers made available, of how many parts each; and by how many they are used at a time.
type Round = (Vec<u8>, Vec<usize>);

struct Bench {
    place: Place,
    driver: PackedDriver,
    device: PackedDevice,
    memory: Memory,
    /// Buffers with the device, in order.
    due: VecDeque<u16>,
}

impl Bench {
    fn new() -> Self {
        let place = place(Layout::Packed, SIZE);
        let driver = PackedDriver::new(place.clone(), IN_ORDER).unwrap();
        let device = PackedDevice::new(place.clone(), IN_ORDER, START).unwrap();
        Self { place, driver, device, memory: buffers().0, due: VecDeque::new() }
    }

    fn add(&mut self, parts: &[u8]) {
        for &parts in parts {
            let extents: Vec<_> = (0..u32::from(parts)).map(|part| extent(64 * part, 60)).collect();
            self.due.extend(self.driver.add(&extents, &[]));
        }
        self.driver.publish();
    }

    /// Up to `most` buffers, of which the first ones are due.
    fn pop(&mut self, most: usize, skip: usize) -> Vec<Chain> {
        let mut chains = Vec::new();
        while chains.len() < most {
            let mut chain = Chain::new();
            if !self.device.pop(&self.memory, &mut chain).unwrap() {
                break;
            }
            assert_eq!(Some(&chain.token().id()), self.due.get(skip + chains.len()));
            chains.push(chain);
        }
        chains
    }

    fn take_back(&mut self) -> usize {
        let mut count = 0;
        while let Some(used) = self.driver.next_used().unwrap() {
            assert_eq!((Some(used.id), used.written_bytes), (self.due.pop_front(), 0));
            count += 1;
        }
        count
    }

    fn resumed(&self) -> Option<u32> {
        PackedDevice::resume(&self.place, START, IN_ORDER)
    }
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let round = (prop::collection::vec(1..4u8, 0..8), prop::collection::vec(1..8usize, 1..4));
    prop::collection::vec(round, 1..40)
}

proptest! {
    #[test]
    fn one_entry_gives_back_a_batch_and_the_ring_shows_where_its_device_stood(rounds in rounds()) {
        let mut bench = Bench::new();
        prop_assert_eq!(bench.resumed(), Some(bench.device.next_avail()));
        for (parts, batches) in rounds {
            bench.add(&parts);
            prop_assert_eq!(bench.resumed(), Some(bench.device.next_avail()));
            let (before, mut used) = (bench.device.next_avail(), 0);
            for most in batches {
                let chains = bench.pop(most, used);
                bench.device.put_all_used(&chains);
                used += chains.len();
                // It may be gone in the very middle of a batch: where it began, or nowhere.
                if let Some(base) = bench.resumed() {
                    prop_assert_eq!(base, before);
                }
            }
            bench.device.publish();
            prop_assert_eq!(bench.resumed(), Some(bench.device.next_avail()));
            prop_assert_eq!(bench.take_back(), used);
            // A device in its place goes on with unused buffers.
            bench.device = PackedDevice::new(bench.place.clone(), IN_ORDER, bench.device.next_avail()).unwrap();
        }
    }
}

#[test]
fn position_of_a_polling_device_is_known_once_it_ends_or_asks() {
    for rounds in 1..40 {
        let mut bench = Bench::new();
        bench.device.disable_notification();
        for _ in 0..rounds {
            bench.add(&[1, 2]);
            let chains = bench.pop(2, 0);
            bench.device.put_all_used(&chains);
            bench.device.publish();
            assert_eq!(bench.take_back(), 2);
            assert_eq!(bench.resumed(), None, "killed now, it is not known");
        }
        let base = bench.device.next_avail();
        assert!(bench.device.enable_notification());
        assert_eq!(bench.resumed(), Some(base), "asks, after {rounds} rounds");
        bench.device.disable_notification();
        bench.add(&[1]);
        let chains = bench.pop(1, 0);
        bench.device.put_all_used(&chains);
        bench.device.publish();
        let base = bench.device.next_avail();
        assert_eq!(bench.resumed(), None);
        let Bench { place, device, .. } = bench;
        drop(device);
        assert_eq!(PackedDevice::resume(&place, START, IN_ORDER), Some(base), "ended, after {rounds} rounds");
    }
}

#[test]
fn ambiguous_position_in_the_longest_ring_is_not_resumed() {
    let place = place(Layout::Packed, 32768);
    let resumed = || PackedDevice::resume(&place, START, IN_ORDER);
    assert_eq!(resumed(), Some(START | START << 16), "no device has begun");
    PackedDevice::new(place.clone(), IN_ORDER, START).unwrap();
    assert_eq!(resumed(), None);
}

#[test]
fn a_note_that_cannot_be_is_none() {
    let bench = Bench::new();
    for noted in [SIZE, 0x8000 | (SIZE + 1), u16::MAX] {
        bench.place.areas()[2].store_u16(0, noted);
        assert_eq!(bench.resumed(), None);
    }
}
