//! Checksums that a sender has left unfinished, against sums of the test's own and an independent parser.

use proptest::prelude::*;
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::xdp::checksum::finish_all;
use wharf_mem::{Batch, Frame};
use wharf_packet::checksum::{self, SCTP_OFFSET, TCP_OFFSET, UDP_OFFSET, fold, sum};
use wharf_packet::{Headers, SCTP, TCP, UDP};

/// An Ethernet frame around `ip`, behind `tags` VLAN tags, with padding of ones.
fn frame(ethertype: u16, ip: &[u8], tags: usize, padding: usize) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 5]));
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(ip);
    bytes.extend(std::iter::repeat_n(0xff, padding));
    bytes
}

fn ipv4(protocol: u8, options: usize, segment: &[u8]) -> Vec<u8> {
    let len = 20 + options + segment.len();
    let mut ip =
        vec![0x45 + (options / 4) as u8, 0, (len >> 8) as u8, len as u8, 0, 1, 0x40, 0, 64, protocol, 0, 0];
    ip.extend([10, 9, 0, 1, 10, 9, 0, 2]);
    ip.extend(std::iter::repeat_n(1, options));
    ip.extend(segment);
    ip
}

fn ipv6(protocol: u8, hops: bool, segment: &[u8]) -> Vec<u8> {
    let extension: &[u8] = if hops { &[protocol, 0, 5, 2, 0, 0, 1, 0] } else { &[] };
    let len = extension.len() + segment.len();
    let next = if hops { 0 } else { protocol };
    let mut ip = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, next, 64];
    ip.extend((0..32).map(|n| n as u8 * 7));
    ip.extend(extension);
    ip.extend(segment);
    ip
}

/// Returns start and length of the transport segment in a frame, and the sum of its pseudo header.
fn segment(bytes: &[u8]) -> (usize, usize, u64) {
    let headers = Headers::parse(bytes).unwrap();
    let len = headers.transport_len(bytes).unwrap();
    (headers.transport_at, len, headers.pseudo_sum(bytes, len).unwrap())
}

/// A segment of `len` bytes whose checksum lies at `offset` and is 0.
fn bare(len: usize, offset: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|n| (n * 31 + 7) as u8).collect();
    bytes[offset..offset + 2].fill(0);
    bytes
}

