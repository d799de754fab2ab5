//! Flows over queue pairs that a driver opens one by one.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::{Peer, SET_VRING_ENABLE, state};
use super::rig::{Rig, until};
use etherparse::PacketBuilder;
use std::time::{Duration, Instant};
use wharf_core::device::{Notify, TxDevice};
use wharf_devices::virtio::feature;
use wharf_mem::Meta;

const PAIRS: usize = 4;
const FLOWS: u8 = 8;

/// A packet of `flow`, with its number.
fn packet(flow: u8, number: u8) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, flow], [10, 0, 0, 2], 64).udp(1, 2);
    let mut packet = Vec::new();
    builder.write(&mut packet, &[flow, number]).unwrap();
    packet
}

fn transmit(rig: &mut Rig, number: u8) {
    let frames: Vec<_> = (0..FLOWS).map(|flow| rig.frame(&packet(flow, number), Meta::default())).collect();
    assert_eq!(rig.transmit(frames), 0);
    rig.reap();
}

/// Has a driver come back, and open its pairs under traffic. Returns each pair's flows and numbers, and the time
/// that it took to open them.
fn come_back(rig: &mut Rig, features: u64) -> (Vec<Vec<(u8, u8)>>, Duration) {
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(features);
    assert!(peer.share());
    transmit(rig, 0);
    let mut pairs: Vec<Pair> = (0..PAIRS).map(|at| Pair::unannounced(&peer, at as u32, 64, 256)).collect();
    let base = if features & feature::PACKED != 0 { 0x8000 } else { 0 };
    pairs.iter_mut().for_each(|pair| pair.post(64));
    for (at, pair) in (0..).zip(&pairs) {
        assert!(peer.announce(2 * at, at as usize * (1 << 20), &pair.receive_queue, base));
        assert!(peer.set_up(2 * at + 1, at as usize * (1 << 20) + (64 << 10), &pair.send_queue, base));
    }
    let since = Instant::now();
    for at in 0..PAIRS as u32 {
        assert!(peer.tell(SET_VRING_ENABLE, &state(2 * at, 1), &[]));
        transmit(rig, 1 + at as u8);
    }
    let took = since.elapsed();
    let count = usize::from(FLOWS) * (1 + PAIRS);
    let mut came = vec![Vec::new(); PAIRS];
    until(|| {
        rig.reap();
        for (pair, came) in pairs.iter_mut().zip(&mut came) {
            let next = std::iter::from_fn(|| pair.next(&peer));
            came.extend(next.map(|frame| (frame[HEADER_BYTES + 42], frame[HEADER_BYTES + 43])));
        }
        came.iter().map(Vec::len).sum::<usize>() == count
    });
    (came, took)
}

/// An application of the driver's may poll the first pair alone.
#[test]
fn a_pair_that_its_driver_does_not_serve_holds_up_no_other() {
    let mut rig = Rig::new("unserved", 2);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(feature::MQ);
    assert!(peer.share());
    let mut pairs = [0, 1].map(|at| Pair::new(&mut peer, at, 256, 256));
    pairs[0].post(256);
    until(|| {
        // Until flows go by both.
        transmit(&mut rig, 0);
        rig.sent > 0 && rig.device.outstanding() > 0
    });
    rig.device.set_patience(Some(Duration::ZERO));
    let [mut sent, mut failed] = [0; 2];
    for round in 1..100 {
        rig.device.arm();
        rig.device.disarm();
        transmit(&mut rig, round);
        rig.reap();
        assert!(rig.sent > sent, "round {round}");
        (sent, failed) = (rig.sent, rig.failed.len());
        while pairs[0].next(&peer).is_some() {}
        pairs[0].post(256);
    }
    assert!(sent > 100 && failed > 100, "{sent} {failed}");
    let outstanding = rig.device.outstanding();
    assert!(outstanding < 2 * usize::from(FLOWS), "{outstanding}");
    assert!(rig.failed.iter().all(|reason| *reason == "ring-full"), "{:?}", rig.failed);
    // Once it is served, fresh frames go.
    pairs[1].post(256);
    transmit(&mut rig, 100);
    rig.failed.clear();
    transmit(&mut rig, 101);
    assert_eq!((rig.failed.len(), rig.device.outstanding()), (0, 0));
    rig.end();
}

#[test]
fn flows_keep_their_ring_while_a_driver_opens_its_pairs() {
    for features in [feature::MQ, feature::MQ | feature::PACKED] {
        let mut rig = Rig::new(&format!("spread-{features:x}"), PAIRS as u16);
        let mut tries = 0..100;
        // Messages that come more than 5 ms after each other are several changes.
        let came = loop {
            assert!(tries.next().is_some(), "the machine is too slow");
            let (came, took) = come_back(&mut rig, features);
            if took < Duration::from_millis(4) {
                break came;
            }
        };
        for flow in 0..FLOWS {
            let numbers =
                |came: &Vec<(u8, u8)>| came.iter().filter(|one| one.0 == flow).map(|one| one.1).collect();
            let mut by_pair: Vec<Vec<u8>> = came.iter().map(numbers).collect();
            by_pair.retain(|numbers| !numbers.is_empty());
            assert_eq!(by_pair, [[0, 1, 2, 3, 4]], "{features:#x}: flow {flow}");
        }
        assert!(came.iter().filter(|flows| !flows.is_empty()).count() > 1);
        rig.end();
    }
}
