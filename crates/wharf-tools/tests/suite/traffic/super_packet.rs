//! Super-packets of generated packets.

use wharf_packet::gso::GsoPlan;
use wharf_tools::traffic::{GeneratorSpec, Sizes, Source};

#[test]
fn segments_match_the_expectation_of_the_receiver() {
    let ipv4 =
        GeneratorSpec { sizes: Sizes::Fixed(201), super_packets: 7, flows: 3, ..GeneratorSpec::default() };
    let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    for spec in [ipv4, GeneratorSpec { source, destination, vlan: Some(5), tos: 0x10, ..ipv4 }] {
        let mut generator = spec.generators().unwrap().remove(0).ending_after(7 * 3 + 2);
        let (expects, mut number) = (generator.clone(), 0);
        for packets in [7, 7, 7, 2] {
            assert_eq!(generator.remaining(), 4 - number / 7);
            let mut whole = vec![0xee; generator.len_bytes() as usize];
            let requests = generator.requests().unwrap();
            generator.write(&mut whole, 1000);
            let cut = GsoPlan::new(&whole, requests.gso_kind, requests.gso_bytes).unwrap();
            assert_eq!(cut.segments(), packets);
            for at in 0..packets {
                let mut piece = vec![0; cut.segment_bytes(at)];
                cut.write(&whole, at, &mut piece);
                let mut expected = vec![0; expects.len_of(number) as usize];
                expects.write_packet(&mut expected, number, 1000);
                assert_eq!(piece, expected, "packet {number}");
                number += 1;
            }
        }
        assert_eq!(generator.remaining(), 0);
    }
}

#[test]
fn super_packets_stay_within_the_longest_ip_packet() {
    let spec = GeneratorSpec { sizes: Sizes::Fixed(1514), ..GeneratorSpec::default() };
    assert_eq!(spec.super_packets_max(), 44);
    assert_eq!(GeneratorSpec { sizes: Sizes::Imix, ..spec }.super_packets_max(), 1);
    for (super_packets, is_good) in [(0, false), (1, true), (44, true), (45, false)] {
        assert_eq!(GeneratorSpec { super_packets, ..spec }.generators().is_ok(), is_good, "{super_packets}");
    }
    let longest = GeneratorSpec { super_packets: 44, ..spec };
    assert_eq!(longest.longest_bytes(), longest.generators().unwrap()[0].longest_bytes());
}
