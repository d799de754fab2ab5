//! The receive side over rings in memory of our own; the test plays the kernel.

use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::iface::Drops;
use wharf_devices::xdp::memory::{self, Window};
use wharf_devices::xdp::receiving::rings::Rings;
use wharf_mem::Batch;
use wharf_sys::xdp::{Consumer, Descriptor, PACKET_CONTINUES, Producer, Shared};

struct Bench {
    rings: Rings,
    filled: Consumer<u64>,
    arrived: Producer<Descriptor>,
    window: Window,
    pool: PagePool,
    cache: Cache,
    to: Batch,
}

impl Bench {
    fn new(frames: u32, frame_bytes: u32, start: u32) -> Self {
        let pool =
            PagePool::builder().frames(frames).frame_bytes(frame_bytes).huge_pages(false).build().unwrap();
        let (fill, receive) =
            (Shared::own(64, start).unwrap(), Shared::own(32, start.wrapping_add(9)).unwrap());
        let (filled, arrived) = (Consumer::new(fill.clone()), Producer::new(receive.clone()));
        let region = pool.region().clone();
        let window = memory::to_receive(&region);
        let rings = Rings::new(Producer::new(fill), Consumer::new(receive), region, window, None, false);
        let cache = pool.cache("test").unwrap();
        Self { rings, filled, arrived, window, pool, cache, to: Batch::new(64) }
    }

    /// Receives. Returns the bytes of the frames.
    fn receive(&mut self) -> Result<Vec<Vec<u8>>, DeviceError> {
        let result = self.rings.receive(&mut self.cache, &mut self.to, 64, || "xdp:x".into());
        let region = self.pool.region().clone();
        let bytes = |frame| region.chunks(frame).unwrap().flatten().copied().collect();
        let frames = self.to.frames().iter().map(bytes).collect();
        self.cache.give(&mut self.to).unwrap();
        result.map(|_| frames)
    }

    /// The next address that was filled.
    fn next_filled(&mut self) -> Option<u64> {
        let address = self.filled.take();
        self.filled.release();
        address
    }

    /// A buffer of `len` bytes arrives where the kernel puts it.
    fn arrive(&mut self, address: u64, len: u32, options: u32) {
        let behind = u64::from(self.window.shape.headroom_bytes + 256);
        assert!(self.arrived.put(Descriptor { addr: address | behind << 48, len, options }), "ring full");
        self.arrived.publish();
    }

    fn assert_conserved(self) {
        let Self { rings, mut cache, pool, .. } = self;
        for frame in rings.close() {
            cache.give_one(frame).unwrap();
        }
        assert_eq!(pool.audit().out(), 0);
    }
}

#[test]
fn every_buffer_that_is_lent_lies_within_the_region_and_ends_with_its_frame() {
    for (frames, frame_bytes) in [(64, 2048), (64, 4096), (40, 2240), (16, 16_384), (100, 512), (4, 65_536)] {
        let pool =
            PagePool::builder().frames(frames).frame_bytes(frame_bytes).huge_pages(false).build().unwrap();
        let region = pool.region();
        let window = memory::to_receive(region);
        let (chunk, headroom) = (window.shape.chunk_bytes, window.shape.headroom_bytes);
        assert!((2048..=4096).contains(&chunk) && headroom <= chunk - 256 - memory::ROOM_BYTES_MIN);
        let room = chunk - headroom - 256;
        assert!(room <= region.data_bytes_max() && (room == region.data_bytes_max() || room == 3840));
        let mut unfit = 0;
        for index in 0..frames as usize {
            let (_, data) = region.buffer_at(index * frame_bytes as usize).unwrap();
            match window.begins_at(data, None) {
                Some(at) => {
                    assert_eq!(at + (headroom + 256) as usize, data);
                    assert!(at + chunk as usize <= (index + 1) * frame_bytes as usize);
                }
                None => unfit += 1,
            }
        }
        assert!(unfit <= 8, "{unfit} of {frames} frames of {frame_bytes} bytes");
    }
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    let window = memory::to_receive(pool.region());
    let fit = (0..64).filter(|n| window.begins_at(n * 2048 + 64, Some(4096)).is_some()).count();
    assert_eq!(fit, 32, "every other one would cross the end of a page");
}

