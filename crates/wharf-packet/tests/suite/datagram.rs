//! Datagrams and answers beside a plain reading of the bytes, and beside etherparse.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use wharf_packet::{Datagram, Ecn, EthernetHeader, IpHeader, UDP, UdpHeader, UdpHeaders, ecn};

/// A UDP datagram: VLAN tags, IPv4's options, padding behind, bytes of its headers changed, its end cut off.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let shape = (any::<bool>(), 0usize..4, 0usize..4, any::<[u8; 12]>(), any::<[u8; 32]>(), 0u8..4);
    let data = (any::<[u8; 4]>(), prop::collection::vec(any::<u8>(), 0..40), 0usize..6);
    let changes = prop::collection::vec((0usize..28, any::<u8>()), 0..2);
    (shape, data, changes, 0usize..12).prop_map(
        |((is_ipv6, tags, options, macs, addresses, ecn), (ports, payload, padding), changes, cut)| {
            let mut frame = macs.to_vec();
            (0..tags).for_each(|tag| frame.extend([[0x88, 0xa8, 0, 7], [0x81, 0, 0x20, 5]][tag % 2]));
            let udp_bytes = 8 + payload.len() as u16;
            let ip_at = frame.len() + 2;
            if is_ipv6 {
                frame.extend([0x86, 0xdd, 0x60, ecn << 4, 0, 0]);
                frame.extend(udp_bytes.to_be_bytes());
                frame.extend([17, 64]);
                frame.extend(addresses);
            } else {
                frame.extend([8, 0, 0x45 + options as u8, ecn]);
                frame.extend((20 + 4 * options as u16 + udp_bytes).to_be_bytes());
                frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
                frame.extend(&addresses[..8]);
                frame.extend(vec![1; 4 * options]);
            }
            let udp_at = frame.len();
            frame.extend(ports);
            frame.extend(udp_bytes.to_be_bytes());
            frame.extend([0, 0]);
            frame.extend(payload);
            frame.extend(vec![0; padding]);
            for (at, byte) in changes {
                // Within the fixed headers, where the lengths are.
                frame[[ip_at + at, udp_at + at % 8][at % 2]] = byte;
            }
            frame.truncate(frame.len() - cut.saturating_sub(6).min(frame.len()));
            frame
        },
    )
}

/// The two ends, the ECN bits and the payload, read by hand.
fn plainly(frame: &[u8]) -> Option<(SocketAddr, SocketAddr, u8, Range<usize>)> {
    let word = |at: usize| Some(usize::from(*frame.get(at)?) << 8 | usize::from(*frame.get(at + 1)?));
    let mut at = 12;
    while matches!(word(at)?, 0x8100 | 0x88a8) && at < 20 {
        at += 4;
    }
    let (kind, ip) = (word(at)?, at + 2);
    let (from, to, ecn, udp, end): (IpAddr, IpAddr, u8, usize, usize) = match (kind, frame.get(ip)? >> 4) {
        (0x800, 4) => {
            let header = frame.get(ip..ip + 20)?;
            let bytes = usize::from(header[0] & 15) * 4;
            if bytes < 20 || header[9] != 17 || word(ip + 6)? & 0x3fff != 0 {
                return None;
            }
            frame.get(ip..ip + bytes)?;
            let address =
                |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            (address(12), address(16), header[1] & 3, ip + bytes, ip + word(ip + 2)?)
        }
        (0x86dd, 6) => {
            let header = frame.get(ip..ip + 40)?;
            let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).unwrap());
            if header[6] != 17 {
                return None;
            }
            (address(8), address(24), header[1] >> 4 & 3, ip + 40, ip + 40 + word(ip + 4)?)
        }
        _ => return None,
    };
    let bytes = word(udp + 4)?;
    if bytes < 8 || udp + bytes > end || end > frame.len() {
        return None;
    }
    let ports = (word(udp)? as u16, word(udp + 2)? as u16);
    Some(((from, ports.0).into(), (to, ports.1).into(), ecn, udp + 8..udp + bytes))
}

fn is_ours(frame: &[u8]) -> bool {
    // Extension headers, the authentication header and source routes are the parser's tests.
    let at = frame.windows(2).position(|pair| matches!(pair, [0x86, 0xdd] | [8, 0])).unwrap_or(0);
    let is_ipv6 = frame.get(at) == Some(&0x86);
    let next = frame.get(at + 2 + if is_ipv6 { 6 } else { 9 }).copied().unwrap_or(17);
    !(next == 51 || is_ipv6 && matches!(next, 0 | 43 | 44 | 60))
}

