//! Tables of what is in flight: a device ends anywhere, and the next one uses each buffer that is left, once.

use super::pair::{LAYOUTS, area, buffers, driver, extent, place};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wharf_devices::virtio::packed::PackedDevice;
use wharf_devices::virtio::split::SplitDevice;
use wharf_devices::virtio::{
    Chain, DeviceRing, DriverRing, InflightTable, Layout, Memory, Options, Place, RingError,
};
use wharf_sys::shared::View;

const SIZE: u16 = 8;

fn table(layout: Layout) -> View {
    let len_bytes = InflightTable::len_bytes(layout, SIZE);
    View::new(&area(len_bytes), 0, len_bytes).unwrap()
}

/// The next device, whatever base the driver announces, and the number of buffers that it gave back unused.
fn resumed(place: &Place, options: Options, base: u32) -> Result<(Box<dyn DeviceRing>, usize), RingError> {
    let place = place.clone();
    Ok(match place.layout() {
        Layout::Split => {
            let used = SplitDevice::used_index(&place);
            (Box::new(SplitDevice::new(place, options, used.into())?), 0)
        }
        Layout::Packed => {
            let (device, count) = PackedDevice::resumed(place, base, options)?.unwrap();
            (Box::new(device), count)
        }
    })
}

fn pop(device: &mut dyn DeviceRing, memory: &Memory, most: usize) -> Vec<Chain> {
    let mut chains = Vec::new();
    let mut chain = Chain::new();
    while chains.len() < most && device.pop(memory, &mut chain).unwrap() {
        chains.push(std::mem::take(&mut chain));
    }
    chains
}

fn bytes(view: &View) -> Vec<u8> {
    let mut bytes = vec![0; view.len_bytes()];
    view.copy_out(0, &mut bytes);
    bytes
}

/// Where a device ends while it uses a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Popped,
    Used,
    /// The table has the batch, the ring does not yet.
    Recorded,
    /// So it is, and the ring has the batch but for what shows the first buffer.
    Partly,
    /// The ring has the batch; the table does not know that yet.
    Shown,
    Published,
}

const ENDS: [End; 6] = [End::Popped, End::Used, End::Recorded, End::Partly, End::Shown, End::Published];

/// Uses a batch, and ends there: memory is as a killed process leaves it.
fn use_and_end(mut device: Box<dyn DeviceRing>, chains: &[Chain], end: End, place: &Place, table: &View) {
    let ring = || place.areas().map(bytes);
    let restore = |saved: [Vec<u8>; 3]| {
        place.areas().into_iter().zip(saved).for_each(|(view, bytes)| assert!(view.copy_in(0, &bytes)));
    };
    if end != End::Popped {
        match chains.len() % 2 {
            0 => device.put_all_used(chains),
            _ => chains.iter().for_each(|chain| device.put_used(chain.token(), 0)),
        }
        let (ring_before, before) = (ring(), table.load_u64(16));
        if end != End::Used {
            device.publish();
        }
        match (end, place.layout()) {
            (End::Recorded | End::Partly | End::Shown, Layout::Packed) => {
                // Position now, and before: two halves of the index, two bytes of the wrap counter. The batch
                // begins at the first descriptor that has changed.
                let [mut now, then] = [table.load_u64(16), before].map(u64::to_ne_bytes);
                let (from, after) = (u16::from_ne_bytes([then[0], then[1]]), bytes(place.areas()[0]));
                let at = |index: u16| 16 * usize::from(index % SIZE)..16 * usize::from(index % SIZE) + 16;
                let changed =
                    (from..from + SIZE).find(|&index| after[at(index)] != ring_before[0][at(index)]);
                let begins = changed.unwrap_or(from);
                now[2..4].copy_from_slice(&(begins % SIZE).to_ne_bytes());
                now[5] = then[4] ^ u8::from(begins >= SIZE);
                table.store_u64(16, u64::from_ne_bytes(now));
                let first = at(begins);
                match end {
                    End::Recorded => restore(ring_before),
                    End::Partly => {
                        assert!(place.areas()[0].copy_in(first.start, &ring_before[0][first.clone()]))
                    }
                    _ => {}
                }
            }
            (End::Recorded | End::Partly, Layout::Split) => restore(ring_before),
            _ => {}
        }
    }
    std::mem::forget(device);
}

