//! Frames become linked requests, and come back by completions.

use crate::rig::{ELSEWHERE, PEER_QUEUE_PAIR, RING_FRAMES, Rig, address, gid, route_from};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
use wharf_core::device::{Device, DeviceError, Notify, Transmitted, TxDevice};
use wharf_mem::Meta;
use wharf_sys::epoll::Epoll;
use wharf_testkit::threads::eventually;
use wharf_verbs::fake::{FakeDevice, library};
use wharf_verbs::{PeerAddress, Verbs, VerbsOptions};

#[test]
fn frames_that_leave_together_are_one_post_and_one_completion() {
    let mut rig = Rig::new();
    rig.offer_many(10);
    let done = rig.device.transmit(&mut rig.batch, false);
    assert_eq!(done, Transmitted { doorbell: true, stopped: false });
    let posted = rig.fake.posted();
    assert_eq!(posted.iter().map(|sent| sent.call).collect::<Vec<_>>(), [1; 10]);
    assert_eq!(
        posted.iter().map(|sent| sent.is_signaled).collect::<Vec<_>>(),
        [&[false; 9][..], &[true]].concat()
    );
    for (mark, sent) in posted.iter().enumerate() {
        // EtherType, reserved, and the payload of 46 bytes. Up to 64 bytes go inline.
        assert_eq!(sent.bytes, [&[0x08, 0x00, 0, 0][..], &[mark as u8; 46]].concat());
        assert_eq!((sent.queue_pair, sent.is_inline), (PEER_QUEUE_PAIR, true));
    }
    assert_eq!(rig.reap().0, []);
    rig.fake.complete(9);
    assert_eq!(rig.reap().0, []);
    rig.fake.complete(1);
    assert_eq!(rig.reap().0, (0..10).collect::<Vec<u8>>());
    rig.close();
}

#[test]
fn frames_that_have_completed_before_the_end_count_as_sent() {
    let mut rig = Rig::with(|options| options.batches = false, 0);
    rig.offer_many(3);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.complete(2);
    rig.device.close().unwrap();
    let (sent, failed, result) = rig.reap();
    result.unwrap();
    assert_eq!((sent, failed), (vec![0, 1], vec!["lost"]));
    rig.close();
}

#[test]
fn without_batching_each_frame_is_a_post_and_a_completion() {
    let mut rig = Rig::with(|options| options.batches = false, 0);
    rig.offer_many(3);
    assert!(rig.device.transmit(&mut rig.batch, false).doorbell);
    assert_eq!(rig.device.signals().unwrap().kicks, 3);
    let calls: Vec<_> = rig.fake.posted().iter().map(|sent| (sent.call, sent.is_signaled)).collect();
    assert_eq!(
        (calls, rig.device.mode()),
        (vec![(1, true), (2, true), (3, true)], Some("one by one, inline"))
    );
    rig.fake.complete(3);
    assert_eq!(rig.reap().0, [0, 1, 2]);
    rig.close();
}

#[test]
fn doorbell_waits_while_more_follow() {
    let mut rig = Rig::new();
    rig.offer_many(2);
    assert!(!rig.device.transmit(&mut rig.batch, true).doorbell);
    assert_eq!((rig.fake.posted().len(), rig.device.outstanding()), (0, 2));
    rig.offer_many(1);
    assert!(!rig.device.transmit(&mut rig.batch, true).doorbell);
    assert!(rig.device.flush() && !rig.device.flush());
    assert_eq!(
        rig.fake.posted().iter().map(|sent| (sent.call, sent.is_signaled)).collect::<Vec<_>>(),
        [(1, false), (1, false), (1, true)]
    );
    rig.close();
}

#[test]
fn full_ring_stops_and_rings_though_more_follow_and_numbers_wrap() {
    let mut rig = Rig::with(|_| {}, u32::MAX - 7);
    rig.offer_many(20);
    let done = rig.device.transmit(&mut rig.batch, true);
    assert_eq!((done, rig.batch.len()), (Transmitted { doorbell: true, stopped: true }, 4));
    for _ in 0..10 {
        rig.fake.complete(RING_FRAMES as usize);
        let sent = rig.reap().0.len();
        rig.offer_many(sent);
        rig.device.transmit(&mut rig.batch, false);
        assert_eq!(rig.device.outstanding(), RING_FRAMES as usize);
    }
    rig.close();
}

