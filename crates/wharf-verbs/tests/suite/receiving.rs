//! Datagrams become frames, and senders become known.

use crate::rig::{ELSEWHERE, PEER_QUEUE_PAIR, RING_FRAMES, Rig, route_from};
use wharf_core::device::{Device, DeviceError, Notify, RxDevice, TxDevice};

#[test]
fn removed_device_reports_that_before_its_end() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    rig.fake.remove();
    assert!(!rig.device.arm() && !rig.device.ended());
    assert!(matches!(rig.receive().1, Err(DeviceError::Gone { .. })));
    assert!(rig.device.ended());
    rig.close();
}

/// A datagram with `len` bytes of payload.
fn datagram(len: usize, mark: u8) -> Vec<u8> {
    [&[0x86, 0xdd, 0, 0][..], &vec![mark; len]].concat()
}

#[test]
fn datagram_becomes_a_frame_between_the_addresses_of_the_ports() {
    let mut rig = Rig::new();
    assert_eq!(rig.receive().0.len(), 0);
    assert_eq!(rig.fake.waiting().len(), RING_FRAMES as usize);
    for mark in 0..3 {
        assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &datagram(50 + usize::from(mark), mark), 0x55));
    }
    let (frames, result) = rig.receive();
    result.unwrap();
    for (mark, frame) in frames.iter().enumerate() {
        assert_eq!(&frame[..3], [2, 0, 127]);
        assert_eq!(&frame[6..14], [2, 0, 10, 9, 0, 7, 0x86, 0xdd]);
        assert_eq!(frame[14..], vec![mark as u8; 50 + mark]);
    }
    assert_eq!(frames.len(), 3);
    rig.close();
}

#[test]
fn sender_becomes_known_by_its_address_and_its_newest_queue_pair() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    let sends_to = |rig: &mut Rig, destination| {
        rig.offer(destination, 60, 0);
        // The kernel is asked for the address of a new peer.
        while rig.device.transmit(&mut rig.batch, false).stopped {
            std::thread::yield_now();
        }
        let queue_pair = rig.fake.posted().last().unwrap().queue_pair;
        rig.fake.complete(1);
        rig.reap().2.unwrap();
        queue_pair
    };
    let known = [2, 0, 10, 9, 0, 7];
    assert_eq!(sends_to(&mut rig, known), PEER_QUEUE_PAIR);
    for queue_pair in [0x55, 0x56] {
        assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &datagram(50, 0), queue_pair));
        assert_eq!(rig.receive().0.len(), 1);
        assert_eq!(sends_to(&mut rig, known), queue_pair);
    }
    assert_eq!(sends_to(&mut rig, ELSEWHERE), PEER_QUEUE_PAIR);
    // The peer of the specification keeps the queue pair that this has.
    assert!(rig.fake.receive(&route_from([127, 83, 0, 1]), &datagram(50, 0), 0x57));
    assert_eq!(rig.receive().0.len(), 1);
    assert_eq!(sends_to(&mut rig, ELSEWHERE), PEER_QUEUE_PAIR);
    rig.close();
}

#[test]
fn memory_is_posted_anew_and_numbers_wrap() {
    let mut rig = Rig::with(|_| {}, u32::MAX - 40);
    let mut received = 0;
    for round in 0..20u8 {
        let (frames, result) = rig.receive();
        result.unwrap();
        received += frames.len();
        for _ in 0..7 {
            assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &datagram(46, round), 0x55));
        }
    }
    assert_eq!((received, rig.receive().0.len()), (7 * 19, 7));
    rig.close();
}

#[test]
fn datagram_that_came_before_arming_is_found() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    assert!(rig.device.arm());
    assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &datagram(46, 1), 0x55));
    assert!(!rig.device.arm() && !rig.device.arm());
    assert_eq!(rig.receive().0.len(), 1);
    assert!(rig.device.arm());
    let mut held = 0;
    rig.device.visit(&mut |_| held += 1);
    // Memory is posted again once a quarter is missing.
    assert_eq!(held, RING_FRAMES as usize - 1);
    rig.close();
}