proptest! {
    #[test]
    fn each_buffer_is_used_once_wherever_a_device_ends(
        bits in 0..8u8, layout in 0..2usize, base in prop::sample::select(vec![0u32, 0x8000, 3, u32::MAX]),
        rounds in prop::collection::vec((prop::collection::vec(1..4u8, 0..6), 1..6usize, 0..6usize, any::<bool>()), 1..60),
    ) {
        let (layout, table) = (LAYOUTS[layout], table(LAYOUTS[layout]));
        let options = Options { event_idx: bits & 1 != 0, indirect: bits & 2 != 0, in_order: bits & 4 != 0 };
        let place = place(layout, SIZE).with_inflight(&table).unwrap();
        let (memory, mut driver, mut due) = (buffers().0, driver(&place, options, 0), VecDeque::new());
        // The table is new: the first base counts.
        drop(resumed(&place, options, 0x8000).unwrap());
        for (added, most, end, takes_back) in rounds {
            for parts in added {
                let parts: Vec<_> = (0..u32::from(parts)).map(|part| extent(64 * part, 60)).collect();
                due.extend(driver.add(&parts, &[]));
            }
            driver.publish();
            let mut device = resumed(&place, options, base).unwrap().0;
            let chains = pop(&mut *device, &memory, most);
            use_and_end(device, &chains, ENDS[end], &place, &table);
            // The driver may see that at once, and make the descriptors available on the next round.
            while let Some(used) = takes_back.then(|| driver.next_used().unwrap()).flatten() {
                prop_assert_eq!(Some(used.id), due.pop_front());
            }
        }
        let mut device = resumed(&place, options, base).unwrap().0;
        while !device.enable_notification() {
            let chains = pop(&mut *device, &memory, usize::MAX);
            device.put_all_used(&chains);
            device.publish();
        }
        while let Some(used) = driver.next_used().unwrap() {
            prop_assert_eq!(Some(used.id), due.pop_front());
        }
        prop_assert_eq!((due.len(), driver.outstanding()), (0, 0));
    }

    #[test]
    fn tables_of_any_contents_end_in_time(
        layout in 0..2usize, ring in prop::collection::vec(any::<u8>(), 400), bits in prop::collection::vec(any::<u8>(), 320),
    ) {
        let (layout, table) = (LAYOUTS[layout], table(LAYOUTS[layout]));
        let (place, memory) = (place(layout, SIZE), buffers().0);
        for area in place.areas() {
            area.copy_in(0, &ring[..area.len_bytes()]);
        }
        table.copy_in(0, &bits[..table.len_bytes()]);
        // A head of this size, so that the rest is read.
        [(8, 1), (10, SIZE)].into_iter().for_each(|(at, word)| table.store_u16(at, word));
        let place = place.with_inflight(&table).unwrap();
        let Ok((mut device, _)) = resumed(&place, Options::default(), 0) else { return Ok(()) };
        let mut chain = Chain::new();
        for _ in 0..100 {
            match device.pop(&memory, &mut chain) {
                Ok(true) => device.put_used(chain.token(), 0),
                _ => break,
            }
            device.publish();
        }
    }
}

