//! Packed rings without a table of what is in flight, whose driver announces where an earlier device stood: the
//! ring itself shows where the last one did.

use super::pair::{buffers, driver, extent, place};
use proptest::prelude::*;
use std::collections::VecDeque;
use wharf_devices::virtio::packed::PackedDevice;
use wharf_devices::virtio::{Chain, DeviceRing, DriverRing, Layout, Options, Place};

const SIZE: u16 = 16;
const START: u32 = 0x8000;
const OPTIONS: Options = Options { event_idx: true, indirect: false, in_order: false };

fn add(driver: &mut dyn DriverRing, due: &mut VecDeque<u16>, parts: u8) {
    let parts: Vec<_> = (0..u32::from(parts)).map(|part| extent(64 * part, 60)).collect();
    due.extend(driver.add(&parts, &[]));
}

fn resumed(place: &Place, base: u32, options: Options) -> PackedDevice {
    PackedDevice::resumed(place.clone(), base, options).unwrap().unwrap().0
}

/// Uses up to `most` buffers. A device that is `cut_off` has shown all of them but the first. Returns true if
/// there were any.
fn use_some(device: &mut PackedDevice, place: &Place, most: usize, cut_off: bool) -> bool {
    let (memory, mut chains) = (buffers().0, Vec::new());
    for _ in 0..most {
        let mut chain = Chain::new();
        if device.pop(&memory, &mut chain).unwrap() {
            chains.push(chain);
        }
    }
    let descriptors = place.areas()[0];
    let at = 16 * usize::from(first_of(device, &chains));
    let mut before = [0; 16];
    descriptors.copy_out(at, &mut before);
    device.put_all_used(&chains);
    device.publish();
    if cut_off {
        descriptors.copy_in(at, &before);
    }
    !chains.is_empty()
}

/// The position of the first of the buffers that were popped last.
fn first_of(device: &PackedDevice, chains: &[Chain]) -> u16 {
    let count: u32 = chains.iter().map(Chain::descriptors).sum();
    ((device.next_avail() as u16 & 0x7fff) + SIZE - count as u16) % SIZE
}

proptest! {
    #[test]
    fn a_base_of_an_earlier_device_is_not_believed(
        rounds in prop::collection::vec((prop::collection::vec(1..3u8, 0..4), 0..4usize, any::<bool>(), any::<prop::sample::Index>()), 1..80),
    ) {
        let place = place(Layout::Packed, SIZE);
        let (mut driver, mut due, mut bases) = (driver(&place, OPTIONS, 0), VecDeque::new(), vec![START]);
        let mut was_cut_off = false;
        for (added, most, cut_off, which) in rounds {
            added.into_iter().for_each(|parts| add(&mut *driver, &mut due, parts));
            driver.publish();
            // Which base it was is not to be told from a ring that a device has left in the middle of a batch.
            let base = if was_cut_off { START } else { bases[which.index(bases.len())] };
            let mut device = resumed(&place, base, OPTIONS);
            if !was_cut_off {
                prop_assert_eq!(device.next_avail() as u16, *bases.last().unwrap() as u16);
            }
            let is_some = use_some(&mut device, &place, most, cut_off);
            was_cut_off = if is_some { cut_off } else { was_cut_off };
            if !was_cut_off {
                bases.push(device.next_avail());
            }
            std::mem::forget(device);
            while let Some(used) = driver.next_used().unwrap() {
                prop_assert_eq!(Some(used.id), due.pop_front());
            }
        }
        let mut device = resumed(&place, START, OPTIONS);
        while !device.enable_notification() {
            use_some(&mut device, &place, 4, false);
        }
        while let Some(used) = driver.next_used().unwrap() {
            prop_assert_eq!(Some(used.id), due.pop_front());
        }
        prop_assert_eq!((due.len(), driver.outstanding()), (0, 0));
    }
}

