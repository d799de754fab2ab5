//! Peers that break the rules, one case a line: each is an error of that queue, and nothing else.

use super::pair::{BUFFER_BYTES, GUEST, LAYOUTS, area, buffers, device, driver, extent, place};
use wharf_devices::virtio::{
    CHAIN_MAX, Chain, DriverRing, Layout, Memory, MemoryRegion, Options, Place, RingError,
};
use wharf_sys::shared::View;

const SIZE: u16 = 8;
const END: u64 = GUEST + BUFFER_BYTES as u64;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const ALL: Options = Options { event_idx: true, indirect: true, in_order: false };

/// Descriptor `at` of a table, as either layout has it: of a packed one the last word goes before the flags.
fn descriptor(layout: Layout, table: &View, at: usize, address: u64, len: u32, flags: u16, next: u16) {
    let at = 16 * at;
    table.store_u64(at, address);
    table.store_u32(at + 8, len);
    let (first, second) = if layout == Layout::Split { (flags, next) } else { (next, flags) };
    table.store_u16(at + 12, first);
    table.store_u16(at + 14, second);
}

/// Returns the error that a device finds in a chain: see [`pop`].
fn chain(
    layout: Layout, options: Options, ring: &[(u64, u32, u16, u16)], table: &[(u64, u32, u16, u16)],
) -> String {
    let (memory, bytes) = buffers();
    match pop(layout, options, ring, table, &memory, &bytes, &mut Chain::new()) {
        Err(error) => error.to_string(),
        Ok(popped) => format!("nothing ({popped})"),
    }
}

/// Pops a chain of these descriptors (address, length, flags, next), the first of a ring, with
/// these in an indirect table at [`GUEST`].
fn pop(
    layout: Layout, options: Options, ring: &[(u64, u32, u16, u16)], table: &[(u64, u32, u16, u16)],
    memory: &Memory, bytes: &View, chain: &mut Chain,
) -> Result<bool, RingError> {
    let place = place(layout, SIZE);
    let mut device = device(&place, options, 0);
    let [descriptors, driver, _] = place.areas();
    // In a packed ring descriptors are available on the first round.
    let available = if layout == Layout::Packed { 1 << 7 } else { 0 };
    for (at, &(address, len, flags, next)) in ring.iter().enumerate() {
        descriptor(layout, descriptors, at, address, len, flags | available, next);
    }
    for (at, &(address, len, flags, next)) in table.iter().enumerate() {
        descriptor(layout, bytes, at, address, len, flags, next);
    }
    if layout == Layout::Split {
        driver.store_u16(2, 1);
    }
    device.pop(memory, chain)
}

#[test]
fn a_table_that_keeps_the_rules_is_one_buffer() {
    for layout in [Layout::Split, Layout::Packed] {
        let ((memory, bytes), mut chain) = (buffers(), Chain::new());
        let parts = [
            (GUEST + 1024, 10, NEXT, if layout == Layout::Split { 2 } else { 0 }),
            (GUEST + 3072, 30, WRITE, 0),
            (GUEST + 2048, 20, NEXT, 1),
        ];
        // A packed one has no order but its own.
        let parts = if layout == Layout::Split { parts } else { [parts[0], parts[2], parts[1]] };
        assert!(bytes.copy_in(1024, &[1; 10]) && bytes.copy_in(2048, &[2; 20]));
        let ring = [(GUEST, 48, INDIRECT, 0)];
        assert_eq!(pop(layout, ALL, &ring, &parts, &memory, &bytes, &mut chain), Ok(true), "{layout}");
        assert_eq!((chain.readable_bytes(), chain.writable_bytes(), chain.token().id()), (30, 30, 0));
        let mut read = [0; 40];
        assert_eq!(chain.copy_out(&memory, 0, &mut read), 30, "no more");
        assert_eq!(read[..30], [&[1; 10][..], &[2; 20]].concat());
        assert_eq!(chain.copy_in(&memory, 5, &[3; 40]), 25, "no more");
        let mut written = [0; 31];
        assert!(bytes.copy_out(3072, &mut written));
        assert_eq!(written[..], [&[0; 5][..], &[3; 25], &[0]].concat());
    }
}