#[test]
fn buffers_that_another_back_end_left_in_flight_come_first_in_their_order() {
    let table = table(Layout::Split);
    let place = place(Layout::Split, SIZE).with_inflight(&table).unwrap();
    let (memory, options) = (buffers().0, Options::default());
    let mut driver = driver(&place, options, 0);
    let ids: Vec<u16> = (0..6).map(|n| driver.add(&[extent(64 * n, 60)], &[]).unwrap()).collect();
    driver.publish();
    // It took five, used the second, and is gone: four are in flight, taken in this order.
    drop(resumed(&place, options, 0).unwrap());
    let order = [4usize, 0, 3, 2];
    for (counter, &at) in order.iter().enumerate() {
        let state = 16 + 16 * usize::from(ids[at]);
        table.store_u16(state, 1);
        table.store_u64(state + 8, counter as u64);
    }
    place.areas()[2].store_u32(4, u32::from(ids[1]));
    place.areas()[2].store_u16(2, 1);
    table.store_u16(14, 1);
    assert_eq!(driver.next_used().unwrap().unwrap().id, ids[1]);
    let (mut device, _) = resumed(&place, options, 0).unwrap();
    // The next one uses the first of them, and is gone; so is another one, after it has popped all.
    let chains = pop(&mut *device, &memory, 2);
    assert_eq!(chains.iter().map(|chain| chain.token().id()).collect::<Vec<_>>(), [ids[4], ids[0]]);
    device.undo_pop(chains[1].token());
    device.put_used(chains[0].token(), 0);
    device.publish();
    drop(device);
    drop(pop(&mut *resumed(&place, options, 0).unwrap().0, &memory, 9));
    let (mut device, _) = resumed(&place, options, 0).unwrap();
    let chains = pop(&mut *device, &memory, 9);
    device.put_all_used(&chains);
    device.publish();
    let used: Vec<u16> = std::iter::from_fn(|| driver.next_used().unwrap()).map(|used| used.id).collect();
    assert_eq!(used, [4, 0, 3, 2, 5].map(|at: usize| ids[at]));
    assert!(pop(&mut *resumed(&place, options, 0).unwrap().0, &memory, 9).is_empty());
}

#[test]
fn a_buffer_that_another_back_end_left_in_flight_is_no_silence() {
    let table = table(Layout::Split);
    let place = place(Layout::Split, SIZE).with_inflight(&table).unwrap();
    let (memory, options) = (buffers().0, Options::default());
    let mut driver = driver(&place, options, 0);
    let id = driver.add(&[extent(0, 60)], &[]).unwrap();
    driver.publish();
    drop(resumed(&place, options, 0).unwrap());
    table.store_u16(16 + 16 * usize::from(id), 1);
    let (mut device, _) = resumed(&place, options, 0).unwrap();
    assert!(!device.enable_notification());
    let chains = pop(&mut *device, &memory, 9);
    device.put_all_used(&chains);
    assert!(chains.len() == 1 && device.publish() && device.enable_notification());
}

#[test]
fn a_packed_ring_gives_back_what_another_back_end_left_in_flight() {
    let table = table(Layout::Packed);
    let place = place(Layout::Packed, SIZE).with_inflight(&table).unwrap();
    let (memory, options) = (buffers().0, Options::default());
    let mut driver = driver(&place, options, 0);
    let two = [extent(0, 60), extent(64, 60)];
    let ids: Vec<u16> = [1, 2, 1, 1].iter().map(|&parts| driver.add(&two[..parts], &[]).unwrap()).collect();
    driver.publish();
    drop(resumed(&place, options, 0x8000).unwrap());
    // It took three of four, and used none.
    for (index, (id, descriptors, counter)) in
        [(ids[2], 1, 9), (ids[0], 1, 7), (ids[1], 2, 8)].into_iter().enumerate()
    {
        let state = 32 + 32 * index;
        table.store_u16(state, 1);
        table.store_u16(state + 6, descriptors);
        table.store_u64(state + 8, counter);
        table.store_u16(state + 16, id);
    }
    let (mut device, count) = resumed(&place, options, 0x8000).unwrap();
    assert_eq!(count, 3);
    let used: Vec<u16> = std::iter::from_fn(|| driver.next_used().unwrap()).map(|used| used.id).collect();
    assert_eq!(used, ids[..3]);
    let chains = pop(&mut *device, &memory, 9);
    assert_eq!(chains.iter().map(|chain| chain.token().id()).collect::<Vec<_>>(), ids[3..]);
    assert_eq!(resumed(&place, options, 0x8000).unwrap().1, 0);
}

