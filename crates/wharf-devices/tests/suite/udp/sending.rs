//! Payloads of frames arrive at a plain socket.

use super::rig::{PATIENCE, Rig, frame, socket};
use std::net::{SocketAddr, UdpSocket};
use wharf_devices::open::Direction;
use wharf_testkit::content::{content, len_of};
use wharf_testkit::free_udp;
use wharf_testkit::threads::eventually;

fn next(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = vec![0; 1 << 16];
    let (len, from) = socket.recv_from(&mut bytes).unwrap();
    bytes.truncate(len);
    (bytes, from)
}

fn payload(number: u32, len: usize) -> Vec<u8> {
    content(1, number, len).collect()
}

/// Sends datagrams of these lengths, `batch` at a time, and compares each.
fn all_arrive(host: &str, options: &str, batch: u32, lens: impl Fn(u32) -> usize) {
    let (peer, address) = socket(&format!("{host}:0"));
    let mut rig = Rig::open(&format!("udp:{address}{options}"), Direction::Send);
    let elsewhere = if address.is_ipv4() { "192.0.2.1:7" } else { "[2001:db8::1]:7" }.parse().unwrap();
    for round in 0..20 {
        let numbers = round * batch..(round + 1) * batch;
        for number in numbers.clone() {
            rig.offer(&frame(elsewhere, elsewhere, &payload(number, lens(number))));
        }
        assert_eq!(rig.send(), batch as usize);
        for number in numbers {
            assert!(next(&peer).0 == payload(number, lens(number)), "datagram {number}");
        }
    }
    assert!(rig.failed.is_empty() && rig.errors.is_empty(), "{:?} {:?}", rig.failed, rig.errors);
    rig.assert_all_home();
}

#[test]
fn every_byte_arrives_in_order() {
    for host in ["127.0.0.1", "[::1]"] {
        all_arrive(host, "", 50, |_| 1200);
        all_arrive(host, "", 50, len_of);
        all_arrive(host, "", 50, |number| [0, 1, 0, 900, 900, 899][number as usize % 6]);
        all_arrive(host, ",gso=off", 50, |_| 100);
    }
}

#[test]
fn long_datagrams_lie_in_chains() {
    // No more at once than the peer's buffer has room for.
    all_arrive("127.0.0.1", "", 2, |number| [65_507, 4, 9000, 9000, 9000, 8999][number as usize % 6]);
}

#[test]
fn others_fail_with_their_reason() {
    let (peer, address) = socket("127.0.0.1:0");
    let mut rig = Rig::open(&format!("udp:{address}"), Direction::Send);
    let good = frame(address, address, b"good");
    let mut tcp = good.clone();
    tcp[23] = 6;
    let mut lies = good.clone();
    lies[39] = 200;
    for bytes in [&good[..], &tcp, &lies, &good[..30], &[0; 60], &good] {
        rig.offer(bytes);
    }
    assert_eq!(rig.send(), 2);
    rig.failed.sort_unstable();
    assert_eq!(rig.failed, ["malformed", "not-udp", "not-udp", "not-udp"]);
    assert_eq!((next(&peer).0, next(&peer).0), (b"good".to_vec(), b"good".to_vec()));
    // One byte more than IPv4 has room for.
    let (from, to) = ("[::1]:7".parse().unwrap(), "[::1]:9".parse().unwrap());
    rig.failed.clear();
    rig.offer(&frame(from, to, &vec![7; 65_508]));
    assert_eq!((rig.send(), &rig.failed[..]), (0, &["too-long"][..]));
    rig.assert_all_home();
}

#[test]
fn each_goes_where_its_frame_says() {
    let (one, one_at) = socket("127.0.0.1:0");
    let (two, two_at) = socket("127.0.0.2:0");
    let mut rig = Rig::open("udp:0.0.0.0:0,dest=frame", Direction::Send);
    let ours: SocketAddr = "127.0.0.9:1".parse().unwrap();
    for number in 0..60 {
        rig.offer(&frame(ours, if number % 3 == 0 { two_at } else { one_at }, &payload(number, 64)));
    }
    rig.offer(&frame("[::1]:7".parse().unwrap(), "[::1]:9".parse().unwrap(), b"six"));
    rig.offer(&frame(ours, "240.0.0.1:9".parse().unwrap(), b"nowhere"));
    assert_eq!(rig.send(), 60);
    for number in 0..60 {
        let (bytes, from) = next(if number % 3 == 0 { &two } else { &one });
        assert!(bytes == payload(number, 64), "datagram {number}");
        assert_eq!(from.ip(), ours.ip(), "from where the frame says");
    }
    assert!(rig.failed.contains(&"other-family") && rig.failed.len() == 2, "{:?}", rig.failed);
    // A foreign source address is not used: the kernel chooses one.
    rig.offer(&frame("192.0.2.1:1".parse().unwrap(), one_at, b"foreign"));
    rig.send();
    let (bytes, from) = next(&one);
    assert_eq!((&bytes[..], from.ip()), (&b"foreign"[..], "127.0.0.1".parse().unwrap()));
    rig.assert_all_home();
}

#[test]
fn a_socket_of_ipv6_sends_to_ipv4_too() {
    let (four, four_at) = socket("127.0.0.1:0");
    let (six, six_at) = socket("[::1]:0");
    let mut rig = Rig::open("udp:[::]:0,dest=frame", Direction::Send);
    for number in 0..10 {
        rig.offer(&frame("127.0.0.7:1".parse().unwrap(), four_at, &payload(number, 100)));
        rig.offer(&frame("[::1]:1".parse().unwrap(), six_at, &payload(number, 100)));
    }
    assert_eq!((rig.send(), &rig.failed[..]), (20, &[][..]));
    for number in 0..10 {
        let (bytes, from) = next(&four);
        assert_eq!((bytes, from.ip()), (payload(number, 100), "127.0.0.7".parse().unwrap()));
        assert_eq!(next(&six).0, payload(number, 100));
    }
    rig.assert_all_home();
}

#[test]
fn closed_port_is_reported_and_a_later_listener_gets_the_rest() {
    let address = free_udp("127.0.0.1");
    let mut rig = Rig::open(&format!("udp:{address}"), Direction::Send);
    // The kernel answers so many a second, those of other programs too (`icmp_msgs_per_sec`).
    eventually(PATIENCE, || {
        rig.offer(&frame(address, address, &payload(0, 100)));
        rig.send();
        !rig.errors.is_empty()
    });
    assert!(
        rig.errors[0].contains("no program listens") && !rig.errors[0].contains('\n'),
        "{:?}",
        rig.errors
    );
    let peer = UdpSocket::bind(address).unwrap();
    (50..60).for_each(|number| rig.offer(&frame(address, address, &payload(number, 100))));
    assert_eq!((rig.send(), &rig.failed[..]), (10, &[][..]));
    (50..60).for_each(|number| assert_eq!(next(&peer).0, payload(number, 100)));
    rig.assert_all_home();
}

#[test]
fn a_closed_device_sends_nothing() {
    let (_peer, address) = socket("127.0.0.1:0");
    let mut rig = Rig::open(&format!("udp:{address}"), Direction::Send);
    rig.device.close().unwrap();
    rig.offer(&frame(address, address, b"late"));
    assert_eq!((rig.send(), &rig.failed[..]), (0, &["closed"][..]));
    assert!(rig.device.rx_mut().unwrap().ended() && rig.device.wait_fd().is_none());
    rig.assert_all_home();
}
