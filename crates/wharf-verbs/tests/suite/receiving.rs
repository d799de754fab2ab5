//! Datagrams become frames, and senders become known.

use crate::rig::{ELSEWHERE, PEER, PEER_QUEUE_PAIR, RING_FRAMES, Rig, address, route_from};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
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

/// Sends a frame to `destination`. Returns the queue pair that it goes to.
fn sends_to(rig: &mut Rig, destination: [u8; 6]) -> u32 {
    rig.offer(destination, 60, 0);
    // The kernel is asked for the address of a new peer.
    while rig.device.transmit(&mut rig.batch, false).stopped {
        std::thread::yield_now();
    }
    let queue_pair = rig.fake.posted().last().unwrap().queue_pair;
    rig.fake.complete(1);
    rig.reap().2.unwrap();
    queue_pair
}

#[test]
fn sender_becomes_known_by_its_address_and_its_newest_queue_pair() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    let known = [2, 0, 10, 9, 0, 7];
    assert_eq!(sends_to(&mut rig, known), PEER_QUEUE_PAIR);
    for queue_pair in [0x55, 0x56] {
        assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &datagram(50, 0), queue_pair));
        assert_eq!(rig.receive().0.len(), 1);
        assert_eq!(sends_to(&mut rig, known), queue_pair);
    }
    assert_eq!(sends_to(&mut rig, ELSEWHERE), PEER_QUEUE_PAIR);
    // The peer of the specification keeps the queue pair that this has.
    assert!(rig.fake.receive(&route_from(address(PEER)), &datagram(50, 0), 0x57));
    assert_eq!(rig.receive().0.len(), 1);
    assert_eq!(sends_to(&mut rig, ELSEWHERE), PEER_QUEUE_PAIR);
    rig.close();
}

/// Anyone may ask in a peer's name. Who is there at its address answers, also when it was started again.
#[test]
fn question_moves_a_known_peer_only_once_its_address_has_answered() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    let [a, b, c, d] = address(203);
    let known = [2, 0, a, b, c, d];
    let socket = |port: u16| {
        let socket = UdpSocket::bind((Ipv4Addr::new(a, b, c, d), port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let (peer, stranger) = (socket(24791), socket(0));
    let own = (Ipv4Addr::from(rig.own), 24791);
    let say = |rig: &mut Rig, by: &UdpSocket, kind: u8, queue_pair: u8, nonce: &[u8]| {
        let message = [b"wharf-qp".as_slice(), &[kind, 0, 0, 0, 0, 0, 0, queue_pair], nonce].concat();
        by.send_to(&message, own).unwrap();
        rig.device.arm();
    };
    let mut asked = [0; 24];
    for queue_pair in [0x61, 0x62] {
        // The first one makes it known.
        say(&mut rig, &peer, 1, queue_pair, &[7; 8]);
        peer.recv(&mut asked).unwrap();
        assert_eq!((asked[8], &asked[16..]), (2, [7; 8].as_slice()), "an answer");
        assert_eq!(sends_to(&mut rig, known), 0x61);
    }
    peer.recv(&mut asked).unwrap();
    assert_eq!(asked[8], 1, "it is asked");
    say(&mut rig, &stranger, 2, 0x66, &asked[16..]);
    say(&mut rig, &peer, 2, 0x66, &[7; 8]);
    assert_eq!(sends_to(&mut rig, known), 0x61);
    say(&mut rig, &peer, 2, 0x62, &asked[16..]);
    assert_eq!(sends_to(&mut rig, known), 0x62);
    // Strangers who ask have it asked ten times a second at most.
    (0..20).for_each(|_| say(&mut rig, &stranger, 1, 0x66, &[7; 8]));
    peer.set_nonblocking(true).unwrap();
    assert!(std::iter::from_fn(|| peer.recv(&mut asked).ok()).count() < 20);
    assert_eq!(sends_to(&mut rig, known), 0x62);
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