#[test]
fn a_packed_ring_gives_back_what_is_in_flight_once_wherever_the_device_ends_meanwhile() {
    let (memory, options) = (buffers().0, Options::default());
    for end in 0..4 {
        let table = table(Layout::Packed);
        let place = place(Layout::Packed, SIZE).with_inflight(&table).unwrap();
        let mut driver = driver(&place, options, 0);
        let ids: Vec<u16> = (0..4).map(|n| driver.add(&[extent(64 * n, 60)], &[]).unwrap()).collect();
        driver.publish();
        drop(resumed(&place, options, 0x8000).unwrap());
        for (index, id) in ids[..3].iter().enumerate() {
            let state = 32 + 32 * index;
            [(0, 1), (6, 1), (16, *id)].into_iter().for_each(|(at, word)| table.store_u16(state + at, word));
            table.store_u64(state + 8, index as u64);
        }
        // A device gives them back, and ends before it has shown the first, or with entries left.
        let (ring, before) = (bytes(place.areas()[0]), bytes(&table));
        assert_eq!(resumed(&place, options, 0x8000).unwrap().1, 3);
        let after = bytes(&table);
        let recorded = u64::from_ne_bytes([3, 0, 0, 0, 1, 1, 1, 0]);
        match end {
            0 => assert!(place.areas()[0].copy_in(0, &ring) && table.copy_in(0, &before)),
            1 => {
                assert!(place.areas()[0].copy_in(0, &ring[..16]) && table.copy_in(0, &before));
                table.store_u64(16, recorded);
            }
            2 => {
                assert!(table.copy_in(0, &before));
                table.store_u64(16, recorded);
            }
            _ => assert_eq!(after[22], 0),
        }
        let given_back = resumed(&place, options, 0x8000).unwrap().1;
        assert_eq!(given_back, if end < 2 { 3 } else { 0 }, "{end}");
        let (mut device, count) = resumed(&place, options, 0x8000).unwrap();
        assert_eq!(count, 0);
        let chains = pop(&mut *device, &memory, 9);
        device.put_all_used(&chains);
        device.publish();
        let used: Vec<u16> = std::iter::from_fn(|| driver.next_used().unwrap()).map(|used| used.id).collect();
        assert_eq!(used, ids, "{end}");
    }
}

#[test]
fn a_receive_ring_with_a_hole_goes_on_with_a_frame_of_several_buffers() {
    let (place, memory) = (place(Layout::Packed, SIZE), buffers().0);
    let mut driver = driver(&place, EVENT_IDX, 0);
    (0..4).for_each(|n| assert!(driver.add(&[], &[extent(64 * n, 60)]).is_some()));
    driver.publish();
    let mut device = PackedDevice::new(place.clone(), EVENT_IDX, 0x8000).unwrap();
    assert!(!device.close_hole(&memory).unwrap(), "there is none");
    let chains = pop(&mut device, &memory, 9);
    let mut first = [0; 16];
    assert!(chains.len() == 4 && place.areas()[0].copy_out(0, &mut first));
    chains.iter().for_each(|chain| device.put_used(chain.token(), 60));
    device.publish();
    std::mem::forget(device);
    assert!(place.areas()[0].copy_in(0, &first));
    let mut device = PackedDevice::resumed(place.clone(), 0x8000, EVENT_IDX).unwrap().unwrap().0;
    assert!(device.close_hole(&memory).unwrap() && !device.close_hole(&memory).unwrap());
    let used: Vec<u32> =
        std::iter::from_fn(|| driver.next_used().unwrap()).map(|used| used.written_bytes).collect();
    assert_eq!(used, [0, 60, 60, 60]);
    (0..4).for_each(|n| assert!(driver.add(&[], &[extent(64 * n, 60)]).is_some()));
    driver.publish();
    assert_eq!(pop(&mut device, &memory, 9).len(), 4);
}

