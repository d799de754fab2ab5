//! Owned packets: headers put in front and taken off, checksums left to others, segments of super-packets.

use std::time::Duration;
use wharf_core::pool::{Burst, NoRoom, Packet, PagePool, PoolError};
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_mem::{Meta, Times};
use wharf_packet::checksum::{UDP_OFFSET, complete};
use wharf_packet::gso::{GSO_UDP, GsoPlan};
use wharf_packet::{EthernetHeader, IpHeader, UdpHeader, UdpHeaders};
use wharf_testkit::gate::Gate;
use wharf_testkit::{assert_conserved, builder, pool};

fn headers() -> UdpHeaders {
    let ethernet = EthernetHeader { destination: [2; 6], source: [4; 6], vlan: None, ethertype: 0 };
    let ip = IpHeader::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0);
    UdpHeaders::new(ethernet, ip, UdpHeader { source: 7, destination: 9 }).unwrap()
}

/// A packet whose payload lies in chunks of up to 1000 bytes.
fn packet(pool: &PagePool, payload: &[u8]) -> Packet {
    let mut chunks = payload.chunks(1000).map(|chunk| {
        let mut packet = pool.packet(chunk.len() as u32).unwrap();
        packet.bytes_mut().copy_from_slice(chunk);
        packet
    });
    let mut head = chunks.next().unwrap();
    chunks.for_each(|chunk| head.append(chunk).unwrap());
    head
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.chunks().flatten().copied().collect()
}

#[test]
fn header_put_in_front_then_the_device_gets_all_in_order() {
    let pool = pool(64);
    let (gate, control) = Gate::new(64);
    let queue: TxQueue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("test").unwrap();
    for chunks in [1, 3] {
        let payload: Vec<u8> = (0..chunks * 1000).map(|at| at as u8).collect();
        let mut packet = packet(&pool, &payload);
        let before = packet.headroom();
        packet.prepend(headers().len_bytes()).unwrap().fill(7);
        assert_eq!((packet.headroom(), packet.len()), (before - 42, payload.len() + 42));
        packet.trim_front(2).unwrap();
        assert_eq!(bytes(&packet), [&[7; 40][..], &payload].concat());
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
    }
    control.allowed.store(usize::MAX / 2, std::sync::atomic::Ordering::SeqCst);
    drop(sender);
    assert!(queue.drain(Duration::MAX));
    assert_eq!(queue.counters().bytes.get(), 1040 + 3040);
    assert_conserved(&queue);
}

