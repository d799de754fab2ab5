//! What the kernel drops before it is received, as a device has it do.

use crate::net::{frame, send_raw, with_net, with_pair};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use wharf_core::device::{Passes, THIN_BUCKETS, thin_bucket};
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
    bytes.extend([0; 16]);
    bytes
}

fn passes_but(thinned: &[u8]) -> Passes {
    let mut passes = [u32::MAX; THIN_BUCKETS];
    passes[thin_bucket(thinned)] = 0;
    passes
}

/// Has `end` thin one flow at a time, of all kinds: it arrives no more, and all others do.
fn check(mut end: End, from: &str) {
    end.receive_within(1, Duration::from_millis(1));
    let kinds = [(17, false), (6, false), (17, true), (6, true)];
    let all = kinds
        .iter()
        .flat_map(|&(protocol, is_ipv6)| (0..PORTS).map(move |port| packet(protocol, is_ipv6, port)));
    // Others pass whatever their bucket: ICMP, and no IP.
    let all: Vec<_> = all.chain([packet(1, false, 0), frame(0, 60)]).collect();
    for thinned in all.iter().step_by(7) {
        assert!(end.device.rx_mut().unwrap().thin(Some(&passes_but(thinned))));
        send_raw(from, &all);
        let left: Vec<_> =
            all.iter().filter(|bytes| thin_bucket(bytes) != thin_bucket(thinned)).cloned().collect();
        assert_eq!(end.receive(left.len()), left);
        assert!(end.receive_within(1, Duration::from_millis(1)).is_empty());
    }
    end.device.rx_mut().unwrap().thin(None);
    send_raw(from, &all);
    assert_eq!(end.receive(all.len()), all);
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
                |frames: Vec<Vec<u8>>| frames.iter().map(|bytes| thin_bucket(bytes)).collect::<Vec<_>>();
            let all = end.receive(from.len());
            let device = |end: &mut End, passes: Option<&Passes>| end.device.rx_mut().unwrap().thin(passes);
            assert!(device(&mut end, Some(&passes_but(&all[7]))));
            send();
            let left = flows(all.clone()).into_iter().filter(|of| *of != thin_bucket(&all[7]));
            let left: Vec<usize> = left.collect();
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
