//! Both ends of a packet: UDP headers in front, bytes behind, parts made one.

use proptest::prelude::*;
use wharf_core::pool::{Burst, NoRoom, Packet, PagePool};
use wharf_mem::Meta;
use wharf_packet::{Ecn, EthernetHeader, Front, IpHeader, UdpHeader, UdpHeaders};
use wharf_testkit::pool;

fn headers(is_ipv6: bool, vlan: Option<u16>) -> UdpHeaders {
    let ethernet = EthernetHeader { destination: [2; 6], source: [4; 6], vlan, ethertype: 0 };
    let ip = match is_ipv6 {
        true => IpHeader::new([1; 16].into(), [2; 16].into(), 0),
        false => IpHeader::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0),
    };
    UdpHeaders::new(ethernet, ip, UdpHeader { source: 7, destination: 9 }).unwrap()
}

/// Memory with room for the longest headers, and others in front.
fn roomy() -> PagePool {
    let pool = PagePool::builder().frames(512).frame_bytes(4096).headroom_bytes(128);
    pool.huge_pages(false).build().unwrap()
}

/// A packet of `payload`, in parts of the lengths `parts`, again and again.
fn packet(pool: &PagePool, mut payload: &[u8], parts: &[usize]) -> Packet {
    let mut whole: Option<Packet> = None;
    for part in parts.iter().cycle() {
        let (chunk, left) = payload.split_at((*part).min(payload.len()));
        let mut packet = pool.packet(chunk.len() as u32).unwrap();
        packet.bytes_mut().copy_from_slice(chunk);
        match &mut whole {
            Some(whole) => whole.append(packet).unwrap(),
            None => whole = Some(packet),
        }
        payload = left;
        if payload.is_empty() {
            break;
        }
    }
    whole.unwrap()
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.chunks().flatten().copied().collect()
}

proptest! {
    #[test]
    fn headers_put_then_they_are_those_of_the_bytes_in_one_piece(
        payload in prop::collection::vec(any::<u8>(), 0..4000), parts in prop::collection::vec(9usize..1400, 1..4),
        is_ipv6: bool, vlan in prop::option::of(0u16..4096), identification: u16,
    ) {
        let (pool, headers) = (roomy(), headers(is_ipv6, vlan).ecn(Ecn::Ect0).identification(identification));
        let mut whole = [vec![0; headers.len_bytes()], payload.clone()].concat();
        headers.write(&mut whole, identification).unwrap();
        let mut packet = packet(&pool, &payload, &parts);
        headers.put(&mut packet).unwrap();
        prop_assert_eq!(bytes(&packet), &whole[..]);
        // The same inside a burst.
        packet.trim_front(headers.len_bytes()).unwrap_or_default();
        if packet.len() == payload.len() {
            let mut burst = Burst::from(packet);
            headers.put(&mut burst.packets_mut().next().unwrap()).unwrap();
            prop_assert_eq!(bytes(&burst.pop().unwrap()), whole);
        }
        prop_assert_eq!(pool.audit().out(), 0);
    }

    #[test]
    fn super_packet_is_cut_then_its_segments_are_the_packets_sent_one_by_one(
        payload in prop::collection::vec(any::<u8>(), 1..9000), parts in prop::collection::vec(100usize..1400, 1..4),
        is_ipv6: bool, vlan in prop::option::of(0u16..4096), segment_bytes in 100u16..1500, identification: u16,
    ) {
        let pool = roomy();
        let mut cache = pool.cache("segments").unwrap();
        let headers = headers(is_ipv6, vlan).dont_fragment();
        let mut all = packet(&pool, &payload, &parts);
        headers.identification(identification).put_segmented(&mut all, segment_bytes).unwrap();
        let cut: Vec<_> = all.segments(&mut cache).unwrap().map(|segment| bytes(&segment.unwrap())).collect();
        let one_by_one: Vec<_> = payload.chunks(segment_bytes.into()).zip(0u16..).map(|(chunk, at)| {
            let mut one = packet(&pool, chunk, &[1500]);
            headers.identification(identification.wrapping_add(at)).put(&mut one).unwrap();
            bytes(&one)
        }).collect();
        prop_assert_eq!(all.datagram().is_some(), cut.len() == 1 && !all.is_chain());
        prop_assert_eq!(cut, one_by_one);
    }

    #[test]
    fn chain_is_joined_if_it_fits(
        payload in prop::collection::vec(any::<u8>(), 1..2000), parts in prop::collection::vec(8usize..1400, 1..4), moved in 0usize..64,
    ) {
        let pool = pool(4096);
        let mut packet = packet(&pool, &payload, &parts);
        let moved = moved.min(packet.head().len().saturating_sub(1));
        packet.trim_front(moved).unwrap();
        packet.set_meta(&Meta { time_ns: 9, ..packet.meta() });
        let (left, max_bytes) = (&payload[moved..], 1536 - moved);
        let was_chain = packet.is_chain();
        match packet.join() {
            Ok(()) => {
                prop_assert_eq!((packet.bytes(), packet.headroom()), (left, 64 + moved));
                prop_assert_eq!(pool.audit().out(), 1, "the other parts are free");
                prop_assert_eq!(packet.extend_back(max_bytes - left.len()).map(|added| added.iter().all(|byte| *byte == 0)), Ok(true));
            }
            Err(error) => {
                prop_assert!(was_chain && left.len() > max_bytes);
                prop_assert_eq!(error, NoRoom { bytes: left.len(), max_bytes });
                prop_assert_eq!(bytes(&packet), left);
                prop_assert_eq!(packet.extend_back(1), Err(NoRoom { bytes: 1, max_bytes: 0 }));
            }
        }
        prop_assert_eq!(packet.meta().time_ns, 9);
    }
}

