//! Datagrams of plain sockets arrive as frames.

use super::rig::{Rig, frame, parsed, socket};
use std::net::SocketAddr;
use wharf_devices::open::Direction;
use wharf_testkit::content::{content, len_of};
use wharf_testkit::{free_udp, pool_of};

fn payload(number: u32, len: usize) -> Vec<u8> {
    content(2, number, len).collect()
}

fn drops(rig: &mut Rig) -> Vec<(&'static str, u64)> {
    let mut drops = Vec::new();
    rig.device.rx_mut().unwrap().drops(&mut |reason, count| drops.push((reason, count)));
    drops
}

#[test]
fn frames_are_whole_and_right_from_any_sender() {
    for (host, peer) in [
        ("127.0.0.1", "127.0.0.5:0"),
        ("[::1]", "[::1]:0"),
        ("0.0.0.0", "127.0.0.5:0"),
        ("[::]", "127.0.0.5:0"),
    ] {
        let local = free_udp(host);
        let mut rig = Rig::open(&format!("udp:{local}"), Direction::Receive);
        let (peer, peer_at) = socket(peer);
        let to = match local.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 3], local.port())),
            false => local,
        };
        for number in 0..200 {
            peer.send_to(&payload(number, len_of(number) - 60), to).unwrap();
        }
        let received = rig.receive(200, 7);
        for (number, frame) in received.iter().enumerate() {
            let wanted = (peer_at, to, payload(number as u32, len_of(number as u32) - 60));
            assert!(parsed(frame) == wanted, "{host}: datagram {number}");
        }
        assert_eq!(received.len(), 200);
        rig.assert_all_home();
    }
}

#[test]
fn joined_datagrams_are_taken_apart_again() {
    let local = free_udp("127.0.0.1");
    let mut rig = Rig::open(&format!("udp:{local},gro=on"), Direction::Receive);
    let mut sender = Rig::open(&format!("udp:{local}"), Direction::Send);
    let lens = |number: u32| if number % 40 == 39 { 5 } else { 333 };
    for number in 0..240 {
        sender.offer(&frame(local, local, &payload(number, lens(number))));
    }
    assert_eq!(sender.send(), 240);
    let mut received = rig.receive(10, 1);
    received.extend(rig.receive(90, 9));
    received.extend(rig.receive(140, 64));
    for (number, frame) in (0..).zip(&received) {
        let (_, to, bytes) = parsed(frame);
        assert!(to == local && bytes == payload(number, lens(number)), "datagram {number}");
    }
    assert_eq!(received.len(), 240);
    rig.assert_all_home();
}

#[test]
fn nothing_is_lost_while_the_pool_is_empty() {
    let local = free_udp("127.0.0.1");
    let mut rig = Rig::with(&format!("udp:{local},gro=on"), Direction::Receive, pool_of(8, 1472));
    let mut sender = Rig::open(&format!("udp:{local}"), Direction::Send);
    (0..60).for_each(|number| sender.offer(&frame(local, local, &payload(number, 200))));
    sender.send();
    let mut all = Vec::new();
    while all.len() < 60 {
        // Received datagrams lie in eight frames, which come back between two calls.
        let some = rig.receive(1, 64);
        assert!(!some.is_empty() && some.len() <= 8);
        all.extend(some);
    }
    let right = |(number, frame): (usize, &Vec<u8>)| parsed(frame).2 == payload(number as u32, 200);
    assert!(all.iter().enumerate().all(right));
    rig.assert_all_home();
}

#[test]
fn long_and_empty_datagrams_arrive() {
    let local = free_udp("127.0.0.1");
    let mut rig = Rig::with(&format!("udp:{local}"), Direction::Receive, pool_of(400, 256));
    let (peer, _) = socket("127.0.0.1:0");
    let lens = [0, 65_507, 1, 214, 215, 9000, 0];
    for (number, len) in lens.into_iter().enumerate() {
        peer.send_to(&payload(number as u32, len), local).unwrap();
    }
    for (number, (len, frame)) in lens.into_iter().zip(rig.receive(lens.len(), 3)).enumerate() {
        assert!(parsed(&frame).2 == payload(number as u32, len), "of {len} bytes");
    }
    // Not even all frames of this pool would hold it.
    let local = free_udp("127.0.0.1");
    let mut rig = Rig::with(&format!("udp:{local}"), Direction::Receive, pool_of(8, 256));
    peer.send_to(&[1; 9000], local).unwrap();
    peer.send_to(&[2; 9], local).unwrap();
    assert_eq!(parsed(&rig.receive(1, 3)[0]).2, [2; 9]);
    assert_eq!(drops(&mut rig), [("socket-full", 0), ("too-long", 1)]);
    rig.assert_all_home();
}

#[test]
fn datagrams_beyond_the_socket_buffer_are_counted() {
    let local = free_udp("127.0.0.1");
    let mut rig = Rig::open(&format!("udp:{local},buffer=64k"), Direction::Receive);
    let mut sender = Rig::open(&format!("udp:{local}"), Direction::Send);
    for round in 0..50 {
        (0..64).for_each(|number| sender.offer(&frame(local, local, &payload(round * 64 + number, 500))));
        sender.send();
    }
    let mut received = 0;
    loop {
        let before = drops(&mut rig)[0].1 + received;
        if before == 3200 {
            break;
        }
        received += rig.receive(1, 64).len() as u64;
    }
    let dropped = drops(&mut rig);
    assert!(dropped[0].0 == "socket-full" && dropped[0].1 > 1000, "{dropped:?}");
    rig.device.close().unwrap();
    assert_eq!(drops(&mut rig), dropped, "known after the end, too");
}

#[test]
fn an_answer_goes_back_from_where_it_was_asked() {
    let local = free_udp("0.0.0.0");
    let mut rig = Rig::open(&format!("udp:{local},dest=frame"), Direction::Receive);
    let (peer, peer_at) = socket("127.0.0.5:0");
    for ip in ["127.0.0.1", "127.0.0.44"] {
        let to: SocketAddr = format!("{ip}:{}", local.port()).parse().unwrap();
        peer.send_to(b"question", to).unwrap();
        let (from, asked, _) = parsed(&rig.receive(1, 64)[0]);
        assert_eq!((from, asked), (peer_at, to));
        rig.offer(&frame(asked, from, b"answer"));
        assert_eq!(rig.send(), 1);
        let mut bytes = [0; 64];
        assert_eq!(peer.recv_from(&mut bytes).unwrap(), (6, to));
    }
    rig.assert_all_home();
}

#[test]
fn connected_device_hears_only_its_peer() {
    let (peer, peer_at) = socket("127.0.0.1:0");
    let mut rig = Rig::open(&format!("udp:{peer_at}"), Direction::Send);
    rig.offer(&frame(peer_at, peer_at, b"hello"));
    rig.send();
    let mut bytes = [0; 64];
    let (_, device_at) = peer.recv_from(&mut bytes).unwrap();
    socket("127.0.0.1:0").0.send_to(b"stranger", device_at).unwrap();
    peer.send_to(b"reply", device_at).unwrap();
    let (from, to, bytes) = parsed(&rig.receive(1, 64)[0]);
    assert_eq!((from, to, &bytes[..]), (peer_at, device_at, &b"reply"[..]));
    rig.assert_all_home();
}
