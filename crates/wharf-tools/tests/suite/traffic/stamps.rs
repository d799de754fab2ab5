//! Stamps of generated packets, found by a receiver that does not know the generator.

use std::net::IpAddr;
use wharf_packet::UDP;
use wharf_tools::traffic::{Arrival, Arrivals, Check, GeneratorSpec, Sizes, Stamp, StreamReport, stamp_of};

/// Packet 7, made at 99 ns.
fn packet(spec: &GeneratorSpec) -> Vec<u8> {
    let generator = &spec.generators().unwrap()[0];
    let mut packet = vec![0; generator.len_of(7) as usize];
    generator.write_packet(&mut packet, 7, 99);
    packet
}

fn specs() -> Vec<GeneratorSpec> {
    let ipv4 = GeneratorSpec { sizes: Sizes::Fixed(100), ..GeneratorSpec::default() };
    let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let ipv6 = GeneratorSpec { source, destination, ..ipv4 };
    let tagged = |spec: GeneratorSpec| GeneratorSpec { vlan: Some(5), tos: 0xb9, ..spec };
    vec![tagged(ipv4), tagged(ipv6), ipv4, ipv6]
}

/// Receives `packet` alone, 1000 ns after it was made.
fn received(packet: &[u8]) -> Arrivals {
    let mut arrivals = Arrivals::default();
    arrivals.check(packet, Arrival { monotonic_ns: 1099, wall_ns: 0 });
    arrivals
}

/// Addresses, sender and number of the stamp in `packet`, if one is found.
fn found(packet: &[u8]) -> Option<(IpAddr, IpAddr, u16, u64)> {
    let stream: StreamReport = received(packet).streams().next()?;
    // All packets before this one are lost.
    Some((stream.source, stream.destination, stream.sender, stream.counts.lost))
}

#[test]
fn generated_frames_then_their_stamps_are_found_and_truncated_ones_do_not_panic() {
    for spec in specs() {
        let packet = packet(&spec);
        assert_eq!(found(&packet), Some((spec.source, spec.destination, 0, 7)));
        let arrivals = received(&packet);
        let latencies = arrivals.latencies().unwrap();
        let by_dscp: Vec<_> = latencies.by_dscp().map(|(dscp, latency)| (dscp, latency.max_ns())).collect();
        assert_eq!(by_dscp, [(spec.tos >> 2, 1000)]);
        for len in 0..packet.len() {
            received(&packet[..len]);
        }
    }
}

#[test]
fn stamp_behind_extension_headers_is_found() {
    let mut packet = packet(&specs()[3]);
    // Destination options, of padding.
    packet.splice(54..54, [UDP, 0, 1, 4, 0, 0, 0, 0]);
    (packet[19], packet[20]) = (packet[19] + 8, 60);
    assert_eq!(found(&packet).map(|found| found.3), Some(7));
}

#[test]
fn other_frames_have_no_stamp() {
    let packet = packet(&GeneratorSpec::default());
    for (at, byte) in [(13, 6), (20, 0x20), (21, 1), (23, 6), (42, b'X')] {
        let mut other = packet.clone();
        other[at] = byte;
        assert_eq!(found(&other), None, "byte {at}");
    }
    // On another port, number and time must be likely ones: packet 7, made at 99 ns.
    let mut port = packet.clone();
    port[37] = 53;
    assert_eq!(found(&port).map(|found| found.3), Some(7));
    for (at, byte) in [(46, 0x02), (52, 0x20)] {
        let mut unlikely = port.clone();
        unlikely[at] = byte;
        assert_eq!(found(&unlikely), None, "byte {at}");
        unlikely[37] = 9;
        assert!(found(&unlikely).is_some());
    }
    let mut long_header = packet;
    long_header[14] = 0x4f;
    assert_eq!(found(&long_header), None);
}

#[test]
fn written_stamp_is_read_back_whole_or_not_at_all() {
    let spec = GeneratorSpec { run: 255, first_sender: 4095, ..GeneratorSpec::default() };
    let generator = &spec.generators().unwrap()[0];
    let mut packet = [0; 60];
    assert_eq!(stamp_of(&packet), None);
    generator.write_packet(&mut packet, 1 << 43, u64::MAX);
    let payload = &packet[generator.payload_at()..];
    assert_eq!(stamp_of(payload), Some(Stamp { run: 255, sender: 4095, number: 1 << 43, time_ns: u64::MAX }));
    assert_eq!(stamp_of(&payload[..17]), None);
}
