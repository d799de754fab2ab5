//! Words, copies and bounds of views; records; a peer's file.

use std::io;
use std::sync::Arc;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, Pair, Record, Short, Table, View, is_sealed, seal, snapshot};

fn area(len_bytes: usize) -> Arc<Area> {
    Arc::new(Area::new(Mapping::shared_small_pages(len_bytes).unwrap()))
}

fn view(len_bytes: usize) -> View {
    View::new(&area(len_bytes), 0, len_bytes).unwrap()
}

#[test]
fn a_word_that_is_written_is_read_in_its_place() {
    let view = view(64);
    view.store_u16(2, 0x1234);
    view.store_u32_release(4, 0x89ab_cdef);
    view.store_u64(8, u64::MAX - 1);
    assert_eq!(
        (view.load_u16_acquire(2), view.load_u32(4), view.load_u64(8)),
        (0x1234, 0x89ab_cdef, u64::MAX - 1)
    );
    let part = view.part(2, 6).unwrap();
    assert_eq!((part.load_u16(0), part.len_bytes(), part.is_aligned(4)), (0x1234, 6, false));
    assert!(view.part(60, 5).is_none() && view.part(usize::MAX, 2).is_none() && view.part(64, 0).is_some());
}

#[test]
fn a_copy_of_any_length_and_place_is_exact() {
    let view = view(4096);
    let bytes: Vec<u8> = (0..200u8).collect();
    for at in 0..40 {
        for len in 0..bytes.len() {
            assert!(view.copy_in(at, &vec![0xee; 260]) && view.copy_in(at + 1, &bytes[..len]));
            let mut back = vec![0; len + 2];
            assert!(view.copy_out(at, &mut back));
            assert_eq!(
                (back[0], &back[1..=len], back[len + 1]),
                (0xee, &bytes[..len], 0xee),
                "{len} at {at}"
            );
        }
    }
}

#[test]
fn bytes_outside_are_not_copied() {
    let view = view(64);
    let mut to = [7u8; 65];
    assert!(
        !view.copy_out(0, &mut to)
            && !view.copy_out(usize::MAX, &mut to[..1])
            && !view.copy_out(64, &mut to[..1])
    );
    assert!(!view.copy_in(0, &to) && !view.copy_in(63, &to[..2]));
    assert!(view.copy_out(64, &mut []) && view.copy_in(0, &to[..64]));
    assert_eq!(to, [7; 65]);
}

#[test]
#[should_panic(expected = "assertion")]
fn a_word_beyond_the_end_panics() {
    view(64).load_u32(62);
}

#[test]
fn a_peers_file_is_mapped_up_to_its_length() {
    let mapping = Mapping::shared_small_pages(8192).unwrap();
    let ours = Arc::new(Area::of_peer(mapping.fd().unwrap(), 5000).unwrap());
    assert!(is_sealed(mapping.fd().unwrap()) && seal(mapping.fd().unwrap()));
    let theirs = Arc::new(Area::new(mapping));
    assert_eq!((ours.len_bytes(), ours.mapping().is_none(), ours.is_broken()), (8192, true, false));
    View::new(&theirs, 0, 8192).unwrap().store_u16(4098, 77);
    assert_eq!(View::new(&ours, 4096, 4).unwrap().load_u16(2), 77);
    let fd = theirs.mapping().unwrap().fd().unwrap();
    for len in [0, 8193, u64::MAX] {
        assert_eq!(Area::of_peer(fd, len).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{len}");
    }
}

#[test]
fn a_snapshot_is_a_copy_of_the_bytes() {
    let view = view(64);
    assert!(view.copy_in(5, &[1, 2, 3, 4]));
    let start = view.area().mapping().unwrap().start();
    // SAFETY: inside the view.
    let copied = unsafe { snapshot::<3>(start.add(5)) };
    view.store_u16(6, 0);
    assert_eq!(copied, [1, 2, 3]);
}

#[test]
fn a_record_that_is_written_is_read_through_the_view() {
    let view = View::new(&area(4096), 32, 40).unwrap();
    let table = Table::<Record>::new(view.clone()).unwrap();
    let [first, second] = table.all() else { panic!("half a record is none") };
    second.store_first(0x0102);
    second.store_second_release(u64::MAX);
    assert_eq!((view.load_u64(16), view.load_u64(24)), (0x0102, u64::MAX));
    second.store_second(7);
    assert_eq!(second.load(), [0x0102, 7]);
    assert_eq!((second.load_first(), second.load_second_acquire()), (0x0102, 7));
    assert_eq!(first.load(), [0, 0]);
    first.prefetch();
    second.prefetch_to_write();
}

#[test]
fn a_pair_or_short_that_is_written_is_read_through_the_view() {
    let view = View::new(&area(4096), 4, 19).unwrap();
    let pairs = Table::<Pair>::new(view.clone()).unwrap();
    assert_eq!(pairs.all().len(), 2);
    pairs.clone().all()[1].store([1, u32::MAX]);
    assert_eq!((pairs.all()[1].load(), view.load_u32(8), view.load_u32(12)), ([1, u32::MAX], 1, u32::MAX));
    let shorts = Table::<Short>::new(view.part(6, 5).unwrap()).unwrap();
    assert_eq!(shorts.all().len(), 2);
    shorts.all()[0].store(0x1234);
    assert_eq!((shorts.all()[0].load(), view.load_u16(6), shorts.view().len_bytes()), (0x1234, 0x1234, 5));
}

#[test]
fn an_unaligned_view_is_refused() {
    let at = |at| View::new(&area(4096), at, 64).unwrap();
    assert!(Table::<Record>::new(at(8)).is_none() && Table::<Record>::new(at(16)).is_some());
    assert!(Table::<Pair>::new(at(2)).is_none() && Table::<Pair>::new(at(4)).is_some());
    assert!(Table::<Short>::new(at(1)).is_none() && Table::<Short>::new(at(2)).is_some());
}