#[test]
fn long_frames_go_without_inline_data_and_frames_out_of_bounds_fail() {
    let mut rig = Rig::new();
    for len in [13, 14, 74, 75, 1034, 1035] {
        rig.offer(ELSEWHERE, len, 1);
    }
    rig.device.transmit(&mut rig.batch, false);
    assert_eq!(
        rig.fake.posted().iter().map(|sent| sent.is_inline).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    assert_eq!(rig.reap().1, ["too-short", "too-long"]);
    rig.close();
}

#[test]
fn frame_without_a_peer_fails_and_one_for_a_silent_peer_waits_for_three_seconds() {
    let mut rig = Rig::with(|options| options.peer = None, 0);
    rig.offer_many(1);
    rig.device.transmit(&mut rig.batch, false);
    assert_eq!(rig.reap().1, ["unresolved"]);
    rig.close();
    let silent = PeerAddress { gid: gid(address(201)), queue_pair: None };
    let mut rig = Rig::with(|options| options.peer = Some(silent), 0);
    rig.offer_many(2);
    let begin = Instant::now();
    assert!(rig.device.transmit(&mut rig.batch, false).stopped);
    rig.device.pass(Duration::from_secs(2));
    let waits =
        rig.device.transmit(&mut rig.batch, false).stopped && rig.device.next_completion_ns().is_some();
    assert!(waits || begin.elapsed() > Duration::from_secs(1));
    rig.device.pass(Duration::from_secs(1));
    assert!(!rig.device.transmit(&mut rig.batch, false).stopped && rig.batch.is_empty());
    assert_eq!(rig.reap().1, ["unresolved"; 2]);
    // The next ones fail at once.
    rig.offer_many(3);
    assert!(!rig.device.transmit(&mut rig.batch, false).stopped && rig.batch.is_empty());
    assert_eq!(rig.reap().1, ["unresolved"; 3]);
    rig.close();
}

#[test]
fn peer_is_asked_for_its_queue_pair() {
    let peer = std::net::UdpSocket::bind((std::net::Ipv4Addr::from(address(202)), 24791)).unwrap();
    let asked = PeerAddress { gid: gid(address(202)), queue_pair: None };
    let mut rig = Rig::with(|options| options.peer = Some(asked), 0);
    rig.offer_many(1);
    assert!(rig.device.transmit(&mut rig.batch, false).stopped);
    let mut question = [0; 32];
    let (len, from) = peer.recv_from(&mut question).unwrap();
    assert_eq!((len, &question[..9]), (24, b"wharf-qp\x01".as_slice()));
    let answer = |nonce: &[u8]| [b"wharf-qp\x02\0\0\0\0\0\x12\x34".as_slice(), nonce].concat();
    peer.send_to(&answer(&[0; 8]), from).unwrap();
    assert!(rig.device.transmit(&mut rig.batch, false).stopped, "an answer to another question");
    peer.send_to(&answer(&question[16..24]), from).unwrap();
    eventually(Duration::from_secs(20), || {
        rig.device.transmit(&mut rig.batch, false);
        rig.batch.is_empty()
    });
    assert_eq!(rig.fake.posted()[0].queue_pair, 0x1234);
    rig.close();
}

#[test]
fn notification_comes_for_what_completes_after_arming_and_what_came_before_is_found() {
    let mut rig = Rig::new();
    let fd = rig.device.wait_fd().unwrap();
    // The kernel may still wake the device for the question that it has answered.
    eventually(Duration::from_secs(10), || rig.device.arm() && !is_readable(fd));
    rig.offer_many(2);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.complete(2);
    assert!(is_readable(fd));
    assert!(!rig.device.arm(), "completions are there");
    assert_eq!(rig.reap().0, [0, 1]);
    assert!(rig.device.arm() && !is_readable(fd));
    rig.fake.set_port(false);
    assert!(is_readable(fd));
    rig.close();
}

#[test]
fn receiver_sleeps_while_its_port_is_down() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    rig.fake.set_port(false);
    rig.device.arm();
    assert!(rig.device.arm() && rig.device.arm());
    assert!(!is_readable(rig.device.wait_fd().unwrap()));
    rig.close();
}

#[test]
fn questions_that_were_not_read_keep_the_device_awake() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    let asking = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        asking.send_to(b"no question", (std::net::Ipv4Addr::from(rig.own), 24791)).unwrap();
    }
    assert!(!rig.device.arm());
    assert!(rig.device.arm());
    rig.close();
}

