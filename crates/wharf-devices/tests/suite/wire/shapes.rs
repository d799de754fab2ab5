//! Super-packets, empty frames, and receivers whose frames are small.

use wharf_core::device::{RxDevice, TxDevice};
use wharf_devices::wire::WireSpec;
use wharf_mem::{Batch, Frame, Meta};
use wharf_testkit::content::write;
use wharf_testkit::ends::Ends;
use wharf_testkit::{pool, pool_of};

/// Takes frames of `ends` for chunks of these lengths, links them, and sends the chain.
fn send_chain(ends: &mut Ends, lens: &[u32], meta: Option<&Meta>) {
    let mut pieces = Batch::new(lens.len());
    for (number, &len) in lens.iter().enumerate() {
        ends.from.take(&mut pieces, 1, len).unwrap();
        let frame = pieces.frames_mut().last_mut().unwrap();
        write(ends.near_pool.region().bytes_mut(frame).unwrap(), 7, number as u32);
    }
    let mut head = pieces.pop().unwrap();
    while let Some(piece) = pieces.pop() {
        ends.near_pool.region().link(&mut head, piece).unwrap();
    }
    if let Some(meta) = meta {
        ends.near_pool.region().set_meta(&mut head, meta).unwrap();
    }
    ends.batch.push(head).unwrap();
    ends.near.transmit(&mut ends.batch, false);
}

/// The bytes of such a chain.
fn chain_bytes(lens: &[u32]) -> Vec<u8> {
    let chunk =
        |(number, &len): (usize, &u32)| wharf_testkit::content::content(7, number as u32, len as usize);
    lens.iter().enumerate().flat_map(chunk).collect()
}

/// The one frame that the far end gets, its bytes and how many chunks they lie in.
fn receive_one(ends: &mut Ends) -> (Frame, Vec<u8>, usize) {
    let far = ends.far.as_mut().unwrap();
    assert_eq!(far.receive(&mut ends.to, &mut ends.received, 9).unwrap(), 1);
    let frame = ends.received.pop().unwrap();
    let region = ends.far_pool.region();
    let bytes = region.chunks(&frame).unwrap().flatten().copied().collect();
    let chunks = region.chunks(&frame).unwrap().count();
    (frame, bytes, chunks)
}

#[test]
fn super_packets_cross_whole_with_their_requests() {
    let meta = Meta { gso_bytes: 1448, gso_kind: 1, needs_checksum: true, time_ns: 77, ..Meta::default() };
    let lens = [1500, 1, 1300, 700];
    for (frame_bytes, chunks) in [(64, 55), (1536, 3), (8192, 1)] {
        let mut ends = Ends::with(&WireSpec::default(), pool(64), pool_of(64, frame_bytes));
        for meta in [None, Some(&meta)] {
            send_chain(&mut ends, &lens, meta);
            let (frame, bytes, got) = receive_one(&mut ends);
            assert_eq!((bytes, frame.len_bytes()), (chain_bytes(&lens), 3501));
            // Frames of 8 KiB lose 448 B to their colour, and still hold it all.
            assert_eq!(got, chunks, "frames of {frame_bytes} B");
            assert_eq!(ends.far_pool.region().meta(&frame).unwrap(), meta.copied().unwrap_or_default());
            ends.to.give_one(frame).unwrap();
            ends.near.reap(9, false, &mut ends.done).unwrap();
            assert_eq!(ends.done.sent.frames()[0].len_bytes(), 3501, "completed as it was given");
            ends.from.give(&mut ends.done.sent).unwrap();
        }
        ends.assert_all_home();
    }
}

#[test]
fn plain_frames_longer_than_the_receivers_become_chains_in_order() {
    let mut ends = Ends::with(&WireSpec::default(), pool(512), pool_of(512, 256));
    ends.send(60);
    assert_eq!(ends.receive(100), (0..60).collect::<Vec<u32>>());
    ends.reap();
    ends.assert_all_home();
}

#[test]
fn frame_beyond_the_whole_pool_is_too_long_and_the_rest_goes_on() {
    let mut ends = Ends::with(&WireSpec::default(), pool(64), pool_of(4, 1536));
    ends.send(1);
    send_chain(&mut ends, &[1500; 5], None);
    ends.send(1);
    assert_eq!(ends.receive(9), [0, 1]);
    let (sent, failed) = ends.reap();
    assert_eq!((sent, failed), (vec![0, 1], vec![(0, "too-long")]), "a chain begins with its packet 0");
    ends.assert_all_home();
}

#[test]
fn a_chain_waits_until_there_is_memory_for_all_of_it() {
    let mut ends = Ends::with(&WireSpec::default(), pool(64), pool_of(4, 1536));
    let mut held = Batch::new(1);
    ends.to.take(&mut held, 1, 1).unwrap();
    send_chain(&mut ends, &[1500; 4], None);
    assert_eq!(ends.receive(9), [0u32; 0]);
    assert_eq!(ends.far_pool.audit().out(), 1, "it takes all frames that it needs, or none");
    ends.to.give(&mut held).unwrap();
    let (frame, bytes, _) = receive_one(&mut ends);
    assert_eq!(bytes, chain_bytes(&[1500; 4]));
    ends.to.give_one(frame).unwrap();
    ends.reap();
    ends.assert_all_home();
}

#[test]
fn an_empty_frame_arrives_empty() {
    let mut ends = Ends::new(&WireSpec::default());
    ends.from.take(&mut ends.batch, 1, 0).unwrap();
    ends.near.transmit(&mut ends.batch, false);
    let (frame, bytes, _) = receive_one(&mut ends);
    assert_eq!(bytes, []);
    ends.to.give_one(frame).unwrap();
    ends.near.reap(9, false, &mut ends.done).unwrap();
    ends.from.give(&mut ends.done.sent).unwrap();
    ends.assert_all_home();
}