/// Device and driver without a table: the device ends after any of the stores by which it shows a batch.
#[test]
fn a_packed_ring_goes_on_after_a_device_that_ended_while_it_showed_a_batch() {
    let (options, memory, mut seen) = (EVENT_IDX, buffers().0, 0);
    for (start, shape) in (0..2 * SIZE).flat_map(|start| (0..81).map(move |shape| (start, shape))) {
        let place = place(Layout::Packed, SIZE);
        let mut driver = driver(&place, options, 0);
        let parts: Vec<u16> = (0..4).map(|at| shape / 3u16.pow(at) % 3 + 1).collect();
        let add = |driver: &mut dyn DriverRing, parts: u16| {
            let parts: Vec<_> = (0..u32::from(parts)).map(|part| extent(64 * part, 60)).collect();
            let id = driver.add(&parts, &[]);
            driver.publish();
            id
        };
        let mut device = PackedDevice::new(place.clone(), options, 0x8000).unwrap();
        for _ in 0..start {
            add(&mut *driver, 1).unwrap();
            let chains = pop(&mut device, &memory, 9);
            device.put_all_used(&chains);
            device.publish();
            driver.next_used().unwrap().unwrap();
        }
        let due: Vec<u16> = parts.iter().map_while(|&parts| add(&mut *driver, parts)).collect();
        // The stores in their order, with their chain: the first descriptor's comes last, and a chain's others before its own.
        let firsts = parts.iter().scan(start, |at, &parts| Some(std::mem::replace(at, *at + parts)));
        let chains = firsts.zip(&parts).take(due.len());
        let mut stores: Vec<(u16, u16)> = chains
            .flat_map(|(first, &parts)| (first + 1..first + parts).chain([first]).map(move |at| (first, at)))
            .filter(|&(_, at)| at != start)
            .collect();
        stores.push((start, start));
        // A batch of the whole ring looks like none.
        if stores.len() >= SIZE.into() {
            continue;
        }
        let before = bytes(place.areas()[0]);
        let expected = device.next_avail();
        let chains = pop(&mut device, &memory, 9);
        device.put_all_used(&chains);
        device.publish();
        std::mem::forget(device);
        let after = bytes(place.areas()[0]);
        for done in 0..stores.len() {
            assert!(place.areas()[0].copy_in(0, &before));
            for &(_, at) in &stores[..done] {
                let at = 16 * usize::from(at % SIZE);
                assert!(place.areas()[0].copy_in(at, &after[at..at + 16]));
            }
            let base = PackedDevice::resume(&place, 0x8000, options);
            // A chain behind the first is half marked: there are two holes.
            let is_half = done > 0 && stores[done].0 != start && stores[done].0 == stores[done - 1].0;
            let is_right = base == Some(expected) || base.is_none() && is_half;
            assert!(is_right, "{start} {parts:?} {done}: {base:?}, not {expected}");
            seen += 1;
        }
        let (mut device, _) = PackedDevice::resumed(place.clone(), 0x8000, options).unwrap().unwrap();
        while !device.enable_notification() {
            let chains = pop(&mut device, &memory, 9);
            device.put_all_used(&chains);
            device.publish();
        }
        let used: Vec<u16> = std::iter::from_fn(|| driver.next_used().unwrap()).map(|used| used.id).collect();
        assert_eq!(used, due, "{start} {parts:?}");
    }
    assert!(seen > 1000, "{seen}");
}

const EVENT_IDX: Options = Options { event_idx: true, indirect: false, in_order: false };