#[test]
fn silent_neighbour_is_looked_for_once_and_frames_wait_for_that_and_fail_after_it() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &[0x08, 0, 0, 0], 5));
    let silent: [u8; 6] = rig.receive().0[0][6..12].try_into().unwrap();
    rig.fake.lack_neighbours(true);
    rig.offer(silent, 60, 1);
    let begin = Instant::now();
    while rig.device.transmit(&mut rig.batch, false).stopped {
        assert!(rig.device.next_completion_ns().is_some() && begin.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    assert_eq!((rig.reap().1, rig.fake.handles()), (vec!["unresolved"], 2));
    for _ in 0..10 {
        rig.offer(silent, 60, 1);
        rig.offer(ELSEWHERE, 60, 2);
        assert!(!rig.device.transmit(&mut rig.batch, false).stopped);
        rig.fake.complete(1);
        assert_eq!((rig.reap().0, rig.fake.handles()), (vec![2], 2));
    }
    rig.close();
}

#[test]
fn device_is_closed_while_the_kernel_looks_for_a_neighbour() {
    let peer = PeerAddress { gid: gid(address(204)), queue_pair: Some(PEER_QUEUE_PAIR) };
    let fake = FakeDevice::new(gid(address(205)));
    let options = VerbsOptions { peer: Some(peer), ..VerbsOptions::default() };
    let neighbours = fake.neighbours();
    let held = neighbours.lock().unwrap();
    let mut device = Verbs::open_by(library(), &fake.name(), options, 0).unwrap();
    device.attach(wharf_testkit::pool(16).region().clone()).unwrap();
    let begin = Instant::now();
    device.close().unwrap();
    drop(device);
    assert!(begin.elapsed() < Duration::from_secs(10));
    drop(held);
}

#[test]
fn unfinished_checksum_is_filled_in_and_a_super_packet_fails() {
    let mut rig = Rig::new();
    let meta = Meta { needs_checksum: true, checksum_start: 34, checksum_offset: 6, ..Meta::default() };
    for meta in [meta, Meta { checksum_start: 400, ..meta }, Meta { gso_bytes: 100, ..Meta::default() }] {
        rig.offer(ELSEWHERE, 60, 1);
        let mut frame = rig.batch.pop().unwrap();
        rig.pool.region().set_meta(&mut frame, &meta).unwrap();
        rig.batch.push(frame).unwrap();
        rig.device.transmit(&mut rig.batch, false);
    }
    let posted = rig.fake.posted();
    assert_eq!(posted.len(), 1);
    // The checksum is at byte 40 of the frame, and the datagram begins at byte 10.
    assert_ne!(posted[0].bytes[30..32], [1, 1]);
    assert_eq!(rig.reap().1, ["unfinished-checksum", "super-packet"]);
    rig.close();
}

#[test]
fn port_of_infiniband_and_memory_shorter_than_its_datagrams_are_refused() {
    let fake = FakeDevice::new(gid(address(206)));
    fake.be_infiniband();
    let error = Verbs::open_by(library(), &fake.name(), VerbsOptions::default(), 0).unwrap_err();
    assert!(error.to_string().contains("InfiniBand"), "{error}");
    let fake = FakeDevice::new(gid(address(207)));
    fake.set_mtu(5);
    let mut device = Verbs::open_by(library(), &fake.name(), VerbsOptions::default(), 0).unwrap();
    let error = device.attach(wharf_testkit::pool(16).region().clone()).unwrap_err();
    assert!(error.to_string().contains("--frame-bytes"), "{error}");
    device.close().unwrap();
}

/// True if the descriptor is readable now.
fn is_readable(fd: RawFd) -> bool {
    let (set, mut events) = (Epoll::new().unwrap(), 0);
    set.add(fd, 0, true).unwrap();
    set.take_events(|_| events += 1);
    events > 0
}

#[test]
fn port_that_is_down_fails_frames_until_it_is_up() {
    let mut rig = Rig::new();
    rig.fake.set_port(false);
    assert!(matches!(rig.device.link(), Some(Err(DeviceError::Down { .. }))));
    rig.offer_many(2);
    rig.device.transmit(&mut rig.batch, false);
    let (sent, failed, result) = rig.reap();
    assert_eq!((sent, failed), (vec![], vec!["link-down"; 2]));
    assert!(matches!(result, Err(DeviceError::Down { .. })));
    rig.fake.set_port(true);
    assert!(matches!(rig.device.link(), Some(Ok(()))));
    rig.offer_many(1);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.complete(1);
    assert_eq!(rig.reap().0, [0]);
    rig.close();
}

#[test]
fn removed_device_is_gone_and_its_frames_fail() {
    let mut rig = Rig::new();
    rig.offer_many(3);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.remove();
    rig.offer_many(2);
    rig.device.arm();
    rig.device.transmit(&mut rig.batch, false);
    let (_, failed, result) = rig.reap();
    assert_eq!(failed, ["gone"; 2]);
    assert!(matches!(result, Err(DeviceError::Gone { .. })), "{result:?}");
    rig.close();
}

#[test]
fn device_that_completes_nothing_is_given_up() {
    let mut rig = Rig::new();
    rig.offer_many(3);
    rig.device.transmit(&mut rig.batch, false);
    rig.device.arm();
    rig.reap().2.unwrap();
    rig.device.pass(Duration::from_secs(5));
    rig.device.arm();
    let error = rig.reap().2.unwrap_err();
    assert!(
        matches!(error, DeviceError::Gone { .. }) && error.to_string().contains("completed nothing"),
        "{error}"
    );
    rig.close();
}
