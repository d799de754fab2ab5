//! Words, copies and bounds of views; a peer's file.

use super::*;

fn view(len_bytes: usize) -> View {
    let area = Arc::new(Area::new(Mapping::shared_small_pages(len_bytes).unwrap()));
    View::new(&area, 0, len_bytes).unwrap()
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
    let ours = Arc::new(Area::of_peer(mapping.fd(), 5000).unwrap());
    assert!(is_sealed(mapping.fd()) && seal(mapping.fd()));
    let theirs = Arc::new(Area::new(mapping));
    assert_eq!((ours.len_bytes(), ours.mapping().is_none(), ours.is_broken()), (8192, true, false));
    View::new(&theirs, 0, 8192).unwrap().store_u16(4098, 77);
    assert_eq!(View::new(&ours, 4096, 4).unwrap().load_u16(2), 77);
    let fd = theirs.mapping().unwrap().fd();
    for len in [0, 8193, u64::MAX] {
        assert_eq!(Area::of_peer(fd, len).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{len}");
    }
}

#[test]
fn a_snapshot_is_a_copy_of_the_bytes() {
    let view = view(64);
    assert!(view.copy_in(5, &[1, 2, 3, 4]));
    // SAFETY: inside the view.
    let copied = unsafe { super::snapshot::<3>(view.start.add(5)) };
    view.store_u16(6, 0);
    assert_eq!(copied, [1, 2, 3]);
}
