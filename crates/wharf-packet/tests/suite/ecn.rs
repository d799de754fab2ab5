//! Marks of congestion.

use etherparse::{EtherType, PacketBuilder};
use proptest::prelude::*;
use wharf_packet::checksum::{fold, sum};
use wharf_packet::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, Ecn, dscp, ecn, mark_ce, traffic_class,
};

fn ipv4(tos: u8, tags: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [198, 51, 100, 1], 64);
    ip.udp(1, 9).write(&mut bytes, &[7; 18]).unwrap();
    bytes[15] = tos;
    bytes[24..26].fill(0);
    let checksum = !fold(sum(&bytes[14..34]));
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    tag(bytes, tags)
}

fn ipv6(class: u8, tags: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64);
    ip.udp(1, 9).write(&mut bytes, &[7; 18]).unwrap();
    bytes[14] |= class >> 4;
    bytes[15] |= class << 4;
    tag(bytes, tags)
}

fn tag(mut bytes: Vec<u8>, tags: usize) -> Vec<u8> {
    for ethertype in [ETHERTYPE_VLAN, ETHERTYPE_QINQ, ETHERTYPE_QINQ].iter().take(tags) {
        let [high, low] = ethertype.to_be_bytes();
        bytes.splice(12..12, [high, low, 0, 5]);
    }
    bytes
}

#[test]
fn capable_packet_is_marked_and_its_checksum_stays_right() {
    for tags in 0..=2 {
        let ip_at = 14 + 4 * tags;
        for tos in (0..=255u8).step_by(if cfg!(miri) { 21 } else { 1 }) {
            let (is_capable, before) = (tos & 3 != 0, ipv4(tos, tags));
            let mut frame = before.clone();
            assert_eq!(mark_ce(&mut frame), is_capable, "TOS {tos:#x}");
            let after = if is_capable { tos | 3 } else { tos };
            assert_eq!(frame, ipv4(after, tags));
            assert_eq!(fold(sum(&frame[ip_at..ip_at + 20])), 0xffff);
            let mut frame = ipv6(tos, tags);
            assert_eq!(mark_ce(&mut frame), is_capable, "class {tos:#x}");
            assert_eq!(frame, ipv6(after, tags));
            assert_eq!((traffic_class(&frame), dscp(&frame)), (Some(after), Some(tos >> 2)));
            assert_eq!(ecn(&frame).map(|ecn| ecn as u8), Some(after & 3));
        }
    }
}

#[test]
fn incomplete_header_or_third_tag_then_frame_stays() {
    for (whole, header) in [(ipv4(2, 1), 38), (ipv6(2, 1), 58)] {
        for len in 0..whole.len() {
            let mut frame = whole[..len].to_vec();
            assert_eq!(mark_ce(&mut frame), len >= header, "{len} bytes");
            assert!(len >= header || frame == whole[..len]);
        }
    }
    assert!(!mark_ce(&mut ipv4(2, 3)) && traffic_class(&ipv4(2, 3)).is_none());
    assert!(!mark_ce(&mut [0; 60]) && ecn(&[0; 60]).is_none());
    // A version that contradicts the EtherType.
    let mut frame = ipv4(2, 0);
    frame[14] = 0x65;
    assert!(!mark_ce(&mut frame) && traffic_class(&frame).is_none());
    assert_eq!(frame[12..14], EtherType::IPV4.0.to_be_bytes());
    assert_eq!([ETHERTYPE_IPV4, ETHERTYPE_IPV6], [EtherType::IPV4.0, EtherType::IPV6.0]);
}

proptest! {
    #[test]
    fn any_bytes_then_no_panic_and_only_the_mark_changes(
        mut frame in prop::collection::vec(any::<u8>(), 0..80), kind in 0usize..3,
    ) {
        let start: &[u8] = [&[8, 0, 0x45][..], &[0x86, 0xdd, 0x60], &[]][kind];
        if let Some(place) = frame.get_mut(12..12 + start.len()) {
            place.copy_from_slice(start);
        }
        let before = frame.clone();
        let was_capable = matches!(ecn(&before), Some(Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce));
        let is_marked = mark_ce(&mut frame);
        prop_assert!(was_capable || !is_marked);
        prop_assert_eq!(frame == before, !is_marked || ecn(&before) == Some(Ecn::Ce));
        prop_assert!(!is_marked || ecn(&frame) == Some(Ecn::Ce));
    }
}