/// The first of four buffers is not shown, the others are: then the device ended.
fn packed_with_a_hole(place: &Place, driver: &mut dyn DriverRing, memory: &Memory) {
    (0..4).for_each(|n| assert!(driver.add(&[extent(64 * n, 60)], &[]).is_some()));
    driver.publish();
    assert!(driver.enable_notification());
    let mut device = PackedDevice::new(place.clone(), EVENT_IDX, 0x8000).unwrap();
    let chains = pop(&mut device, memory, 9);
    let mut first = [0; 16];
    assert!(place.areas()[0].copy_out(0, &mut first));
    device.put_all_used(&chains);
    device.publish();
    std::mem::forget(device);
    assert!(place.areas()[0].copy_in(0, &first));
}

#[test]
fn a_driver_is_told_of_buffers_that_the_device_before_used() {
    let (place, memory) = (place(Layout::Packed, SIZE), buffers().0);
    let mut driver = driver(&place, EVENT_IDX, 0);
    packed_with_a_hole(&place, &mut *driver, &memory);
    // It is made anew once more, before it publishes.
    let device = PackedDevice::new(place.clone(), EVENT_IDX, 0x8000).unwrap();
    let mut device = PackedDevice::new(place.clone(), EVENT_IDX, device.next_avail()).unwrap();
    assert!(device.needs_notification(), "the one before may have told of none");
    let chains = pop(&mut device, &memory, 9);
    assert_eq!(chains.len(), 1);
    device.put_all_used(&chains);
    assert!(device.publish() && device.needs_notification(), "the driver asked at the first");
    assert_eq!(std::iter::from_fn(|| driver.next_used().unwrap()).count(), 4);
    assert!(driver.enable_notification() && device.enable_notification());
    assert!(driver.add(&[extent(0, 60)], &[]).is_some() && driver.publish());
    let chains = pop(&mut device, &memory, 9);
    device.put_all_used(&chains);
    assert!(device.publish());
    // Made anew between what is shown and the notification.
    let mut device = PackedDevice::new(place.clone(), EVENT_IDX, device.next_avail()).unwrap();
    assert!(device.needs_notification() && !device.needs_notification());
}

#[test]
fn a_peer_that_writes_the_table_meanwhile_changes_an_order_at_most() {
    let (size, layout) = (1024, Layout::Split);
    let table = View::new(&area(32 << 10), 0, 32 << 10).unwrap();
    let place = place(layout, size).with_inflight(&table).unwrap();
    [(8, 1), (10, size)].into_iter().for_each(|(at, word)| table.store_u16(at, word));
    let states = |step: u64| (0..u64::from(size)).map(move |at| (16 + 16 * at as usize, (at * step) % 1021));
    states(1).for_each(|(at, _)| table.store_u16(at, 1));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let steps = (1..).take_while(|_| !ends.load(Relaxed));
            steps.for_each(|step| states(step).for_each(|(at, word)| table.store_u64(at + 8, word)));
        });
        let rounds = std::panic::catch_unwind(|| {
            (0..500).for_each(|_| drop(SplitDevice::new(place.clone(), Options::default(), 0).unwrap()));
        });
        ends.store(true, Relaxed);
        assert!(rounds.is_ok());
    });
}

#[test]
fn tables_of_another_version_or_size_are_refused() {
    for layout in LAYOUTS {
        let (table, place) = (table(layout), place(layout, SIZE));
        assert!(place.clone().with_inflight(&table).is_ok(), "a new one");
        for (version, size, is_right) in
            [(1, SIZE, true), (2, SIZE, false), (1, SIZE + 1, false), (1, 0, false)]
        {
            [(8, version), (10, size)].into_iter().for_each(|(at, word)| table.store_u16(at, word));
            assert_eq!(place.clone().with_inflight(&table).is_ok(), is_right, "{layout} {version} {size}");
        }
        let short = table.part(0, table.len_bytes() - 1).unwrap();
        let error = place.clone().with_inflight(&short).unwrap_err();
        assert!(matches!(error, RingError::Inflight { .. }), "{error}");
    }
}
