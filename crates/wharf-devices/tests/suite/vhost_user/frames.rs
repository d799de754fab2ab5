//! Frames both ways, with drivers that keep the rules.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::{
    GET_VRING_BASE, Peer, SET_FEATURES, SET_PROTOCOL_FEATURES, SET_VRING_ENABLE, state, words,
};
use super::rig::{Rig, until};
use etherparse::PacketBuilder;
use wharf_core::device::{Notify, RxDevice, TxDevice};
use wharf_devices::virtio::feature;
use wharf_mem::Meta;
use wharf_packet::gso::GSO_TCPV4;
use wharf_testkit::content::content;
use wharf_testkit::threads::within_a_minute;

const ALL: u64 = !0;
const PLAIN: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// Features that drivers agree upon.
fn drivers() -> Vec<u64> {
    let packed = feature::PACKED;
    vec![
        0,
        feature::MRG_RXBUF,
        ALL & !packed & !feature::IN_ORDER,
        ALL & !packed,
        packed,
        packed | feature::MRG_RXBUF | feature::EVENT_IDX,
        ALL & !feature::IN_ORDER,
        ALL,
    ]
}

fn bytes(number: u32, len: usize) -> Vec<u8> {
    content(1, number, len).collect()
}

#[test]
fn frames_arrive_both_ways_whatever_is_agreed_upon() {
    within_a_minute(|| {
        for (turn, features) in drivers().into_iter().enumerate() {
            let mut rig = Rig::new(&format!("both-{turn}"), 1);
            let mut peer = Peer::connect(&rig.socket.path());
            peer.negotiate(features);
            assert!(peer.share());
            let mut pair = Pair::new(&mut peer, 0, 16, 2048);
            // Often round a ring of 16.
            for round in 0..40u32 {
                pair.post(16);
                let lens = [60, 64, 1514, 100 + round as usize];
                let frames: Vec<_> = lens.map(|len| rig.frame(&bytes(round, len), Meta::default())).into();
                assert_eq!(rig.transmit(frames), 0);
                rig.reap();
                for len in lens {
                    let frame = pair.next(&peer).unwrap();
                    assert_eq!(frame[HEADER_BYTES..], bytes(round, len)[..], "{features:#x}");
                    assert_eq!(frame[..10], [0; 10]);
                }
                assert_eq!(pair.next(&peer), None);
                for (at, len) in lens.into_iter().enumerate() {
                    assert!(pair.send(&peer, &PLAIN, &bytes(round, len), 1 + at));
                }
                let came: Vec<Vec<u8>> = rig.receive().into_iter().map(|(bytes, _)| bytes).collect();
                assert_eq!(came, lens.map(|len| bytes(round, len)), "{features:#x}");
            }
            assert_eq!((rig.sent, rig.failed.len(), rig.errors.len()), (160, 0, 0));
            rig.end();
        }
    });
}

#[test]
fn a_driver_without_buffers_makes_frames_wait_and_its_kick_is_seen() {
    for features in [ALL, ALL & !feature::PACKED, feature::PACKED, 0] {
        let mut rig = Rig::new(&format!("wait-{features:x}"), 1);
        let first: Vec<_> = (0..5).map(|number| rig.frame(&bytes(number, 60), Meta::default())).collect();
        assert_eq!(rig.transmit(first), 0, "there is no driver yet");
        rig.reap();
        assert_eq!((rig.sent, rig.device.outstanding()), (0, 5));
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 8, 2048);
        pair.post(2);
        rig.reap();
        assert_eq!((rig.sent, rig.device.outstanding()), (2, 3));
        assert!(rig.device.arm(), "there is nothing to be done");
        let wait = wharf_sys::epoll::Epoll::new().unwrap();
        wait.add(rig.device.wait_fd().unwrap(), 1, true).unwrap();
        wait.take_events(|_| {});
        pair.post(8);
        let mut told = 0;
        wait.take_events(|_| told += 1);
        assert_eq!(told, 1, "{features:#x}: the kick");
        rig.device.disarm();
        rig.reap();
        assert_eq!((rig.sent, rig.device.outstanding()), (5, 0));
        for number in 0..5 {
            assert_eq!(pair.next(&peer).unwrap()[HEADER_BYTES..], bytes(number, 60)[..]);
        }
        // More frames than there are buffers and room: the rest comes back.
        let many: Vec<_> = (0..256).map(|number| rig.frame(&bytes(number, 60), Meta::default())).collect();
        rig.transmit(many);
        assert_eq!(rig.device.outstanding(), 256);
        let over = [rig.frame(&bytes(0, 60), Meta::default())];
        assert_eq!(rig.transmit(over), 1);
        rig.end();
    }
}

