//! Super-packets, made and looked at.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use super::net::End;
use etherparse::{SlicedPacket, TransportSlice};
use wharf_core::checksum::{fold, sum};
use wharf_core::gso::{Cut, GSO_TCPV6, GSO_UDP};
use wharf_mem::Meta;

pub const NEAR: [u8; 4] = [10, 9, 0, 1];
pub const FAR: [u8; 4] = [10, 9, 0, 2];

/// Bytes that no two places share.
pub fn data(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).take(len).collect()
}

/// Source address and TCP or UDP payload with its sequence number, of a frame whose checksums are all good.
pub fn opened(frame: &[u8]) -> Option<([u8; 4], u32, Vec<u8>)> {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(etherparse::NetSlice::Ipv4(ip)) = &sliced.net else { return None };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let (sequence, payload, checksum, right) = match sliced.transport? {
        TransportSlice::Tcp(tcp) => {
            let right =
                tcp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, tcp.payload());
            (tcp.sequence_number(), tcp.payload().to_vec(), tcp.checksum(), right)
        }
        TransportSlice::Udp(udp) => {
            let right =
                udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, udp.payload());
            (0, udp.payload().to_vec(), udp.checksum(), right)
        }
        _ => return None,
    };
    assert_eq!(checksum % 0xffff, right.unwrap() % 0xffff, "{} bytes", frame.len());
    Some((header.source, sequence, payload))
}

/// As whoever carries it on would cut it.
pub fn cut(packet: &[u8], meta: &Meta) -> Vec<Vec<u8>> {
    let cut = Cut::new(packet, meta.gso_kind, meta.gso_bytes).unwrap();
    let segment = |at| {
        let mut bytes = vec![0; cut.segment_bytes(at)];
        cut.write(packet, at, &mut bytes);
        bytes
    };
    (0..cut.segments()).map(segment).collect()
}

/// A super-packet with headers like the kernel's, the sum of the pseudo header in place of its checksum.
pub fn super_packet(kind: u8, payload: usize) -> (Vec<u8>, Meta) {
    let (is_ipv6, is_udp) = (kind == GSO_TCPV6, kind == GSO_UDP);
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let transport = if is_udp { 8 } else { 20 } + payload;
    if is_ipv6 {
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        bytes.extend((transport as u16).to_be_bytes());
        bytes.extend([6, 64]);
        bytes.extend([0x20; 32]);
    } else {
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend((20 + transport as u16).to_be_bytes());
        bytes.extend([0x12, 0x34, 0x40, 0, 64, if is_udp { 17 } else { 6 }, 0, 0]);
        bytes.extend([NEAR, FAR].concat());
        let checksum = !fold(sum(&bytes[14..34]));
        bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    let start = bytes.len();
    let addresses = if is_ipv6 { &bytes[22..54] } else { &bytes[26..34] };
    let pseudo = fold(sum(addresses) + if is_udp { 17 } else { 6 } + transport as u64).to_be_bytes();
    if is_udp {
        bytes.extend([4, 0, 0, 9]);
        bytes.extend((transport as u16).to_be_bytes());
        bytes.extend(pseudo);
    } else {
        bytes.extend([4, 0, 0, 80, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 0, 0x50, 0x19, 1, 0]);
        bytes.extend(pseudo);
        bytes.extend([0, 0]);
    }
    bytes.extend(data(payload));
    let meta = Meta {
        gso_bytes: 1400,
        gso_kind: kind,
        needs_checksum: true,
        checksum_start: start as u16,
        checksum_offset: if is_udp { 6 } else { 16 },
        time_ns: 0,
    };
    (bytes, meta)
}

/// Adds a packet as a chain of frames.
pub fn offer_chain(end: &mut End, bytes: &[u8], meta: &Meta) {
    let region = end.pool.region().clone();
    let room = region.data_bytes_max() as usize;
    bytes.chunks(room).for_each(|piece| end.offer(piece));
    let count = bytes.len().div_ceil(room);
    let mut frames: Vec<_> = std::iter::from_fn(|| end.batch.pop()).collect();
    let mut pieces = frames.split_off(frames.len() - count).into_iter();
    let mut head = pieces.next().unwrap();
    pieces.for_each(|piece| region.link(&mut head, piece).unwrap());
    region.set_meta(&mut head, meta).unwrap();
    frames.into_iter().chain([head]).for_each(|frame| end.batch.push(frame).unwrap());
}