#[test]
fn no_room_then_nothing_changes() {
    let pool = pool(256);
    let mut short = packet(&pool, &[7; 100], &[100]);
    for bytes in [1437, usize::MAX] {
        assert_eq!(short.extend_back(bytes), Err(NoRoom { bytes, max_bytes: 1436 }));
    }
    short.prepend(60).unwrap();
    assert_eq!(headers(false, None).put(&mut short), Err(NoRoom { bytes: 42, max_bytes: 4 }));
    // Longer than IP's length.
    for (is_ipv6, most) in [(false, 65_507), (true, 65_527)] {
        let mut long = packet(&pool, &vec![1; most + 1], &[1400]);
        let (headers, refused) = (headers(is_ipv6, None), NoRoom { bytes: most + 1, max_bytes: most });
        assert_eq!(headers.put(&mut long), Err(refused));
        assert_eq!(headers.put_segmented(&mut long, 1000), Err(refused));
        assert_eq!((long.len(), long.meta()), (most + 1, Meta::default()));
    }
    let refused = NoRoom { bytes: 42, max_bytes: 4 }.to_string();
    assert_eq!(refused, "no room for 42 B: at most 4 B");
}

#[test]
fn inner_request_then_it_is_finished_before_the_headers_sum_it_up() {
    let pool = roomy();
    let (inner, outer) = (headers(true, None), headers(false, None));
    let mut tunnelled = packet(&pool, &[5; 900], &[1000]);
    inner.put_segmented(&mut tunnelled, 100).unwrap();
    let mut alone = packet(&pool, &[5; 900], &[1000]);
    inner.put(&mut alone).unwrap();
    let payload = bytes(&alone);
    outer.put(&mut alone).unwrap();
    assert_eq!(tunnelled.meta().gso_bytes, 100);
    // One datagram with a finished one inside.
    tunnelled.trim_front(0).unwrap();
    outer.put(&mut tunnelled).unwrap();
    assert_eq!(
        (bytes(&tunnelled), tunnelled.meta().gso_bytes, tunnelled.meta().needs_checksum),
        (bytes(&alone), 0, false)
    );
    assert_eq!(tunnelled.datagram().unwrap().payload, payload);
}

#[test]
fn answer_is_written_in_place_whatever_was_left_to_a_device() {
    let pool = pool(64);
    let headers = headers(false, Some(5));
    for unfinished in [false, true] {
        let mut question = packet(&pool, b"what?", &[5]);
        headers.put(&mut question).unwrap();
        // Padding of a short frame.
        question.extend_back(13).unwrap();
        if unfinished {
            let meta =
                Meta { needs_checksum: true, checksum_start: 38, checksum_offset: 6, ..Meta::default() };
            question.set_meta(&Meta { time_ns: 9, ..meta });
        }
        let (client, server) =
            question.datagram().map(|question| (question.source, question.destination)).unwrap();
        let answer = question.reply().unwrap();
        assert_eq!(question.bytes(), b"what?");
        question.extend_back(3).unwrap().copy_from_slice(b"yes");
        answer.put(&mut question).unwrap();
        let read = question.datagram().unwrap();
        assert_eq!((read.source, read.destination, read.payload), (server, client, &b"what?yes"[..]));
        assert!(!question.meta().needs_checksum);
        assert_eq!(Front::len_bytes(&question), 46 + 8);
        let mut burst = Burst::from(question);
        let lent = burst.packets_mut().next().unwrap();
        assert_eq!(lent.datagram().unwrap().payload, b"what?yes");
    }
    let mut chain = packet(&pool, &[1; 300], &[100]);
    headers.put(&mut chain).unwrap();
    assert!(chain.reply().is_none() && chain.datagram().is_none());
    chain.join().unwrap();
    assert_eq!(chain.datagram().map(|read| read.payload.len()), Some(300));
    let mut cut = packet(&pool, &[1; 300], &[300]);
    headers.put_segmented(&mut cut, 100).unwrap();
    assert!(cut.reply().is_none() && cut.datagram().is_none(), "it is three datagrams");
}
