//! Frames both ways, byte for byte, against a packet socket on the same interface.

use crate::net::{frame, with_net};
use wharf_core::pool::Cache;
use wharf_devices::open::{Direction, open};
use wharf_mem::Batch;
use wharf_testkit::content::len_of;
use wharf_testkit::end::End;
use wharf_testkit::pool_of;

/// A TAP, and the kernel's end of it.
fn ends(spec: &str, frame_bytes: u32) -> (End, End, End) {
    let tap = End::new(spec, Direction::Send, frame_bytes);
    (tap, End::sender("packet:t0"), End::receiver("packet:t0"))
}

#[test]
#[ignore = "wants root"]
fn frames_go_both_ways_byte_for_byte_in_order() {
    with_net(|| {
        for frame_bytes in [1984, 65_472, 128] {
            let (mut tap, mut from_kernel, mut to_kernel) = ends("tap:t0", frame_bytes);
            let frames: Vec<Vec<u8>> = (0..200).map(|number| frame(number, len_of(number))).collect();
            for bytes in &frames {
                tap.offer_chain(bytes);
            }
            assert_eq!(tap.send_all(), (200, vec![]));
            assert!(to_kernel.receive(200) == frames, "frames of {frame_bytes}");

            for bytes in &frames {
                from_kernel.offer(bytes);
            }
            assert_eq!(from_kernel.send_all(), (200, vec![]));
            assert!(tap.receive(200) == frames, "frames of {frame_bytes}");
            [tap, from_kernel, to_kernel].iter_mut().for_each(End::assert_all_home);
        }
    });
}

#[test]
#[ignore = "wants root"]
fn shortest_and_longest_frames_go_and_frames_beyond_fail_alone() {
    with_net(|| {
        let (mut tap, mut from_kernel, mut to_kernel) = ends("tap:t0,mtu=1500", 1984);
        let mut tagged = frame(1, 1518);
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        let sizes = [15, 16, 60, 1514];
        for len in sizes {
            tap.offer(&frame(3, len.max(22))[..len]);
        }
        tap.offer(&tagged);
        for bytes in [&frame(0, 1515)[..], &frame(0, 100)[..14], &frame(0, 1536)] {
            tap.offer(bytes);
        }
        tap.offer(&frame(9, 70));
        let (sent, failed) = tap.send_all();
        assert_eq!((sent, failed), (6, vec!["too-long", "too-short", "too-long"]));
        let received = to_kernel.receive(6);
        assert_eq!(received.iter().map(Vec::len).collect::<Vec<_>>(), [15, 16, 60, 1514, 1518, 70]);
        assert_eq!(received[4], tagged);
        // The kernel's own bound the other way is the MTU, too.
        for len in sizes {
            from_kernel.offer(&frame(3, len.max(22))[..len]);
        }
        assert_eq!(from_kernel.send_all(), (4, vec![]));
        assert_eq!(tap.receive(4).iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        [tap, from_kernel, to_kernel].iter_mut().for_each(End::assert_all_home);
    });
}

#[test]
#[ignore = "wants root"]
fn an_mtu_of_the_longest_is_used_to_the_end() {
    with_net(|| {
        let (mut tap, mut to_kernel) = (
            End::new("tap:t0,mtu=65521", Direction::Send, 65_472),
            End::new("packet:t0", Direction::Receive, 65_472),
        );
        let longest = frame(5, 65_535);
        tap.offer_chain(&longest);
        assert_eq!(tap.send_all(), (1, vec![]));
        assert!(to_kernel.receive(1) == [longest.clone()]);
        let mut from_kernel = End::new("packet:t0", Direction::Send, 65_472);
        from_kernel.offer_chain(&longest);
        from_kernel.offer(&frame(6, 60));
        assert_eq!(from_kernel.send_all(), (2, vec![]));
        assert!(tap.receive(2) == [longest, frame(6, 60)]);
        [tap, to_kernel, from_kernel].iter_mut().for_each(End::assert_all_home);
    });
}

/// Takes all frames of a pool but `left`.
fn leave(cache: &mut Cache, left: usize) -> Batch {
    let mut held = Batch::new(256);
    let all = cache.pool().frames() as usize;
    while held.len() < all - left {
        let missing = all - left - held.len();
        cache.take(&mut held, missing, 1).unwrap();
    }
    held
}

#[test]
#[ignore = "wants root"]
fn without_memory_packets_wait_and_none_is_lost() {
    with_net(|| {
        let mut device = open("tap:t0,mtu=9000", Direction::Receive).unwrap().device;
        let mut from = End::new("packet:t0", Direction::Send, 16_000);
        let long = frame(1, 9000);
        for bytes in [&frame(0, 60), &long, &frame(2, 60), &long] {
            from.offer(bytes);
        }
        assert_eq!(from.send_all(), (4, vec![]));
        let pool = pool_of(16, 1984);
        let (mut cache, mut to) = (pool.cache("test").unwrap(), Batch::new(64));
        let receive = |device: &mut dyn wharf_core::device::RxDevice, cache: &mut Cache, to: &mut Batch| {
            device.receive(cache, to, 64).unwrap()
        };
        // The first needs one frame, the second six of 1536 bytes.
        for (left, count) in [(0, 0), (1, 1), (5, 0), (5, 0), (7, 2), (0, 0), (6, 1), (16, 0)] {
            let mut held = leave(&mut cache, left);
            assert_eq!(receive(device.rx_mut().unwrap(), &mut cache, &mut to), count, "{left} frames left");
            cache.give(&mut held).unwrap();
            cache.give(&mut to).unwrap();
            assert_eq!(pool.audit().out(), 0);
        }
        let mut drops = Vec::new();
        device.rx_mut().unwrap().drops(&mut |reason, count| drops.push((reason, count)));
        assert_eq!(drops, [("ring-full", 0)]);
    });
}

#[test]
#[ignore = "wants root"]
fn frames_beyond_pool_or_ring_are_dropped_by_reason() {
    with_net(|| {
        let mut device = open("tap:t0,mtu=9000,ring=8", Direction::Receive).unwrap().device;
        let mut from = End::new("packet:t0", Direction::Send, 16_000);
        from.offer(&frame(1, 9000));
        from.offer(&frame(2, 60));
        assert_eq!(from.send_all(), (2, vec![]));
        let pool = pool_of(4, 1984);
        let (mut cache, mut to) = (pool.cache("test").unwrap(), Batch::new(64));
        assert_eq!(device.rx_mut().unwrap().receive(&mut cache, &mut to, 64).unwrap(), 1);
        assert_eq!(to.frames()[0].len_bytes(), 60);
        cache.give(&mut to).unwrap();
        for number in 0..20 {
            from.offer(&frame(number, 60));
        }
        let (sent, failed) = from.send_all();
        assert_eq!(sent + failed.len(), 20);
        let mut received = 0;
        while received < 8 {
            received += device.rx_mut().unwrap().receive(&mut cache, &mut to, 2).unwrap() as u64;
            cache.give(&mut to).unwrap();
        }
        let mut drops = Vec::new();
        device.rx_mut().unwrap().drops(&mut |reason, count| drops.push((reason, count)));
        assert_eq!(drops, [("ring-full", 20 - received), ("too-long", 1)]);
    });
}
