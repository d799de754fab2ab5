//! What the kernel drops before it is received, as a device has it do.

use crate::net::{frame, send_raw, with_net, with_pair};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use wharf_core::device::{Passes, THIN_BUCKETS, thin_buckets};
use wharf_devices::open::Direction;
use wharf_testkit::end::End;
use wharf_testkit::threads::within_a_minute;

const PORTS: u16 = 20;

/// Returns a datagram by IPv4 or IPv6, or a TCP segment, whose port is one of [`PORTS`]. The classes differ.
fn packet(protocol: u8, is_ipv6: bool, port: u16) -> Vec<u8> {
    let tos = 0xb8_u8.wrapping_mul(port as u8);
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match is_ipv6 {
        true => {
            bytes.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0, 0, 20, protocol, 64]);
            bytes.extend((0..32).map(|at| 0x20 + 7 * at));
        }
        false => {
            bytes.extend([8, 0, 0x45, tos, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
            bytes.extend([10, 9, 0, 1, 10, 9, 0, 2]);
        }
    }
    bytes.extend([9, 9].into_iter().chain(port.to_be_bytes()));
    // An SCTP checksum of 0 would be filled in.
    bytes.extend([u8::from(protocol == 132); 16]);
    bytes
}

/// Returns the packet behind `tags` VLAN tags.
fn tagged(plain: &[u8], tags: usize) -> Vec<u8> {
    let mut bytes = plain[..12].to_vec();
    (0..tags).for_each(|tag| bytes.extend([[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]][2 - tags + tag]));
    bytes.extend(&plain[12..]);
    bytes
}

/// Returns the second fragment of an IPv4 packet.
fn fragment(plain: &[u8]) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    bytes[21] = 5;
    bytes
}

fn passes_but(thinned: &[u8]) -> Passes {
    let mut passes = [u32::MAX; THIN_BUCKETS];
    for bucket in thin_buckets(thinned) {
        passes[bucket] = 0;
    }
    passes
}

/// Has `end` thin one flow at a time, of all kinds: it arrives no more, and all others do.
fn check(mut end: End, from: &str) {
    end.receive_within(1, Duration::from_millis(1));
    let kinds =
        [(17, false), (6, false), (17, true), (6, true), (132, false), (1, false), (47, true), (58, true)];
    let all = kinds
        .iter()
        .flat_map(|&(protocol, is_ipv6)| (0..PORTS).map(move |port| packet(protocol, is_ipv6, port)));
    let mut all: Vec<_> = all.collect();
    let tagged = all.iter().step_by(9).map(|plain| tagged(plain, 1 + usize::from(plain[37] % 2)));
    let fragments = all.iter().step_by(11).filter(|plain| plain[12] == 8).map(|plain| fragment(plain));
    let more: Vec<_> = tagged.chain(fragments).collect();
    all.extend(more);
    // Others pass whatever their bucket: options, extension headers, authentication, and no IP.
    let mut options = packet(17, false, 0);
    (options[14], options[34]) = (0x46, 1);
    let others = [options, packet(51, false, 0), packet(51, true, 0), packet(44, true, 0), frame(0, 60)];
    for other in &others {
        assert!(end.device.rx_mut().unwrap().thin(Some(&passes_but(other))));
        send_raw(from, [other]);
        assert_eq!(end.receive(1), std::slice::from_ref(other));
    }
    let whole = [&all[..], &others].concat();
    for thinned in all.iter().step_by(7) {
        assert!(end.device.rx_mut().unwrap().thin(Some(&passes_but(thinned))));
        send_raw(from, &whole);
        let left: Vec<_> =
            whole.iter().filter(|bytes| thin_buckets(bytes) != thin_buckets(thinned)).cloned().collect();
        let came = end.receive(left.len());
        let missing = left.iter().position(|bytes| !came.contains(bytes));
        assert!(came == left, "{} of {}, not {:?}", came.len(), left.len(), missing.map(|at| &left[at]));
        assert!(end.receive_within(1, Duration::from_millis(1)).is_empty());
    }
    end.device.rx_mut().unwrap().thin(None);
    send_raw(from, &whole);
    assert_eq!(end.receive(whole.len()), whole);
    let mut thinned = 0;
    end.device
        .rx_mut()
        .unwrap()
        .drops(&mut |reason, count| thinned += if reason == "thinned" { count } else { 0 });
    assert!(thinned >= all.len().div_ceil(7) as u64, "{thinned}");
}

/// Datagrams of programs, whose headers the device makes.
#[test]
#[ignore = "wants root"]
fn datagrams_of_one_flow_are_dropped_and_all_others_arrive() {
    within_a_minute(|| {
        for host in ["127.0.0.1", "::1"] {
            let mut end = End::receiver(&format!("udp:{}", SocketAddr::new(host.parse().unwrap(), 0)));
            let place: SocketAddr = end.device.name()["udp:".len()..].parse().unwrap();
            let from = (0..PORTS).map(|_| UdpSocket::bind((host, 0)).unwrap());
            let from: Vec<UdpSocket> = from.collect();
            let send = || {
                from.iter().for_each(|socket| assert_eq!(socket.send_to(b"datagram", place).unwrap(), 8));
            };
            send();
            // The identification of IPv4 differs from datagram to datagram.
            let flows =
                |frames: Vec<Vec<u8>>| frames.iter().map(|bytes| thin_buckets(bytes)).collect::<Vec<_>>();
            let all = end.receive(from.len());
            let device = |end: &mut End, passes: Option<&Passes>| end.device.rx_mut().unwrap().thin(passes);
            assert!(device(&mut end, Some(&passes_but(&all[7]))));
            send();
            let left = flows(all.clone()).into_iter().filter(|of| *of != thin_buckets(&all[7]));
            let left: Vec<_> = left.collect();
            assert_eq!(flows(end.receive(left.len())), left);
            assert!(end.receive_within(1, Duration::from_millis(1)).is_empty());
            let mut drops = Vec::new();
            end.device.rx_mut().unwrap().drops(&mut |reason, count| drops.push((reason, count)));
            assert_eq!(drops, [("socket-full", 0), ("thinned", (from.len() - left.len()) as u64)]);
            device(&mut end, None);
            send();
            assert_eq!(flows(end.receive(all.len())), flows(all));
        }
    });
}

#[test]
#[ignore = "wants root"]
fn packets_of_one_flow_are_dropped_and_all_others_arrive() {
    with_pair(|| {
        check(End::receiver("packet:vb"), "va");
        check(End::receiver("xdp:vb"), "va");
    });
    with_net(|| check(End::new("tap:t0", Direction::Send, 1984), "t0"));
}
