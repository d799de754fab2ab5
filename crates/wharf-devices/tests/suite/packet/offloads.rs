//! Checksums and segmentation offloaded by senders: by the kernel to us, and by us to the kernel.

use crate::net::{with_pair, with_two};
use crate::supers::{offer_chain, opened, super_packet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use wharf_devices::open::Direction;
use wharf_mem::Meta;
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP};
use wharf_testkit::end::End;
use wharf_testkit::packets::{NEAR, cut, data};

#[test]
#[ignore = "wants root"]
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

/// Sends by a kernel TCP socket, and checks the frames received with `spec`, each with its requests.
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
            let count = end.device.rx_mut().unwrap().receive(&mut end.cache, &mut end.batch, 64).unwrap();
            let region = end.pool.region();
            for frame in end.batch.frames() {
                let bytes = region.chunks(frame).unwrap().flatten().copied().collect();
                frames.push((bytes, region.meta(frame).unwrap()));
            }
            end.cache.give(&mut end.batch).unwrap();
            idle = if count == 0 { idle + 1 } else { 0 };
        }
        end.device.rx_mut().unwrap().drops(&mut |reason, count| assert_eq!(count, 0, "{reason}"));
        end.assert_all_home();
        check(frames);
    });
}

/// Joins the payloads of the frames from the near side.
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
#[ignore = "wants root"]
fn super_packets_of_the_kernel_are_cut() {
    received_of_tcp("packet:vb", 1 << 20, |frames| {
        assert!(frames.iter().all(|(bytes, meta)| bytes.len() <= 1514 && !meta.needs_checksum));
        assert!(frames.iter().all(|(_, meta)| meta.gso_bytes == 0 && meta.time_ns > 0));
        let frames: Vec<Vec<u8>> = frames.into_iter().map(|(bytes, _)| bytes).collect();
        assert!(stream(&frames) == data(1 << 20));
    });
}

#[test]
#[ignore = "wants root"]
fn super_packets_of_the_kernel_are_kept_as_asked() {
    received_of_tcp("packet:vb,gso=keep", 1 << 20, |frames| {
        let longest = frames.iter().map(|(bytes, _)| bytes.len()).max().unwrap();
        assert!(longest > 2 * 1514, "{longest}");
        // Segmented by their requests, they equal the segments of a sender.
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

/// Before and after each super-packet an ordinary frame, so that the order shows.
fn sends_super_packets(kind: u8, payload: usize) {
    with_pair(move || {
        let (mut from, mut cuts) = (End::sender("packet:va"), End::receiver("packet:vb"));
        let mut keeps = End::new("packet:vb,gso=keep", Direction::Receive, 1984);
        let (packet, meta) = super_packet(kind, payload);
        let plain = |number| crate::net::frame(number, 100);
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
#[ignore = "wants root"]
fn the_kernel_takes_super_packets_of_ours() {
    sends_super_packets(GSO_TCPV4, 30_000);
    sends_super_packets(GSO_TCPV6, 20_001);
    sends_super_packets(GSO_UDP, 12_000);
}

#[test]
#[ignore = "wants root"]
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

/// A frame that the kernel rejects fails, and the frames behind it go.
#[test]
#[ignore = "wants root"]
fn frame_rejected_by_the_kernel_fails_alone() {
    with_pair(|| {
        let (mut from, mut to) = (End::sender("packet:va"), End::receiver("packet:vb"));
        let (packet, meta) = super_packet(GSO_UDP, 500);
        let beyond = Meta { gso_bytes: 0, gso_kind: 0, checksum_start: 60_000, ..meta };
        let unknown = Meta { gso_kind: 7, ..meta };
        let frame = |number| crate::net::frame(number, 64);
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