#[test]
fn no_room_in_front_then_nothing_changes() {
    let pool = pool(16);
    for payload in [vec![1; 100], vec![1; 1100]] {
        let mut packet = packet(&pool, &payload);
        let max_bytes = packet.headroom();
        for bytes in [max_bytes + 1, usize::MAX] {
            assert_eq!(packet.prepend(bytes), Err(NoRoom { bytes, max_bytes }));
        }
        let first = if payload.len() > 1000 { 999 } else { 100 };
        let refused = packet.trim_front(first + 1).unwrap_err();
        assert_eq!(refused.max_bytes, first, "{refused}");
        assert_eq!(bytes(&packet), payload);
        packet.prepend(max_bytes).unwrap().fill(3);
        packet.prepend(1).unwrap_err();
        packet.trim_front(max_bytes + first).unwrap();
        assert_eq!(packet.len(), payload.len() - first);
    }
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn checksum_left_to_the_device_then_finished_behind_another_header() {
    let pool = pool(16);
    let mut packet = packet(&pool, &[5; 142]);
    let start = headers().write_partial(packet.bytes_mut(), 3).unwrap();
    let mut whole = packet.bytes().to_vec();
    assert!(complete(&mut whole, start, UDP_OFFSET));
    let (checksum_start, checksum_offset) = (start as u16, UDP_OFFSET as u16);
    packet.set_meta(&Meta { needs_checksum: true, checksum_start, checksum_offset, ..Meta::default() });
    packet.prepend(20).unwrap().fill(9);
    assert!(packet.finish_checksum() && !packet.meta().needs_checksum);
    assert_eq!(packet.bytes()[20..], whole);
    assert!(packet.finish_checksum(), "there is nothing to do");
    packet.set_meta(&Meta {
        needs_checksum: true,
        checksum_start: 161,
        checksum_offset: 6,
        ..Meta::default()
    });
    assert!(!packet.finish_checksum());
}

#[test]
fn super_packet_then_its_segments_are_packets() {
    let pool = pool(32);
    let mut cache = pool.cache("segments").unwrap();
    let payload: Vec<u8> = (0..42 + 2500).map(|at| (at * 7) as u8).collect();
    for (moved, gso_bytes) in [(0, 1000), (14, 700), (0, 3000)] {
        let mut packet = packet(&pool, &payload);
        // The headers lie in the first chunk; those of a packet whose start was moved, too.
        packet.trim_front(moved).unwrap();
        packet.prepend(moved).unwrap();
        let mut whole = bytes(&packet);
        headers().write(&mut whole, 5).unwrap();
        packet.head_mut()[..42].copy_from_slice(&whole[..42]);
        packet.set_meta(&Meta { gso_bytes, gso_kind: GSO_UDP, ..Meta::default() });
        let plan = GsoPlan::new(&whole, GSO_UDP, gso_bytes).unwrap();
        let want = (0..plan.segments()).map(|at| {
            let mut segment = vec![0; plan.segment_bytes(at)];
            plan.write(&whole, at, &mut segment);
            segment
        });
        let made: Vec<_> =
            packet.segments(&mut cache).unwrap().map(|segment| bytes(&segment.unwrap())).collect();
        assert_eq!(made, want.collect::<Vec<_>>());
    }
    let plain = packet(&pool, &payload);
    let copies: Vec<_> = plain.segments(&mut cache).unwrap().map(|copy| bytes(&copy.unwrap())).collect();
    assert_eq!(copies, [payload]);
    let mut odd = packet(&pool, &[0; 60]);
    odd.set_meta(&Meta { gso_bytes: 10, gso_kind: 3, ..Meta::default() });
    assert_eq!(odd.segments(&mut cache).unwrap_err().reason(), "gso-kind");
}

#[test]
fn segments_have_the_times_of_their_packet() {
    let (pool, times) = (pool(32), Times { depart_ns: 7, expire_ns: 9 });
    let mut cache = pool.cache("segments").unwrap();
    // Segments of one buffer, segments that are chains, a copy.
    for (gso_bytes, count) in [(700, 4), (2000, 2), (0, 1)] {
        let mut whole = [1; 42 + 2500];
        headers().write(&mut whole, 5).unwrap();
        let mut packet = packet(&pool, &whole);
        packet.depart_at_ns(times.depart_ns);
        packet.expire_at_ns(times.expire_ns);
        packet.set_meta(&Meta { gso_bytes, gso_kind: GSO_UDP, ..Meta::default() });
        let segments = packet.segments(&mut cache).unwrap().map(|segment| Burst::from(segment.unwrap()));
        let made: Vec<_> = segments.map(|burst| pool.region().times(&burst.frames()[0]).unwrap()).collect();
        assert_eq!(made, vec![times; count]);
    }
}

#[test]
fn memory_runs_out_then_segments_go_on_later() {
    let pool = pool(8);
    let mut cache = pool.cache("segments").unwrap();
    let mut packet = packet(&pool, &[1; 1000]);
    headers().write(packet.bytes_mut(), 0).unwrap();
    packet.set_meta(&Meta { gso_bytes: 100, gso_kind: GSO_UDP, ..Meta::default() });
    let mut segments = packet.segments(&mut cache).unwrap();
    let mut held = Vec::new();
    let full = loop {
        match segments.next() {
            Some(Ok(segment)) => held.push(segment),
            other => break other,
        }
    };
    assert!(matches!(full, Some(Err(PoolError::Exhausted { .. }))), "{full:?}");
    let mut count = held.len();
    held.clear();
    for segment in segments {
        segment.unwrap();
        count += 1;
    }
    assert_eq!(count, 10);
    drop(packet);
    drop(cache);
    assert_eq!(pool.audit().out(), 0);
}