/// Descriptors over hundreds of regions each: few of them are many parts.
#[test]
fn a_chain_of_more_parts_than_any_driver_makes_is_an_error() {
    let (regions, page) = (500, 4096);
    let shared = area(regions * page);
    let region = |at: usize| {
        let at = (at * page) as u64;
        MemoryRegion::new(GUEST + at, GUEST + at, &shared, at, page as u64).unwrap()
    };
    let memory = Memory::new((0..regions).map(region).collect()).unwrap();
    let ring = |count: u16| -> Vec<_> {
        let next = |at| if at + 1 < count { NEXT } else { 0 };
        (0..count).map(|at| (GUEST, (regions * page) as u32, next(at), at + 1)).collect()
    };
    let bytes = View::new(&shared, 0, page).unwrap();
    for layout in LAYOUTS {
        let mut chain = Chain::new();
        assert_eq!(pop(layout, ALL, &ring(4), &[], &memory, &bytes, &mut chain), Ok(true));
        assert_eq!((chain.readable().len(), chain.descriptors()), (2000, 2000), "what costs counts");
        let error = pop(layout, ALL, &ring(5), &[], &memory, &bytes, &mut chain).unwrap_err();
        assert_eq!(error, RingError::Loop { max: CHAIN_MAX }, "{layout}");
    }
}

/// Cases, counted and printed.
#[derive(Default)]
struct Cases(usize);

impl Cases {
    fn expect(&mut self, what: String, seen: &str, part: &str) {
        assert!(seen.contains(part), "{what}: {seen:?} does not say {part:?}");
        self.0 += 1;
        println!("{:3} {what}: {seen}", self.0);
    }
}

fn chains(cases: &mut Cases, layout: Layout) {
    let outside = "do not lie within";
    let (table, max) = (16 * 4, u32::from(CHAIN_MAX));
    let good = (GUEST + 4096, 64, 0, 0);
    let indirect = |address, len| vec![(address, len, INDIRECT, 0)];
    let all_next: Vec<_> = (0..SIZE).map(|at| (GUEST, 1, NEXT, (at + 1) % SIZE)).collect();
    type Descriptors = Vec<(u64, u32, u16, u16)>;
    let of_ring: Vec<(&str, Descriptors, &str)> = vec![
        ("a chain round the whole ring", all_next, "more than 8 descriptors"),
        ("an address below", vec![(GUEST - 1, 1, 0, 0)], outside),
        ("an address above", vec![(END, 1, 0, 0)], outside),
        ("address 0", vec![(0, 64, WRITE, 0)], outside),
        ("the last address", vec![(u64::MAX, 1, 0, 0)], outside),
        ("the end of a region crossed", vec![(END - 10, 11, 0, 0)], outside),
        ("a length that overflows", vec![(u64::MAX - 10, 64, 0, 0)], outside),
        ("a length of 4 GiB - 1", vec![(GUEST, u32::MAX, WRITE, 0)], outside),
        ("a second part outside", vec![(GUEST, 64, NEXT, 1), (END, 64, 0, 0)], outside),
        ("read behind write", vec![(GUEST, 64, WRITE | NEXT, 1), good], "behind one to be written"),
        ("indirect, with a next one", vec![(GUEST, table, INDIRECT | NEXT, 1), good], "with a next one"),
        ("an empty table", indirect(GUEST, 0), "table of 0 bytes"),
        ("a table of 15 bytes", indirect(GUEST, 15), "table of 15 bytes"),
        ("a table of 24 bytes", indirect(GUEST, 24), "table of 24 bytes"),
        ("a table too long", indirect(GUEST, 16 * (max + 1)), "indirect table of"),
        ("a table of 4 GiB", indirect(GUEST, u32::MAX - 15), "indirect table of"),
        ("a table outside", indirect(END, table), outside),
        ("a table below", indirect(GUEST - 8, table), outside),
        ("a table at the last address", indirect(u64::MAX - 8, table), outside),
    ];
    for (what, ring, part) in of_ring {
        cases.expect(format!("{layout}, {what}"), &chain(layout, ALL, &ring, &[good]), part);
    }
    let none = Options { indirect: false, ..ALL };
    cases.expect(
        format!("{layout}, a table where there is to be none"),
        &chain(layout, none, &indirect(GUEST, table), &[good]),
        "not negotiated",
    );
    let of_table: Vec<(&str, Descriptors, &str)> = vec![
        ("a table in a table", vec![(GUEST, table, INDIRECT, 0)], "inside an indirect table"),
        ("a part outside", vec![(END, 1, 0, 0)], outside),
        ("read behind write", vec![(GUEST, 1, WRITE | NEXT, 1), good], "behind one to be written"),
    ];
    for (what, parts, part) in of_table {
        let seen = chain(layout, ALL, &indirect(GUEST, table), &parts);
        cases.expect(format!("{layout}, in a table: {what}"), &seen, part);
    }
}