#[test]
fn a_virtqueue_that_starts_while_its_device_polls_asks_for_no_kicks() {
    let split = ALL & !feature::PACKED & !feature::EVENT_IDX;
    for (features, is_armed) in
        [split, ALL, ALL & !feature::EVENT_IDX].map(|features| [(features, false), (features, true)]).concat()
    {
        let mut rig = Rig::new(&format!("quiet-{features:x}-{is_armed}"), 1);
        if is_armed {
            rig.device.arm();
        }
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 8, 2048);
        pair.send_queue.kick.clear();
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &bytes(0, 60), 1));
        assert_eq!(pair.send_queue.kick.clear(), is_armed, "{features:#x}");
        assert_eq!(rig.receive().len(), 1);
        assert!(rig.device.arm());
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &bytes(1, 60), 1));
        assert!(pair.send_queue.kick.clear(), "{features:#x}");
        assert_eq!(rig.receive().len(), 1);
        rig.end();
    }
}

/// A TCP packet of `len` bytes of payload.
fn tcp(len: usize) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 1000, 500);
    let mut packet = Vec::new();
    builder.write(&mut packet, &content(3, 7, len).collect::<Vec<u8>>()).unwrap();
    packet
}

fn super_packet() -> Meta {
    Meta {
        gso_bytes: 1000,
        gso_kind: GSO_TCPV4,
        needs_checksum: true,
        checksum_start: 34,
        checksum_offset: 16,
        ..Meta::default()
    }
}