#[test]
fn filled_buffers_come_back_as_packets_across_index_wrap() {
    for start in [0, u32::MAX - 30, u32::MAX] {
        let mut bench = Bench::new(256, 2048, start);
        assert!(bench.receive().unwrap().is_empty());
        let region = bench.pool.region().clone();
        for round in 0..300u32 {
            let count = 1 + round % 30;
            for len in 1..=count {
                let address = bench.next_filled().unwrap();
                // Any order of buffers, and never one twice: the table would not have it.
                assert!(region.buffer_at(address as usize + 512).is_some());
                bench.arrive(address, 60 + len, 0);
            }
            let lens: Vec<usize> = bench.receive().unwrap().iter().map(Vec::len).collect();
            assert!(lens.into_iter().eq((1..=count).map(|len| 60 + len as usize)));
        }
        assert_eq!(*bench.rings.drops(), Drops::default());
        bench.assert_conserved();
    }
}

#[test]
fn packets_of_several_buffers_are_joined_even_if_they_come_bit_by_bit() {
    let mut bench = Bench::new(256, 256, u32::MAX - 1);
    bench.receive().unwrap();
    let more = PACKET_CONTINUES;
    for (len, options) in [(192, more), (192, more), (10, 0), (60, 0), (192, more)] {
        let address = bench.next_filled().unwrap();
        bench.arrive(address, len, options);
    }
    let lens = |frames: Vec<Vec<u8>>| frames.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lens(bench.receive().unwrap()), [394, 60]);
    assert!(bench.receive().unwrap().is_empty());
    let address = bench.next_filled().unwrap();
    bench.arrive(address, 8, 0);
    assert_eq!(lens(bench.receive().unwrap()), [200]);
    // And one that stays half.
    let address = bench.next_filled().unwrap();
    bench.arrive(address, 192, more);
    assert!(bench.receive().unwrap().is_empty());
    bench.assert_conserved();
}

#[test]
fn address_not_held_is_an_error_and_changes_nothing_else() {
    let mut bench = Bench::new(256, 2048, 5);
    bench.receive().unwrap();
    let (first, second) = (bench.next_filled().unwrap(), bench.next_filled().unwrap());
    bench.arrive(first, 60, 0);
    bench.arrive(first, 60, 0);
    bench.arrive(second, 61, 0);
    assert!(matches!(bench.receive(), Err(DeviceError::NotHeld { .. })));
    assert_eq!(bench.receive().unwrap().len(), 1);
    for address in [u64::MAX, 256 * 2048, (1 << 48) - 1] {
        bench.arrive(address, 60, 0);
        assert!(matches!(bench.receive(), Err(DeviceError::NotHeld { .. })), "{address:x}");
    }
    bench.assert_conserved();
}

#[test]
fn packet_elsewhere_in_its_buffer_is_moved_or_dropped() {
    let mut bench = Bench::new(256, 2048, 0);
    bench.receive().unwrap();
    let behind = u64::from(bench.window.shape.headroom_bytes + 256);
    for (shift, len, options) in
        [(14, 60, 0), (14, 1530, 0), (u64::MAX, 60, 0), (0, 2000, PACKET_CONTINUES), (0, 60, 0), (0, 61, 0)]
    {
        let address = bench.next_filled().unwrap();
        let address = address | behind.wrapping_add(shift) << 48;
        bench.arrived.put(Descriptor { addr: address, len, options });
    }
    bench.arrived.publish();
    let lens: Vec<usize> = bench.receive().unwrap().iter().map(Vec::len).collect();
    let mut drops = Vec::new();
    bench.rings.drops().show(&mut |reason, count| drops.push((reason, count)));
    assert_eq!((lens, drops), (vec![60, 61], vec![("misplaced", 3)]));
    bench.assert_conserved();
}

#[test]
fn an_empty_pool_waits_and_a_small_one_keeps_a_quarter() {
    let mut bench = Bench::new(16, 2048, 0);
    bench.receive().unwrap();
    // One frame's window would begin before the region.
    assert_eq!(bench.rings.held(), (12, 1));
    let mut out = Batch::new(16);
    while bench.cache.take(&mut out, 16, 60).is_ok_and(|count| count > 0) {}
    for round in 0..12 {
        let address = bench.next_filled().unwrap();
        bench.arrive(address, 60 + round, 0);
        bench.rings.receive(&mut bench.cache, &mut out, 1, || "xdp:x".into()).unwrap();
    }
    assert_eq!((bench.rings.held().0, bench.next_filled()), (0, None));
    bench.cache.give(&mut out).unwrap();
    bench.receive().unwrap();
    assert_eq!(bench.rings.held().0, 12);
    bench.assert_conserved();
}