/// Adds the errors that only a split ring can have.
fn split(cases: &mut Cases) {
    let table = [(GUEST, 64, INDIRECT, 0)];
    let of_table = [
        ("a next one outside", vec![(GUEST, 1, NEXT, 4)], "descriptor 4 of a table of 4"),
        ("a next one far outside", vec![(GUEST, 1, NEXT, 65535)], "descriptor 65535"),
        ("a descriptor that is its own next", vec![(GUEST, 1, NEXT, 0)], "more than 4 descriptors"),
    ];
    for (what, parts, part) in of_table {
        cases.expect(format!("split, in a table: {what}"), &chain(Layout::Split, ALL, &table, &parts), part);
    }
    for (what, next, part) in
        [("outside", SIZE, "descriptor 8"), ("far outside", 65535, "65535"), ("itself", 0, "more than 8")]
    {
        let seen = chain(Layout::Split, ALL, &[(GUEST, 1, NEXT, next)], &[]);
        cases.expect(format!("split, a next one {what}"), &seen, part);
    }
    for (what, head, index, part) in [
        ("a head outside", SIZE, 1, "descriptor 8 of a table of 8"),
        ("a head far outside", 65535, 1, "descriptor 65535"),
        ("an index one too far", 0, SIZE + 1, "available index 9 is 9 beyond"),
        ("an index half way round", 0, 32768, "available index 32768"),
        ("an index that goes back", 0, 65535, "available index 65535"),
    ] {
        let (memory, _) = buffers();
        let place = place(Layout::Split, SIZE);
        let mut device = device(&place, ALL, 0);
        descriptor(Layout::Split, place.areas()[0], 0, GUEST, 1, 0, 0);
        place.areas()[1].store_u16(4, head);
        place.areas()[1].store_u16(2, index);
        let seen = device.pop(&memory, &mut Chain::new()).unwrap_err().to_string();
        cases.expect(format!("split, {what}"), &seen, part);
    }
}

fn places(cases: &mut Cases, layout: Layout) {
    let shared = area(1 << 20);
    let region = MemoryRegion::new(GUEST, GUEST, &shared, 0, 1 << 20).unwrap();
    let memory = Memory::new(vec![region]).unwrap();
    let find = |size: u32, at: [u64; 3]| match Place::find(layout, size, &memory, at[0], at[1], at[2]) {
        Err(error) => error.to_string(),
        Ok(_) => "nothing".into(),
    };
    let good = [GUEST, GUEST + 0x1000, GUEST + 0x2000];
    let odd: &[u32] = if layout == Layout::Split { &[3, 6, 255, 32767] } else { &[] };
    for &size in [0, 32769, 65536, 65537, u32::MAX].iter().chain(odd) {
        cases.expect(format!("{layout}, size {size}"), &find(size, good), "cannot have");
    }
    for (at, name) in ["descriptor", "driver", "device"].into_iter().enumerate() {
        for (what, address) in
            [("outside", END), ("crossing the end", END - 2), ("odd", GUEST + 1), ("wrapping", u64::MAX)]
        {
            let mut places = good;
            places[at] = address;
            cases.expect(format!("{layout}, {name} area {what}"), &find(8, places), name);
        }
    }
}

/// Says, as a device, that buffer `id` was used at place `at`, with this length; `index` is then the used
/// index.
fn say_used(place: &Place, at: usize, id: u32, len: u32, index: u16) {
    let [descriptors, _, device] = place.areas();
    if place.layout() == Layout::Packed {
        descriptors.store_u32(16 * at + 8, len);
        descriptors.store_u16(16 * at + 12, id as u16);
        descriptors.store_u16(16 * at + 14, 1 << 7 | 1 << 15 | WRITE);
    } else {
        device.store_u32(4 + 8 * at, id);
        device.store_u32(8 + 8 * at, len);
        device.store_u16(2, index);
    }
}