fn number(ecn: Ecn) -> u8 {
    ecn as u8
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn datagram_is_as_read_by_hand_and_its_answer_goes_back(frame in frames(), answer in prop::collection::vec(any::<u8>(), 0..50)) {
        prop_assume!(is_ours(&frame));
        let plain = plainly(&frame);
        let read = Datagram::parse(&frame);
        prop_assert_eq!(
            read.map(|read| (read.source, read.destination, number(read.ecn), read.payload)),
            plain.clone().map(|(from, to, ecn, payload)| (from, to, ecn, &frame[payload]))
        );
        let reply = UdpHeaders::reply_to(&frame);
        let group = |ip: IpAddr| ip.is_multicast() || ip == IpAddr::from([255; 4]);
        let answered = plain.filter(|(from, to, ..)| {
            let is_of_one = (frame[0] | frame[6]) & 1 == 0 && !from.ip().is_unspecified();
            is_of_one && from.port() != 0 && !group(from.ip()) && !group(to.ip())
        });
        prop_assert_eq!(reply.clone().map(|reply| reply.1), answered.clone().map(|plain| plain.3));
        let (Some((headers, _)), Some((from, to, ..))) = (reply, answered) else { return Ok(()) };
        let mut back = [&vec![0xee; headers.len_bytes()][..], &answer].concat();
        prop_assert_eq!(headers.write(&mut back, 3), Some(headers.len_bytes()));
        prop_assert_eq!((&back[..6], &back[6..12]), (&frame[6..12], &frame[..6]));
        let tags = headers.len_bytes() - 8 - if from.is_ipv4() { 20 } else { 40 };
        prop_assert_eq!(&back[12..tags], &frame[12..tags]);
        let theirs = SlicedPacket::from_ethernet(&back).unwrap();
        let Some(TransportSlice::Udp(udp)) = theirs.transport else { panic!("no UDP: {back:?}") };
        let sum = match theirs.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                prop_assert!(header.dont_fragment);
                udp.to_header().calc_checksum_ipv4(&header, udp.payload())
            }
            NetSlice::Ipv6(ip) => udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
            NetSlice::Arp(_) => unreachable!(),
        };
        prop_assert_eq!((udp.checksum(), udp.payload()), (sum.unwrap(), &answer[..]));
        let read = Datagram::parse(&back).unwrap();
        prop_assert_eq!((read.source, read.destination, read.ecn), (to, from, Ecn::NotEct));
    }

    #[test]
    fn any_bytes_then_no_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..3) {
        let start: &[u8] = [&[8, 0, 0x45][..], &[0x86, 0xdd, 0x60], &[0x81, 0]][kind];
        if let Some(place) = bytes.get_mut(12..12 + start.len()) {
            place.copy_from_slice(start);
        }
        [20, 23].into_iter().for_each(|at| bytes.get_mut(at).into_iter().for_each(|byte| *byte = UDP));
        let reply = UdpHeaders::reply_to(&bytes);
        prop_assert!(reply.is_none_or(|(_, payload)| bytes.get(payload).is_some()));
        prop_assert!(Datagram::parse(&bytes).is_none_or(|read| read.payload.len() <= bytes.len()));
    }

    #[test]
    fn bits_of_the_headers_then_they_are_as_made_anew(is_ipv6: bool, class: u8, next in 0usize..4, dont_fragment: bool) {
        let ecn_next = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][next];
        let address = |end| if is_ipv6 { IpAddr::from([end; 16]) } else { IpAddr::from([10, 0, 0, end]) };
        let ip = IpHeader { traffic_class: class, ..IpHeader::new(address(1), address(2), UDP) };
        let ethernet = EthernetHeader { destination: [2; 6], source: [4; 6], vlan: Some(5), ethertype: 0 };
        let made = |ip| UdpHeaders::new(ethernet, ip, UdpHeader { source: 7, destination: 9 }).unwrap();
        let changed = made(ip).ecn(ecn_next);
        let changed = if dont_fragment { changed.dont_fragment() } else { changed };
        let traffic_class = class & !3 | ecn_next as u8;
        prop_assert_eq!(changed, made(IpHeader { traffic_class, dont_fragment: dont_fragment && !is_ipv6, ..ip }));
        let mut frame = [0; UdpHeaders::BYTES_MAX];
        changed.write(&mut frame, 0).unwrap();
        prop_assert_eq!(ecn(&frame), Some(ecn_next));
    }
}

#[test]
fn checksum_of_zero_then_it_is_written_as_ones() {
    for [from, to] in [["192.0.2.1:5", "198.51.100.1:9"], ["[2001:db8::1]:5", "[2001:db8::2]:9"]] {
        let headers = UdpHeaders::between(from.parse().unwrap(), to.parse().unwrap()).unwrap();
        let (at, mut ones) = (headers.len_bytes(), 0);
        let mut frame = vec![0; at + 2];
        for word in 0..=u16::MAX {
            frame[at..].copy_from_slice(&word.to_be_bytes());
            headers.write(&mut frame, 0).unwrap();
            assert_ne!(frame[at - 2..at], [0, 0]);
            ones += u32::from(frame[at - 2..at] == [0xff; 2]);
        }
        // 0 and 0xffff are the same number in ones' complement.
        assert!((1..=2).contains(&ones), "{ones}");
    }
}