/// The rings of two queues over one pool; the test plays the kernel at each.
#[test]
fn queues_share_memory_and_have_their_turns() {
    let pool = PagePool::builder().frames(256).frame_bytes(2048).huge_pages(false).build().unwrap();
    let region = pool.region().clone();
    let window = memory::to_receive(&region);
    let shared = || (Shared::own(128, u32::MAX - 5).unwrap(), Shared::own(64, 7).unwrap());
    let (first, second) = (shared(), shared());
    let ends = |(fill, receive): &(Shared<u64>, Shared<Descriptor>)| {
        (Consumer::new(fill.clone()), Producer::new(receive.clone()))
    };
    let mut kernel = [ends(&first), ends(&second)];
    let rings = Rings::new(Producer::new(first.0), Consumer::new(first.1), region, window, None, false);
    let mut rings = rings.and(Producer::new(second.0), Consumer::new(second.1)).keeping(3, 1);
    let (mut cache, mut to) = (pool.cache("test").unwrap(), Batch::new(64));
    let mut receive = |rings: &mut Rings, budget| {
        let count = rings.receive(&mut cache, &mut to, budget, || "xdp:x".into()).unwrap();
        let lengths: Vec<u32> = to.frames().iter().map(|frame| frame.len_bytes()).collect();
        cache.give(&mut to).unwrap();
        assert_eq!(count, lengths.len());
        lengths
    };
    assert!(receive(&mut rings, 64).is_empty());
    // Three quarters of the pool, half of it each.
    let filled =
        kernel.each_mut().map(|(filled, _)| std::iter::from_fn(|| filled.take()).collect::<Vec<u64>>());
    assert_eq!(filled.each_ref().map(Vec::len), [96, 96]);
    assert!(filled[0].iter().all(|address| !filled[1].contains(address)), "a buffer is in two rings");
    for (((_, arrived), filled), len) in kernel.iter_mut().zip(&filled).zip([100, 200]) {
        let behind = u64::from(window.shape.headroom_bytes + 256);
        for address in &filled[..20] {
            assert!(arrived.put(Descriptor { addr: address | behind << 48, len, options: 0 }));
        }
        arrived.publish();
    }
    // 20 frames in each, eight at a time: the other queue comes first in each call.
    let firsts: Vec<Vec<u32>> = (0..5).map(|_| receive(&mut rings, 8)).collect();
    for (call, lengths) in firsts.iter().enumerate() {
        assert_eq!(lengths.len(), 8, "call {call}");
        assert_eq!(lengths[0], if call % 2 == 0 { 200 } else { 100 }, "call {call}");
    }
    assert_eq!(firsts.concat().iter().filter(|len| **len == 100).count(), 20);
    assert!(receive(&mut rings, 8).is_empty());
    rings.close().into_iter().for_each(|frame| cache.give_one(frame).unwrap());
    drop((cache, to));
    assert_eq!(pool.audit().out(), 0);
}

/// Three receivers of one pool, and nothing arrives: each posts what it may at its first call.
#[test]
fn receivers_that_share_a_pool_then_senders_find_a_part_of_it() {
    let pool = PagePool::builder().frames(256).frame_bytes(2048).huge_pages(false).build().unwrap();
    let (region, mut cache) = (pool.region().clone(), pool.cache("test").unwrap());
    let window = memory::to_receive(&region);
    let posted = |cache: &mut _| {
        let fill = Producer::new(Shared::own(128, 0).unwrap());
        let receive = Consumer::new(Shared::own(64, 0).unwrap());
        let mut rings = Rings::new(fill, receive, region.clone(), window, None, false);
        rings.receive(cache, &mut Batch::new(1), 1, || "xdp:x".into()).unwrap();
        rings
    };
    let receivers = [(); 3].map(|()| posted(&mut cache));
    assert_eq!(receivers.each_ref().map(|rings| rings.held().0), [128, 64, 16]);
    receivers.into_iter().flat_map(Rings::close).for_each(|frame| cache.give_one(frame).unwrap());
    let again = posted(&mut cache);
    assert_eq!(again.held().0, 128, "the claims are given back");
    again.close().into_iter().for_each(|frame| cache.give_one(frame).unwrap());
}
