//! Frames of several buffers, and those longer than a descriptor.

use super::Bench;
use super::kernel::{Event, Random};
use wharf_mem::{Frame, Meta};
use wharf_sys::xdp::PACKET_CONTINUES;

impl Bench {
    /// Adds a frame of buffers of `lens` bytes to the batch.
    fn offer_chain(&mut self, lens: &[u32]) {
        let mut pieces: Vec<Frame> = Vec::new();
        for &len in lens {
            let mut one = wharf_mem::Batch::new(1);
            assert_eq!(self.cache.take(&mut one, 1, len).unwrap(), 1);
            pieces.extend(one.pop());
        }
        let mut pieces = pieces.into_iter();
        let mut head = pieces.next().unwrap();
        self.pool.region().bytes_mut(&mut head).unwrap()[..4].copy_from_slice(&self.given.to_be_bytes());
        pieces.for_each(|piece| self.pool.region().link(&mut head, piece).unwrap());
        self.batch.push(head).unwrap();
        self.given += 1;
    }
}

#[test]
fn every_buffer_is_named_in_order_and_the_frame_is_back_with_the_last() {
    let mut bench = Bench::new(32, 32, u32::MAX - 2);
    bench.offer_chain(&[100, 4096, 300]);
    // A buffer longer than a descriptor.
    bench.offer_chain(&[7000]);
    bench.offer_chain(&[1000, 7000]);
    bench.offer(1);
    assert!(!bench.transmit());
    let described: Vec<(u32, u32)> =
        bench.mock.with(|kernel| kernel.taken.iter().map(|one| (one.len, one.options)).collect());
    let more = PACKET_CONTINUES;
    let want = [
        (100, more),
        (4096, more),
        (300, 0),
        (4096, more),
        (2904, 0),
        (1000, more),
        (4096, more),
        (2904, 0),
        (64, 0),
    ];
    assert_eq!(described, want);
    // Last buffer first.
    let addresses: Vec<u64> = bench.mock.with(|kernel| kernel.under_way.drain(..).flatten().collect());
    for (at, address) in addresses.iter().enumerate().rev() {
        bench.mock.with(|kernel| kernel.lie(*address));
        bench.reap().unwrap();
        let back = [8, 5, 3, 0].iter().filter(|&&first| at <= first).count();
        assert_eq!(bench.sent.len(), back, "descriptor {at}");
    }
    assert_eq!(bench.sent, [3, 2, 1, 0]);
    bench.mock.with(|kernel| kernel.lie(addresses[1]));
    assert!(bench.reap().is_err(), "twice");
    bench.assert_conserved();
}

#[test]
fn a_chain_waits_for_room_for_all_of_it() {
    let mut bench = Bench::new(4, 4, u32::MAX);
    bench.offer(2);
    bench.offer_chain(&[60, 60, 60]);
    assert!(bench.transmit());
    assert_eq!((bench.sending.held(), bench.batch.len()), (2, 1));
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    bench.transmit();
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    assert_eq!(bench.sent, [0, 1, 2]);
    bench.assert_conserved();
}

#[test]
fn unsendable_frames_fail_with_their_reason() {
    let mut bench = Bench::new(64, 64, 0);
    bench.offer_chain(&[60; 18]);
    bench.offer_chain(&[60; 17]);
    bench.offer_chain(&[14]);
    bench.offer_chain(&[7000, 2015]);
    bench.offer_chain(&[60]);
    let region = bench.pool.region().clone();
    let meta = Meta { gso_bytes: 1000, gso_kind: 1, ..Meta::default() };
    region.set_meta(bench.batch.frames_mut().last_mut().unwrap(), &meta).unwrap();
    bench.transmit();
    bench.mock.with(|kernel| kernel.complete_all());
    let error = bench.reap().unwrap_err().to_string();
    assert!(error.contains("a frame of 9015 bytes is too long: x's MTU of 9000"), "{error}");
    assert_eq!(bench.sent, [1]);
    bench.failed.sort_unstable();
    assert_eq!(
        bench.failed,
        [(0, "too-many-chunks"), (2, "too-short"), (3, "too-long"), (4, "super-packet")]
    );
    bench.assert_conserved();
}

#[test]
fn a_checksum_left_to_the_device_is_filled_in() {
    let mut bench = Bench::new(64, 64, 0);
    bench.offer_chain(&[60]);
    let region = bench.pool.region().clone();
    let meta = Meta { needs_checksum: true, checksum_start: 34, checksum_offset: 6, ..Meta::default() };
    let frame = bench.batch.frames_mut().last_mut().unwrap();
    region.bytes_mut(frame).unwrap()[34..].fill(0);
    region.set_meta(frame, &meta).unwrap();
    bench.transmit();
    bench.sending.visit(&mut |frame| assert_eq!(region.bytes(frame).unwrap()[40..42], [0xff, 0xff]));
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    bench.assert_conserved();
}

#[test]
fn chains_and_drops_in_any_mixture() {
    for seed in 0..40 {
        let random = Random::new(seed * 104_729 + 11);
        let mut bench = Bench::new(32, 32, u32::MAX - 60);
        let mut rounds = 0;
        while bench.sent.len() + bench.failed.len() < 200 {
            while bench.given < 200 && bench.batch.room() > 0 && random.below(4) > 0 && bench.batch.len() < 8
            {
                let lens: Vec<u32> =
                    (0..1 + random.below(5)).map(|_| [60, 1400, 5000][random.below(3)]).collect();
                let fits = lens.iter().sum::<u32>() <= 9014;
                bench.offer_chain(if fits { &lens } else { &lens[..1] });
            }
            bench.mock.with(|kernel| {
                let events = (0..random.below(6))
                    .map(|_| if random.below(3) == 0 { Event::Drop } else { Event::Send });
                kernel.events.extend(events);
            });
            bench.transmit();
            bench.mock.with(|kernel| {
                kernel.events.clear();
                for _ in 0..random.below(kernel.under_way.len() + 1) {
                    kernel.complete_one(random.below(kernel.under_way.len()));
                }
            });
            let _ = bench.reap();
            rounds += 1;
            assert!(rounds < 2000, "seed {seed}: wedged");
        }
        let dropped = bench.mock.with(|kernel| kernel.dropped.len());
        assert_eq!(bench.failed.len(), dropped, "seed {seed}");
        bench.assert_conserved();
    }
}

#[test]
fn start_of_data_moved_then_each_frame_comes_back() {
    // Into the headroom; behind a header; behind a whole piece; several pieces; a piece that begins at the usual start.
    let moves: [(u32, i32); 6] = [(64, -64), (64, -1), (200, 14), (5000, 4096), (5000, -28), (7000, 70)];
    let mut bench = Bench::new(16, 16, 0);
    let region = bench.pool.region().clone();
    for (number, (len, by)) in moves.into_iter().enumerate() {
        assert_eq!(bench.cache.take(&mut bench.batch, 1, len).unwrap(), 1);
        let frame = bench.batch.frames_mut().last_mut().unwrap();
        match by {
            ..0 => region.prepend(frame, by.unsigned_abs() as usize).unwrap(),
            _ => region.trim_front(frame, by as usize).unwrap(),
        }
        region.bytes_mut(frame).unwrap()[..4].copy_from_slice(&(number as u32).to_be_bytes());
        bench.given += 1;
    }
    bench.batch.refresh();
    bench.transmit();
    assert!(bench.batch.is_empty());
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    assert_eq!(bench.sent.len(), moves.len(), "{:?}", bench.failed);
    bench.assert_conserved();
}