/// Returns the frame as the kernel leaves it, and the finished frame by an independent parser.
fn unfinished(mut bytes: Vec<u8>, offset: usize) -> (Vec<u8>, Vec<u8>) {
    let (start, len, pseudo) = segment(&bytes);
    let at = start + offset;
    let mut finished = bytes.clone();
    let want = checksum::from_sum(pseudo + sum(&bytes[start..start + len]), offset);
    finished[at..at + 2].copy_from_slice(&want.to_be_bytes());
    bytes[at..at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
    (bytes, finished)
}

/// A frame that lies in buffers of `room` bytes.
fn laid(cache: &mut Cache, bytes: &[u8], room: usize) -> Frame {
    let region = cache.pool().region().clone();
    let mut whole: Option<Frame> = None;
    for chunk in bytes.chunks(room) {
        let mut one = Batch::new(1);
        cache.take(&mut one, 1, chunk.len() as u32).unwrap();
        let mut piece = one.pop().unwrap();
        region.bytes_mut(&mut piece).unwrap().copy_from_slice(chunk);
        match &mut whole {
            None => whole = Some(piece),
            Some(head) => region.link(head, piece).unwrap(),
        }
    }
    whole.unwrap()
}

/// Returns the frame after completion in buffers of `room` bytes. Nothing of an earlier frame shows.
fn finished(bytes: &[u8], room: usize) -> Vec<u8> {
    let pool = PagePool::builder().frames(64).frame_bytes(4096).huge_pages(false).build().unwrap();
    let (mut cache, mut batch) = (pool.cache("test").unwrap(), Batch::new(2));
    let region = pool.region().clone();
    for _ in 0..2 {
        batch.push(laid(&mut cache, bytes, room)).unwrap();
    }
    finish_all(&region, &mut batch, 1);
    let of = |frame| region.chunks(frame).unwrap().flatten().copied().collect::<Vec<u8>>();
    let [before, after] = [of(&batch.frames()[0]), of(&batch.frames()[1])];
    assert_eq!(before, bytes);
    assert_eq!(batch.bytes(), 2 * bytes.len() as u64);
    cache.give(&mut batch).unwrap();
    after
}

#[test]
fn unfinished_checksum_is_completed_at_any_place() {
    for len in [20, 21, 64, 1000, 1001] {
        for (protocol, offset) in [(TCP, TCP_OFFSET), (UDP, UDP_OFFSET)] {
            let segment = bare(len, offset);
            let packets = [
                frame(0x800, &ipv4(protocol, 0, &segment), 0, 0),
                frame(0x800, &ipv4(protocol, 8, &segment), 1, 6),
                frame(0x86dd, &ipv6(protocol, false, &segment), 0, 3),
                frame(0x86dd, &ipv6(protocol, true, &segment), 2, 0),
            ];
            for packet in packets {
                let (sent, want) = unfinished(packet, offset);
                assert_ne!(sent, want);
                for room in [3000, 200, 181] {
                    assert_eq!(finished(&sent, room), want, "{protocol} {len} {room}");
                }
                assert_eq!(finished(&want, 3000), want, "a right checksum stays");
            }
        }
    }
}

#[test]
fn etherparse_agrees() {
    let udp =
        etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(5, 6);
    let mut want = Vec::new();
    udp.write(&mut want, &[1, 2, 3, 4, 5]).unwrap();
    let (sent, again) = unfinished(
        {
            let mut bytes = want.clone();
            bytes[40..42].fill(0);
            bytes
        },
        UDP_OFFSET,
    );
    assert_eq!((&again, finished(&sent, 3000)), (&want, want.clone()));
}

/// Returns the protocol number and the bytes of a UDP tunnel to `port`, without a checksum: its header before the
/// inner packet.
fn udp_around(port: u16, header: &[u8], inner: &[u8]) -> (u8, Vec<u8>) {
    let len = 8 + header.len() + inner.len();
    let [port, len] = [port, len as u16].map(u16::to_be_bytes);
    let udp = [[0x90, 1], port, len, [0, 0]].concat();
    (UDP, [&udp[..], header, inner].concat())
}

#[test]
fn unfinished_checksum_in_a_tunnel_is_completed() {
    for (protocol, offset) in [(TCP, TCP_OFFSET), (UDP, UDP_OFFSET)] {
        let segment = bare(75, offset);
        for (ethertype, ip) in
            [(0x800u16, ipv4(protocol, 4, &segment)), (0x86dd, ipv6(protocol, true, &segment))]
        {
            let [high, low] = ethertype.to_be_bytes();
            let (sent, want) = unfinished(frame(ethertype, &ip, 0, 0), offset);
            let tunnels = [
                udp_around(4789, &[8, 0, 0, 0, 0, 0, 5, 0], &sent),
                udp_around(8472, &[8, 0, 0, 0, 0, 0, 5, 0], &sent),
                udp_around(6081, &[1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 4], &sent),
                udp_around(6081, &[0, 0, high, low, 0, 0, 5, 0], &sent[14..]),
                (47, [&[0, 0, 0x65, 0x58][..], &sent].concat()),
                (47, [&[0x30, 0, high, low, 0, 0, 0, 7, 0, 0, 0, 9][..], &sent[14..]].concat()),
                (if ethertype == 0x800 { 4 } else { 41 }, sent[14..].to_vec()),
            ];
            for (number, tunnel) in tunnels {
                for outer in [
                    frame(0x800, &ipv4(number, 0, &tunnel), 1, 0),
                    frame(0x86dd, &ipv6(number, false, &tunnel), 0, 5),
                ] {
                    let at = outer.windows(sent.len() - 14).position(|part| *part == sent[14..]).unwrap();
                    let mut right = outer.clone();
                    right[at..at + want.len() - 14].copy_from_slice(&want[14..]);
                    assert_eq!(finished(&outer, 3000), right, "{protocol} {ethertype:x} in {number}");
                    assert_eq!(finished(&right, 3000), right, "a right checksum stays");
                    for len in 1..outer.len() {
                        assert_eq!(finished(&outer[..len], 3000).len(), len);
                    }
                }
            }
        }
    }
}

/// A finished checksum that happens to be the sum of the pseudo header.
#[test]
fn a_checksum_that_only_looks_unfinished_stays() {
    let mut segment = bare(40, UDP_OFFSET);
    let bytes = frame(0x800, &ipv4(UDP, 0, &segment), 0, 0);
    let (_, _, pseudo) = self::segment(&bytes);
    // The payload's last word is chosen so that all sums up to ones with that checksum in its place.
    segment[38..].fill(0);
    segment[6..8].copy_from_slice(&fold(pseudo).to_be_bytes());
    let last = !fold(pseudo + sum(&segment));
    segment[38..].copy_from_slice(&last.to_be_bytes());
    let bytes = frame(0x800, &ipv4(UDP, 0, &segment), 0, 0);
    assert_eq!(finished(&bytes, 3000), bytes);
}

/// A sender that routes by way of other hosts leaves the sum of the pseudo header with the last of them.
#[test]
fn routing_header_then_the_checksum_is_that_of_the_final_destination() {
    for (kind, left) in [(0, 1), (2, 1), (2, 0), (4, 1)] {
        let payload = bare(100, TCP_OFFSET);
        let routing = [&[TCP, 2, kind, left, 0, 0, 0, 0][..], &[0x77; 16], &payload].concat();
        let mut bytes = frame(0x86dd, &ipv6(43, false, &routing), 0, 0);
        let final_destination = if left == 0 { bytes[38..54].to_vec() } else { vec![0x77; 16] };
        let pseudo = sum(&bytes[22..38]) + sum(&final_destination) + u64::from(TCP) + 100;
        let at = 54 + 24 + TCP_OFFSET;
        let mut want = bytes.clone();
        want[at..at + 2]
            .copy_from_slice(&checksum::from_sum(pseudo + sum(&payload), TCP_OFFSET).to_be_bytes());
        bytes[at..at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
        assert_eq!(finished(&bytes, 3000), want, "type {kind}, {left} left");
        assert_eq!(finished(&want, 3000), want);
    }
}

#[test]
fn sctp_behind_destination_options_gets_its_crc() {
    let segment = [&[SCTP, 0, 1, 4, 0, 0, 0, 0][..], &[7; 8], &[0; 4], &[9; 20]].concat();
    let bytes = frame(0x86dd, &ipv6(60, false, &segment), 0, 0);
    let mut want = bytes.clone();
    assert!(checksum::complete_sctp(&mut want, 62, SCTP_OFFSET));
    assert_ne!(bytes, want);
    assert_eq!(finished(&bytes, 3000), want);
}

#[test]
fn all_else_stays_as_it_is() {
    let segment = bare(40, UDP_OFFSET);
    let mut fragment = ipv4(UDP, 0, &segment);
    fragment[6] = 0x20;
    let (mut cut, _) = unfinished(frame(0x800, &ipv4(UDP, 0, &segment), 0, 0), UDP_OFFSET);
    let corrupt = {
        let (_, mut bytes) = unfinished(frame(0x800, &ipv4(TCP, 0, &segment), 0, 0), TCP_OFFSET);
        bytes[50] ^= 4;
        bytes
    };
    cut.truncate(60);
    let frames = [
        frame(0x806, &segment, 0, 0),
        frame(0x800, &fragment, 0, 0),
        frame(0x800, &ipv4(1, 0, &segment), 0, 0),
        frame(0x800, &ipv4(UDP, 0, &segment[..5]), 0, 0),
        frame(0x800, &ipv4(UDP, 0, &segment), 0, 0),
        frame(0x86dd, &[0x60; 45], 0, 0),
        frame(0x800, &[0x40; 30], 0, 0),
        frame(0x800, &[], 0, 0),
        cut,
        corrupt,
    ];
    for bytes in frames {
        for len in (0..bytes.len()).step_by(7).skip(1).chain([bytes.len()]) {
            assert_eq!(finished(&bytes[..len], 3000), bytes[..len]);
        }
    }
}

#[test]
fn sctp_that_was_left_0_gets_its_crc() {
    let segment = bare(36, SCTP_OFFSET).into_iter().enumerate();
    let segment: Vec<u8> = segment.map(|(at, byte)| if (8..12).contains(&at) { 0 } else { byte }).collect();
    let bytes = frame(0x800, &ipv4(SCTP, 0, &segment), 0, 4);
    let mut want = bytes.clone();
    assert!(checksum::complete_sctp(&mut want[..34 + 36], 34, SCTP_OFFSET));
    assert_ne!(bytes, want);
    assert_eq!(finished(&bytes, 3000), want);
    assert_eq!(finished(&want, 3000), want);
}

proptest! {
    /// In any bytes only a checksum changes, and a second pass changes nothing.
    #[test]
    fn any_bytes_at_all(
        ethertype in prop::sample::select(vec![0x800u16, 0x86dd, 0x8100, 0x88a8]),
        protocol in prop::sample::select(vec![0u8, 6, 17, 60, 132]),
        mut ip in prop::collection::vec(any::<u8>(), 0..120),
        is_zero in any::<bool>(),
        room in 60usize..200,
    ) {
        for at in [6, 9, 40] {
            ip.get_mut(at).into_iter().for_each(|byte| *byte = protocol);
        }
        if is_zero {
            ip.iter_mut().skip(2).for_each(|byte| *byte &= 3);
        }
        let sent = frame(ethertype, &ip, 0, 0);
        let got = finished(&sent, room);
        let changed = sent.iter().zip(&got).filter(|(one, other)| one != other).count();
        prop_assert!(changed <= 4 && sent.len() == got.len());
        prop_assert_eq!(finished(&got, room), got);
    }
}
