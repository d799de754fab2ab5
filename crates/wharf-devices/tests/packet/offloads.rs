//! Checksums and cutting that senders leave to somebody else: the kernel's to us, ours to the kernel.

use super::net::{End, with_pair, with_two};
use etherparse::{SlicedPacket, TransportSlice};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use wharf_core::checksum::{fold, sum};
use wharf_core::gso::{Cut, GSO_TCPV4, GSO_TCPV6, GSO_UDP};
use wharf_devices::open::Direction;
use wharf_mem::Meta;

const NEAR: [u8; 4] = [10, 9, 0, 1];
const FAR: [u8; 4] = [10, 9, 0, 2];

/// Bytes that no two places share.
fn data(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).take(len).collect()
}

/// Source address and TCP or UDP payload with its sequence number, of a frame whose checksums are all good.
fn opened(frame: &[u8]) -> Option<([u8; 4], u32, Vec<u8>)> {
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

#[test]
fn checksums_that_the_kernel_left_are_filled_in() {
    let (opened_end, wait) = mpsc::channel();
    let (sent, wait_until_sent) = mpsc::channel();
    let near = move || {
        wait.recv().unwrap();
        let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
        for len in 0..300 {
            socket.send_to(&data(len), "10.9.0.2:9").unwrap();
        }
        sent.send(()).unwrap();
    };
    with_two(near, move || {
        let mut end = End::receiver("packet:vb");
        opened_end.send(()).unwrap();
        wait_until_sent.recv().unwrap();
        let mut next = 0;
        while next < 300 {
            for frame in end.receive(1) {
                if let Some((NEAR, _, payload)) = opened(&frame) {
                    assert_eq!(payload, data(next));
                    next += 1;
                }
            }
        }
        end.assert_all_home();
    });
}

/// What a kernel TCP sender sent, as received with `spec`, frame by frame with the requests of each.
fn received_of_tcp(
    spec: &'static str, bytes: usize, check: impl FnOnce(Vec<(Vec<u8>, Meta)>) + Send + 'static,
) {
    let (listening, wait) = mpsc::channel();
    let near = move || {
        wait.recv().unwrap();
        TcpStream::connect("10.9.0.2:5000").unwrap().write_all(&data(bytes)).unwrap();
    };
    with_two(near, move || {
        let mut end = End::receiver(spec);
        let listener = TcpListener::bind("10.9.0.2:5000").unwrap();
        listening.send(()).unwrap();
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        assert!(got == data(bytes));
        let (mut frames, mut idle) = (Vec::new(), 0);
        while idle < 100_000 {
            let count = end.device.receive(&mut end.cache, &mut end.batch, 64).unwrap();
            let region = end.pool.region();
            for frame in end.batch.frames() {
                let bytes = region.chunks(frame).unwrap().flatten().copied().collect();
                frames.push((bytes, region.meta(frame).unwrap()));
            }
            end.cache.give(&mut end.batch).unwrap();
            idle = if count == 0 { idle + 1 } else { 0 };
        }
        end.device.receive_drops(&mut |reason, count| assert_eq!(count, 0, "{reason}"));
        end.assert_all_home();
        check(frames);
    });
}

/// Puts together what the frames from the near side carry.
fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
    for frame in frames {
        if let Some((NEAR, sequence, payload)) = opened(frame) {
            parts.push((sequence, payload));
        }
    }
    let first = parts[0].0.wrapping_add(1); // The SYN counts.
    let mut whole = Vec::new();
    for (sequence, payload) in parts.iter().filter(|(_, payload)| !payload.is_empty()) {
        let at = sequence.wrapping_sub(first) as usize;
        whole.resize(whole.len().max(at + payload.len()), 0);
        whole[at..at + payload.len()].copy_from_slice(payload);
    }
    whole
}

#[test]
fn super_packets_of_the_kernel_are_cut() {
    received_of_tcp("packet:vb", 1 << 20, |frames| {
        assert!(frames.iter().all(|(bytes, meta)| bytes.len() <= 1514 && !meta.needs_checksum));
        assert!(frames.iter().all(|(_, meta)| meta.gso_bytes == 0 && meta.time_ns > 0));
        let frames: Vec<Vec<u8>> = frames.into_iter().map(|(bytes, _)| bytes).collect();
        assert!(stream(&frames) == data(1 << 20));
    });
}