#[test]
fn a_base_that_the_ring_contradicts_is_refused_where_it_shows_no_other() {
    let place = place(Layout::Packed, SIZE);
    let in_order = Options { in_order: true, ..OPTIONS };
    let mut driver = driver(&place, in_order, 0);
    let mut device = PackedDevice::new(place.clone(), in_order, START).unwrap();
    let stale = {
        add(&mut *driver, &mut VecDeque::new(), 1);
        driver.publish();
        use_some(&mut device, &place, 1, false);
        device.next_avail()
    };
    assert_eq!(PackedDevice::resume(&place, stale, in_order), Some(stale));
    add(&mut *driver, &mut VecDeque::new(), 1);
    driver.publish();
    device.disable_notification();
    use_some(&mut device, &place, 1, false);
    assert_eq!(PackedDevice::resume(&place, stale, in_order), None, "killed now, it is not known");
    let right = device.next_avail();
    drop(device);
    assert_eq!(PackedDevice::resume(&place, stale, in_order), Some(right), "it has ended, and noted where");
}

/// What QEMU does when its back end has gone: it uses what is available, from a position of its own on. Returns
/// its position then.
fn drop_available(place: &Place, from: u32) -> u32 {
    let (descriptors, mut index, mut wrap) =
        (place.areas()[0].clone(), from as u16 & 0x7fff, from & START != 0);
    loop {
        let mut flags = [0; 2];
        let at = 16 * usize::from(index) + 14;
        descriptors.copy_out(at, &mut flags);
        let turn = u16::from_le_bytes(flags) & 0x8080;
        if turn != if wrap { 0x0080 } else { 0x8000 } {
            return u32::from(index) | if wrap { START } else { 0 };
        }
        descriptors.copy_in(at, &(if wrap { 0x8080u16 } else { 0 }).to_le_bytes());
        (index, wrap) = if index + 1 == SIZE { (0, !wrap) } else { (index + 1, wrap) };
    }
}

#[test]
fn a_ring_goes_on_before_buffers_that_qemu_dropped_from_a_position_of_its_own() {
    for indirect in [false, true] {
        go_on_before_dropped(Options { indirect, ..OPTIONS });
    }
}

fn go_on_before_dropped(options: Options) {
    // A ring that is full may look like one of another round.
    for (start, left) in (0..2 * SIZE).flat_map(|start| (1..SIZE).map(move |left| (start, left))) {
        for (from, more) in
            (0..left).flat_map(|from| (0..=(SIZE - left).min(2)).map(move |more| (from, more)))
        {
            let place = place(Layout::Packed, SIZE);
            let (mut driver, mut due) = (driver(&place, options, 0), VecDeque::new());
            let mut device = PackedDevice::new(place.clone(), options, START).unwrap();
            for number in 0..start + left {
                add(&mut *driver, &mut due, 1);
                driver.publish();
                if number < start {
                    use_some(&mut device, &place, 1, false);
                    assert_eq!(driver.next_used().unwrap().map(|used| used.id), due.pop_front());
                }
            }
            let own = (start + from) % SIZE;
            let is_odd = (start + from) / SIZE % 2 == 1;
            let dropped = drop_available(&place, u32::from(own) | if is_odd { 0 } else { START });
            (0..more).for_each(|_| add(&mut *driver, &mut due, 1));
            driver.publish();
            for base in [START, dropped | dropped << 16] {
                // One buffer looks like the rest of a chain, and what is told is believed.
                let may_be_rest = from == 1 && base != START && !options.indirect;
                let found = resumed(&place, base, options).next_avail() as u16;
                let expected = if from == 0 { dropped as u16 } else { device.next_avail() as u16 };
                assert!(
                    found == expected || may_be_rest,
                    "{start} {left} {from} {more} {base:#x}: {found:#x}, not {expected:#x}"
                );
            }
            let mut device = resumed(&place, START, options);
            while !device.enable_notification() {
                use_some(&mut device, &place, 4, false);
            }
            let used: Vec<u16> =
                std::iter::from_fn(|| driver.next_used().unwrap()).map(|used| used.id).collect();
            assert_eq!((used, driver.outstanding()), (due.into(), 0), "{start} {left} {from} {more}");
        }
    }
}
