//! Generated packets: checksums, stamps, flows, lengths, and specifications that cannot be.

use std::collections::HashSet;
use wharf_packet::checksum::{fold, sum};
use wharf_tools::traffic::{GeneratorError, GeneratorSpec, Position, Sizes, Source, stamp_of};

fn ipv6() -> GeneratorSpec {
    let [source, destination] = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().unwrap());
    GeneratorSpec { source, destination, ..GeneratorSpec::default() }
}

fn packets(spec: &GeneratorSpec, sender: usize, count: u64) -> Vec<Vec<u8>> {
    let mut generator = spec.generators().unwrap().remove(sender).ending_after(count);
    let mut packets = Vec::new();
    while generator.remaining() > 0 {
        let mut packet = vec![0xee; generator.len_bytes() as usize];
        generator.write(&mut packet, u64::MAX - 77 * packets.len() as u64);
        packets.push(packet);
    }
    packets
}

/// A datagram with its pseudo-header adds up to 0xffff (RFC 1071), and so does an IPv4 header.
fn assert_checksums(packet: &[u8], vlan: bool) {
    let ip = &packet[if vlan { 18 } else { 14 }..];
    let (addresses, udp) = match ip[0] >> 4 {
        4 => {
            assert_eq!(fold(sum(&ip[..20])), 0xffff);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            (&ip[12..20], &ip[20..])
        }
        _ => (&ip[8..40], &ip[40..]),
    };
    assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
    let whole = sum(addresses) + 17 + udp.len() as u64 + sum(udp);
    assert_eq!(fold(whole), 0xffff, "{packet:02x?}");
}

#[test]
fn checksums_and_lengths_are_right_in_every_shape() {
    for vlan in [None, Some(100)] {
        for sizes in [Sizes::Fixed(84), Sizes::Fixed(85), Sizes::Fixed(1514), Sizes::Imix] {
            for spec in [GeneratorSpec::default(), ipv6()] {
                let spec = GeneratorSpec { vlan, sizes, flows: 5, ..spec };
                for packet in packets(&spec, 0, 50) {
                    assert_checksums(&packet, vlan.is_some());
                }
            }
        }
    }
}

#[test]
fn a_checksum_of_zero_is_sent_as_ffff() {
    let generator = GeneratorSpec::default().generators().unwrap().remove(0);
    let mut packet = [0; 60];
    let all: HashSet<u16> = (0..=u16::MAX.into())
        .map(|time_ns| {
            generator.write_packet(&mut packet, 0, time_ns);
            u16::from_be_bytes([packet[40], packet[41]])
        })
        .collect();
    assert!(all.contains(&0xffff) && !all.contains(&0));
}

#[test]
fn stamps_number_each_senders_packets() {
    let spec = GeneratorSpec { senders: 3, flows: 7, ..GeneratorSpec::default() };
    for sender in 0..3 {
        for (number, packet) in packets(&spec, sender, 20).iter().enumerate() {
            let stamp = stamp_of(&packet[42..]).unwrap();
            assert_eq!((usize::from(stamp.sender), stamp.number), (sender, number as u64));
        }
    }
}

#[test]
fn every_flow_is_one_senders() {
    let spec = GeneratorSpec { senders: 3, flows: 7, ..GeneratorSpec::default() };
    let ports = |sender| -> HashSet<u16> {
        packets(&spec, sender, 20).iter().map(|packet| u16::from_be_bytes([packet[34], packet[35]])).collect()
    };
    let sets: Vec<_> = (0..3).map(ports).collect();
    assert_eq!(sets.iter().map(HashSet::len).collect::<Vec<_>>(), [3, 2, 2]);
    assert_eq!(sets.iter().flatten().collect::<HashSet<_>>().len(), 7);
}

#[test]
fn the_mix_is_seven_four_one() {
    let lens: Vec<usize> = packets(&GeneratorSpec { sizes: Sizes::Imix, ..GeneratorSpec::default() }, 0, 24)
        .iter()
        .map(Vec::len)
        .collect();
    let count = |len| lens.iter().filter(|&&other| other == len).count();
    assert_eq!((count(60), count(590), count(1514)), (14, 8, 2));
    let longer = packets(&GeneratorSpec { sizes: Sizes::Imix, ..ipv6() }, 0, 12);
    assert_eq!(longer.iter().map(Vec::len).min(), Some(80));
}

#[test]
fn positions_add_up() {
    let spec = GeneratorSpec { sizes: Sizes::Imix, senders: 2, flows: 2, ..GeneratorSpec::default() };
    let generator = spec.generators().unwrap().remove(1);
    let bytes: u64 = (0..30).map(|number| u64::from(generator.len_of(number))).sum();
    assert_eq!(generator.position(30), Position { packets: 61, bytes: 2 * bytes, time_ns: 0 });
}

#[test]
fn impossible_specifications_are_refused_with_the_reason() {
    let good = GeneratorSpec::default();
    let mixed = GeneratorSpec { destination: ipv6().source, ..good };
    assert!(matches!(mixed.generators(), Err(GeneratorError::MixedAddresses { .. })));
    for (spec, least) in [(good, 60), (GeneratorSpec { vlan: Some(1), ..good }, 64), (ipv6(), 80)] {
        let short = GeneratorSpec { sizes: Sizes::Fixed(least - 1), ..spec };
        let error = short.generators().unwrap_err();
        assert_eq!(error, GeneratorError::Size { len_bytes: least - 1, least, most: 65535 });
        assert!(GeneratorSpec { sizes: Sizes::Fixed(least), ..spec }.generators().is_ok());
    }
    for flows in [0, 2, 64513] {
        let spec = GeneratorSpec { senders: 3, flows, ..good };
        assert!(matches!(spec.generators(), Err(GeneratorError::Flows { least: 3, most: 64512, .. })));
    }
    for vlan in [0, 4095] {
        assert_eq!(
            GeneratorSpec { vlan: Some(vlan), ..good }.generators().unwrap_err(),
            GeneratorError::Vlan { vlan }
        );
    }
}