#[test]
fn super_packets_of_the_kernel_are_kept_as_asked() {
    received_of_tcp("packet:vb,gso=keep", 1 << 20, |frames| {
        let longest = frames.iter().map(|(bytes, _)| bytes.len()).max().unwrap();
        assert!(longest > 2 * 1514, "{longest}");
        // Cut as they say that they are to be cut, they are what they would have been.
        let mut cut_frames = Vec::new();
        for (bytes, meta) in frames {
            assert_eq!(bytes.len() > 1514, meta.gso_bytes > 0);
            if meta.gso_bytes == 0 {
                cut_frames.push(bytes);
                continue;
            }
            assert_eq!((meta.gso_kind, meta.checksum_start, meta.checksum_offset), (GSO_TCPV4, 34, 16));
            cut_frames.extend(cut(&bytes, &meta));
        }
        assert!(stream(&cut_frames) == data(1 << 20));
    });
}

fn cut(packet: &[u8], meta: &Meta) -> Vec<Vec<u8>> {
    let cut = Cut::new(packet, meta.gso_kind, meta.gso_bytes).unwrap();
    let segment = |at| {
        let mut bytes = vec![0; cut.segment_bytes(at)];
        cut.write(packet, at, &mut bytes);
        bytes
    };
    (0..cut.segments()).map(segment).collect()
}

/// A super-packet with headers like the kernel's, the sum of the pseudo header in place of its checksum.
fn super_packet(kind: u8, payload: usize) -> (Vec<u8>, Meta) {
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
fn offer_chain(end: &mut End, bytes: &[u8], meta: &Meta) {
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

/// Before and after each super-packet an ordinary frame, so that the order shows.
fn sends_super_packets(kind: u8, payload: usize) {
    with_pair(move || {
        let (mut from, mut cuts) = (End::sender("packet:va"), End::receiver("packet:vb"));
        let mut keeps = End::new("packet:vb,gso=keep", Direction::Receive, 1984);
        let (packet, meta) = super_packet(kind, payload);
        let plain = |number| super::net::frame(number, 100);
        from.offer(&plain(0));
        offer_chain(&mut from, &packet, &meta);
        from.offer(&plain(1));
        offer_chain(&mut from, &packet, &meta);
        assert_eq!(from.batch.len(), 4);
        assert_eq!(from.send_all(), (4, vec![]));

        let segments = cut(&packet, &meta);
        let expected: Vec<Vec<u8>> = [vec![plain(0)], segments.clone(), vec![plain(1)], segments].concat();
        assert!(cuts.receive(expected.len()) == expected);
        assert!(keeps.receive(4) == [plain(0), packet.clone(), plain(1), packet]);
        [from, cuts, keeps].iter_mut().for_each(End::assert_all_home);
    });
}

#[test]
fn the_kernel_takes_super_packets_of_ours() {
    sends_super_packets(GSO_TCPV4, 30_000);
    sends_super_packets(GSO_TCPV6, 20_001);
    sends_super_packets(GSO_UDP, 12_000);
}

#[test]
fn a_checksum_left_to_the_kernel_is_filled_in() {
    with_pair(|| {
        let (mut from, mut to) = (End::sender("packet:va"), End::receiver("packet:vb"));
        let (packet, meta) = super_packet(GSO_UDP, 1001);
        let meta = Meta { gso_bytes: 0, gso_kind: 0, ..meta };
        offer_chain(&mut from, &packet, &meta);
        assert_eq!(from.send_all(), (1, vec![]));
        let frame = to.receive(1).remove(0);
        assert_eq!(opened(&frame).unwrap().2, data(1001));
        assert_eq!(frame[..34], packet[..34]);
    });
}

/// What the kernel cannot make sense of fails, and what comes behind it goes.
#[test]
fn a_frame_that_the_kernel_refuses_fails_alone() {
    with_pair(|| {
        let (mut from, mut to) = (End::sender("packet:va"), End::receiver("packet:vb"));
        let (packet, meta) = super_packet(GSO_UDP, 500);
        let beyond = Meta { gso_bytes: 0, gso_kind: 0, checksum_start: 60_000, ..meta };
        let unknown = Meta { gso_kind: 7, ..meta };
        let frame = |number| super::net::frame(number, 64);
        for (number, meta) in [(0, &beyond), (1, &beyond), (2, &unknown)] {
            from.offer(&frame(number));
            offer_chain(&mut from, &packet, meta);
        }
        from.offer(&frame(3));
        assert_eq!(from.send_all(), (4, vec!["refused"; 3]));
        assert_eq!(to.receive(4), [frame(0), frame(1), frame(2), frame(3)]);
        from.assert_all_home();
    });
}