/// All buffers that come back, at most as many as would be absurd; then the error.
fn reap(driver: &mut dyn DriverRing) -> (usize, String) {
    for count in 0..100 {
        match driver.next_used() {
            Ok(Some(_)) => {}
            Ok(None) => return (count, "nothing".into()),
            Err(error) => return (count, error.to_string()),
        }
    }
    (100, "without an end".into())
}

fn used(cases: &mut Cases, layout: Layout) {
    for in_order in [false, true] {
        let options = Options { in_order, ..ALL };
        let order = if in_order { ", in order" } else { "" };
        type Entries = &'static [(u32, u32)];
        let says: [(&str, Entries, usize, &str); 6] = [
            ("a number never given", &[(5, 0)], 0, "buffer 5 was used"),
            ("a number outside", &[(8, 0)], 0, "buffer 8 was used"),
            ("a number far outside", &[(65535, 0)], 0, "buffer 65535 was used"),
            ("a number twice", &[(0, 0), (0, 0)], 1, "buffer 0 was used"),
            ("too much written", &[(0, 65)], 0, "65 bytes written into buffer 0, which has 64"),
            ("4 GiB written", &[(0, u32::MAX)], 0, "written into buffer 0"),
        ];
        for (what, entries, before, part) in says {
            let place = place(layout, SIZE);
            let mut driver = driver(&place, options, 0);
            (0..3).for_each(|at| assert!(driver.add(&[], &[extent(at * 64, 64)]).is_some()));
            driver.publish();
            for (at, &(id, len)) in entries.iter().enumerate() {
                say_used(&place, at, id, len, at as u16 + 1);
            }
            let (count, seen) = reap(&mut *driver);
            assert_eq!(count, before, "{layout} {what}");
            cases.expect(format!("{layout}{order}, used: {what}"), &seen, part);
        }
    }
}

/// Used indices that jump; packed rings have none.
fn used_index(cases: &mut Cases) {
    for (what, index) in [("beyond what was given", 4), ("half way round", 32768), ("that goes back", 65535)]
    {
        let place = place(Layout::Split, SIZE);
        let mut driver = driver(&place, ALL, 0);
        (0..3).for_each(|at| assert!(driver.add(&[extent(at, 1)], &[]).is_some()));
        driver.publish();
        say_used(&place, 0, 0, 0, index);
        cases.expect(format!("split, a used index {what}"), &reap(&mut *driver).1, "used index");
    }
    let place = place(Layout::Split, SIZE);
    let mut driver = driver(&place, Options { in_order: true, ..ALL }, 0);
    (0..3).for_each(|at| assert!(driver.add(&[], &[extent(at, 1)]).is_some()));
    driver.publish();
    // One entry for three buffers, and an index for one.
    say_used(&place, 0, 2, 0, 1);
    let (count, seen) = reap(&mut *driver);
    assert_eq!(count, 1);
    cases.expect("split, in order: a batch longer than its index".into(), &seen, "buffer 2 was used");
}

#[test]
fn each_is_an_error_of_that_queue_and_nothing_else() {
    let mut cases = Cases::default();
    for layout in LAYOUTS {
        places(&mut cases, layout);
        chains(&mut cases, layout);
        used(&mut cases, layout);
    }
    split(&mut cases);
    used_index(&mut cases);
    println!("{} cases", cases.0);
    assert!(cases.0 >= 60);
}

#[test]
fn a_packed_ring_whose_buffers_are_available_for_ever_ends() {
    let (memory, _) = buffers();
    let place = place(Layout::Packed, SIZE);
    let mut device = device(&place, ALL, 0);
    let mut popped = 0;
    let error = loop {
        for at in 0..SIZE.into() {
            let flags = if popped / usize::from(SIZE) % 2 == 0 { 1 << 7 } else { 1 << 15 };
            descriptor(Layout::Packed, place.areas()[0], at, GUEST, 1, flags, 0);
        }
        match device.pop(&memory, &mut Chain::new()) {
            Ok(_) => popped += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((popped, error), (usize::from(SIZE), RingError::Loop { max: SIZE }));
}