#[test]
fn a_super_packet_with_a_congestion_flag_is_segmented_for_a_driver_that_has_no_bit_for_it() {
    let takes = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::MRG_RXBUF;
    for (features, wanted) in [(takes, vec![0; 5]), (takes | feature::GUEST_ECN, vec![0x81])] {
        let mut rig = Rig::new(&format!("ecn-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert_eq!(peer.features & takes, takes);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 1200);
        pair.post(16);
        let mut packet = tcp(4500);
        // CWR.
        packet[47] |= 0x80;
        let frames = [rig.frame(&packet, super_packet())];
        assert_eq!(rig.transmit(frames), 0);
        rig.reap();
        let got: Vec<Vec<u8>> = std::iter::from_fn(|| pair.next(&peer)).collect();
        assert_eq!(got.iter().map(|frame| frame[1]).collect::<Vec<_>>(), wanted, "{features:#x}");
        let flags = got.iter().map(|frame| frame[HEADER_BYTES + 47] & 0x80 != 0);
        assert_eq!(flags.filter(|has_cwr| *has_cwr).count(), 1);
        rig.end();
    }
}

#[test]
fn super_packets_go_whole_if_negotiated_and_are_segmented_otherwise() {
    let takes = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::MRG_RXBUF;
    for (features, is_whole) in
        [(takes, true), (takes | feature::PACKED, true), (0, false), (feature::PACKED, false)]
    {
        let mut rig = Rig::new(&format!("gso-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 1200);
        pair.post(3);
        let packet = tcp(4500);
        let frames = [rig.frame(&packet, super_packet())];
        assert_eq!(rig.transmit(frames), 0);
        rig.reap();
        assert_eq!(rig.sent, 0, "three buffers are not enough");
        let mut got = Vec::new();
        got.extend(std::iter::from_fn(|| pair.next(&peer)));
        assert_eq!(got.len(), if is_whole { 0 } else { 3 });
        pair.post(16);
        rig.reap();
        assert_eq!(rig.sent, 1);
        got.extend(std::iter::from_fn(|| pair.next(&peer)));
        if is_whole {
            assert_eq!((got.len(), &got[0][HEADER_BYTES..]), (1, &packet[..]));
            // NEEDS_CSUM, TCPV4, 54 bytes of headers, segments of 1000, checksum at 34 + 16, four buffers.
            assert_eq!(got[0][..12], [1, 1, 54, 0, 0xe8, 3, 34, 0, 16, 0, 4, 0]);
        } else {
            assert_eq!(got.len(), 5);
            let payload: Vec<u8> = got.iter().flat_map(|frame| frame[HEADER_BYTES + 54..].to_vec()).collect();
            assert_eq!(payload, packet[54..]);
            for frame in &got {
                assert_eq!(frame[..10], [0; 10]);
                let sliced = etherparse::SlicedPacket::from_ethernet(&frame[HEADER_BYTES..]).unwrap();
                let Some(etherparse::TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
                let Some(etherparse::NetSlice::Ipv4(ip)) = sliced.net else { panic!("no IPv4") };
                let (from, to) = (ip.header().source(), ip.header().destination());
                assert_eq!(tcp.calc_checksum_ipv4(from, to).unwrap(), tcp.checksum());
            }
        }
        rig.end();
    }
}

#[test]
fn a_driver_that_agrees_on_super_packets_meanwhile_gets_all_of_each() {
    let takes = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::MRG_RXBUF;
    let mut rig = Rig::new("gso-later", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(feature::MRG_RXBUF);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 16, 1200);
    let packet = tcp(4500);
    let lens = |rig: &mut Rig, pair: &mut Pair, peer: &Peer, buffers: usize| -> Vec<usize> {
        pair.post(buffers);
        rig.reap();
        std::iter::from_fn(|| pair.next(peer)).map(|frame| frame.len() - HEADER_BYTES - 54).collect()
    };
    let frames = [rig.frame(&packet, super_packet())];
    assert_eq!(rig.transmit(frames), 0);
    assert_eq!(lens(&mut rig, &mut pair, &peer, 2), [1000; 2]);
    for (features, expected) in [(takes, vec![4500]), (feature::MRG_RXBUF, vec![1000, 1000, 1000, 1000, 500])]
    {
        let features = words(&[peer.features & !takes | features]);
        assert!(peer.tell(SET_FEATURES, &features, &[]));
        for index in [0, 1] {
            assert!(peer.tell(SET_VRING_ENABLE, &state(index, 1), &[]));
        }
        // As many buffers as it takes, whole or not: the next one waits.
        let buffers = expected.len().max(4);
        assert_eq!(lens(&mut rig, &mut pair, &peer, buffers), expected);
        let frames = [rig.frame(&packet, super_packet())];
        assert_eq!(rig.transmit(frames), 0);
    }
    rig.end();
}

#[test]
fn requests_of_a_driver_are_checked_and_kept() {
    let mut rig = Rig::new("asks", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(feature::CSUM | feature::HOST_TSO4);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 16, 2048);
    let packet = tcp(1700);
    let good = [1, 1, 54, 0, 0xe8, 3, 34, 0, 16, 0, 0, 0];
    assert!(pair.send(&peer, &good, &packet, 3));
    assert!(pair.send(&peer, &[1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0], &packet, 1));
    let came = rig.receive();
    assert_eq!(came[0], (packet.clone(), super_packet()));
    assert_eq!(came[1], (packet.clone(), Meta { gso_bytes: 0, gso_kind: 0, ..super_packet() }));
    let mut bad = vec![[1, 4, 54, 0, 0xe8, 3, 34, 0, 16, 0, 0, 0]; 6];
    bad[1][1] = 3; // a kind that there is not
    bad[2] = [1, 1, 54, 0, 0, 0, 34, 0, 16, 0, 0, 0]; // segments of no bytes
    bad[3] = [1, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0]; // a checksum beyond the end
    bad[4] = [0, 1, 54, 0, 0xe8, 3, 34, 0, 16, 0, 0, 0]; // a super-packet without checksum
    bad[5][1] = 5; // UDP, which was not agreed upon
    for header in &bad {
        assert!(pair.send(&peer, header, &packet, 1));
    }
    assert!(pair.send(&peer, &PLAIN, &[1; 13], 1));
    assert_eq!(rig.receive(), []);
    let mut drops = Vec::new();
    rig.device.drops(&mut |reason, count| drops.push((reason, count)));
    assert_eq!(drops, [("malformed", 6), ("too-short", 1)]);
    assert!(pair.send(&peer, &PLAIN, &packet, 1), "all buffers came back");
    assert_eq!(rig.receive().len(), 1);
    rig.end();
}

#[test]
fn a_header_by_which_a_driver_may_ask_for_nothing_is_not_read() {
    for features in [0, feature::PACKED] {
        let mut rig = Rig::new(&format!("may-not-ask-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        let packet = tcp(1700);
        // In one buffer, and in three.
        for parts in [1, 3] {
            assert!(pair.send(&peer, &[1, 1, 54, 0, 0xe8, 3, 34, 0, 16, 0, 0, 0], &packet, parts));
            assert_eq!(rig.receive(), [(packet.clone(), Meta::default())]);
        }
        rig.end();
    }
}

#[test]
fn several_pairs_keep_flows_together_and_one_switched_off_is_left() {
    for features in [feature::MQ, feature::MQ | feature::PACKED] {
        let mut rig = Rig::new(&format!("pairs-{features:x}"), 2);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pairs = [0, 1].map(|number| Pair::new(&mut peer, number, 64, 2048));
        pairs.iter_mut().for_each(|pair| pair.post(64));
        let flow = |flow: u8| {
            let builder =
                PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, flow], [10, 0, 0, 2], 64).udp(1, 2);
            let mut packet = Vec::new();
            builder.write(&mut packet, &[flow; 32]).unwrap();
            packet
        };
        let frames: Vec<_> = (0..40).map(|number| rig.frame(&flow(number % 10), Meta::default())).collect();
        assert_eq!(rig.transmit(frames), 0);
        until(|| {
            rig.reap();
            rig.sent == 40
        });
        let by_pair = pairs.each_mut().map(|pair| {
            let frames = std::iter::from_fn(|| pair.next(&peer)).map(|frame| frame[HEADER_BYTES + 42]);
            let mut flows: Vec<u8> = frames.collect();
            flows.sort_unstable();
            flows.dedup();
            flows
        });
        assert!(by_pair.iter().all(|flows| !flows.is_empty()), "both are used: {by_pair:?}");
        assert_eq!(by_pair.iter().map(Vec::len).sum::<usize>(), 10, "no flow by both: {by_pair:?}");
        // Frames arrive by any pair.
        for (number, pair) in pairs.iter_mut().enumerate() {
            assert!(pair.send(&peer, &PLAIN, &flow(number as u8), 1));
        }
        let came: Vec<_> = std::iter::repeat_with(|| rig.receive()).take(2).flatten().collect();
        assert_eq!(came.len(), 2);
        // The second is switched off: frames go by the first, and frames that it sends are discarded.
        for index in [2, 3] {
            assert!(peer.tell(SET_VRING_ENABLE, &state(index, 0), &[]));
        }
        pairs[0].post(64);
        let frames: Vec<_> = (0..10).map(|number| rig.frame(&flow(number), Meta::default())).collect();
        assert_eq!(rig.transmit(frames), 0);
        until(|| {
            rig.reap();
            rig.sent == 50
        });
        assert_eq!(std::iter::from_fn(|| pairs[0].next(&peer)).count(), 10);
        assert!(pairs[1].send(&peer, &PLAIN, &flow(1), 1));
        assert_eq!(rig.receive(), []);
        until(|| rig.receive().is_empty() && pairs[1].send.next_used().unwrap().is_some());
        rig.end();
    }
}

#[test]
fn a_ring_goes_on_where_it_was_after_a_stop_or_another_connection() {
    for features in [0, feature::MRG_RXBUF | feature::EVENT_IDX, feature::PACKED, ALL] {
        let mut rig = Rig::new(&format!("again-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        let mut number = 0;
        for round in 0..12 {
            // Frames one way and the other, chains of several descriptors among them.
            for _ in 0..1 + round % 7 {
                pair.post(16);
                let frames = [rig.frame(&bytes(number, 80), Meta::default())];
                assert_eq!(rig.transmit(frames), 0);
                rig.reap();
                assert_eq!(pair.next(&peer).unwrap()[HEADER_BYTES..], bytes(number, 80)[..]);
                assert!(pair.send(&peer, &PLAIN, &bytes(number, 70), 1 + number as usize % 3));
                assert_eq!(rig.receive().len(), 1);
                number += 1;
            }
            // One more frame, not received yet.
            assert!(pair.send(&peer, &PLAIN, &bytes(number, 90), 2));
            if round % 2 == 0 {
                let bases = [0, 1].map(|index| peer.ask(GET_VRING_BASE, &state(index, 0)).unwrap());
                let bases = bases.map(|reply| u32::from_ne_bytes(reply[4..].try_into().unwrap()));
                assert!(peer.set_up(0, 0, &pair.receive_queue, bases[0]));
                assert!(peer.set_up(1, 64 << 10, &pair.send_queue, bases[1]));
            } else {
                // Like QEMU 7.2, the driver sets the rings up at their beginning.
                let mut again = peer.again(&rig.socket.path());
                drop(peer);
                again.negotiate(features);
                assert!(again.share());
                assert!(pair.set_up(
                    &mut again,
                    0,
                    if features & feature::PACKED != 0 { 0x8000_8000 } else { 0 }
                ));
                peer = again;
            }
            let came = rig.receive();
            assert_eq!(came.len(), 1, "{features:#x}, round {round}: {:?}", rig.errors);
            assert_eq!(came[0].0, bytes(number, 90));
            number += 1;
        }
        rig.end();
    }
}

#[test]
fn virtqueues_may_be_enabled_before_features_are_agreed_upon() {
    let mut rig = Rig::new("early", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.send(SET_VRING_ENABLE, &state(0, 0), &[]); // as DPDK does, to a device that has come back
    peer.send(SET_PROTOCOL_FEATURES, &words(&[1 << 3]), &[]);
    for index in [0, 1] {
        assert!(peer.tell(SET_VRING_ENABLE, &state(index, 1), &[]), "as QEMU does");
    }
    peer.negotiate(0);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 8, 2048);
    assert!(pair.send(&peer, &PLAIN, &bytes(1, 80), 1));
    assert_eq!(rig.receive().len(), 1);
    rig.end();
}

#[test]
fn nothing_is_sent_before_an_answer_would_be_received() {
    let mut rig = Rig::new("answer", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 8, 2048);
    pair.post(8);
    assert!(peer.tell(SET_VRING_ENABLE, &state(1, 0), &[]));
    let frame = rig.frame(&bytes(0, 60), Meta::default());
    assert_eq!(rig.transmit([frame]), 0);
    rig.reap();
    assert_eq!((rig.sent, rig.device.outstanding()), (0, 1), "the driver's answer would be discarded");
    assert!(peer.tell(SET_VRING_ENABLE, &state(1, 1), &[]));
    rig.reap();
    assert_eq!((rig.sent, rig.device.outstanding()), (1, 0));
    assert!(pair.next(&peer).is_some());
    rig.end();
}
