//! Packets inside tunnels.

use wharf_packet::tunnel::{Inner, inner};
use wharf_packet::{Headers, UDP};

const GRE: u8 = 47;
const IPV4_IN_IP: u8 = 4;

/// IPv4 with `protocol` and `payload` behind it.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0], &[10; 8]].concat();
    let len = (20 + payload.len()) as u16;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    [&frame[..], payload].concat()
}

fn udp(port: u16, header: &[u8]) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    outer(UDP, &[&[0x90, 1, high, low, 0, 0, 0, 0][..], header, &outer(6, &[9; 20])].concat())
}

fn found(frame: &[u8]) -> Option<Inner> {
    inner(frame, &Headers::parse(frame).unwrap())
}

#[test]
fn vxlan_and_geneve_then_the_inner_frame_is_found() {
    let vxlan = udp(4789, &[8, 0, 0, 0, 0, 0, 5, 0]);
    assert_eq!(found(&vxlan), Some(Inner::Ethernet(50)));
    let headers = Inner::Ethernet(50).headers(&vxlan).unwrap();
    assert_eq!((headers.ip_at, headers.transport_at, headers.protocol), (64, 84, 6));
    let geneve = udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 4]);
    assert_eq!(found(&geneve), Some(Inner::Ethernet(54)));
    assert_eq!(found(&udp(6081, &[0, 0, 8, 0, 0, 0, 5, 0])), Some(Inner::Ip(50)));
    assert_eq!(found(&udp(53, &[8, 0, 0, 0, 0, 0, 5, 0])), None);
}

#[test]
fn flags_that_the_rfc_refuses_then_no_tunnel() {
    assert_eq!(found(&udp(8472, &[0, 0, 0, 0, 0, 0, 5, 0])), None, "VXLAN without a valid identifier");
    assert_eq!(found(&udp(6081, &[0x40, 0, 8, 0, 0, 0, 5, 0])), None, "Geneve, version 1");
    let gre = |flags: u16| {
        let [high, low] = flags.to_be_bytes();
        found(&outer(GRE, &[&[high, low, 8, 0][..], &[0; 12], &outer(6, &[9; 20])[14..]].concat()))
    };
    assert_eq!([gre(0), gre(0x2000), gre(0xb000)], [38, 42, 50].map(|at| Some(Inner::Ip(at))));
    for refused in [0x4000, 0x0800, 0x0400, 1] {
        assert_eq!(gre(refused), None, "{refused:#x}");
    }
}

#[test]
fn fragment_of_a_tunnel_then_nothing_is_inside() {
    let mut frame = outer(IPV4_IN_IP, &outer(6, &[9; 20])[14..]);
    assert_eq!(found(&frame), Some(Inner::Ip(34)));
    assert_eq!(Inner::Ip(34).headers(&frame).unwrap().transport_at, 54);
    frame[20] = 0x20;
    assert_eq!(found(&frame), None);
    for len in 34..frame.len() {
        let _ = Inner::Ip(34).headers(&frame[..len]);
    }
}
