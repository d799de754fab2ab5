//! Virtqueues that are not enabled: what is in them waits, or is counted. And frames for a driver that takes
//! none.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::*;
use super::rig::{Rig, until};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use wharf_core::device::{Device, Notify, RxDevice, TxDevice};
use wharf_devices::virtio::feature;
use wharf_mem::Meta;

const PLAIN: [u8; HEADER_BYTES] = [0; HEADER_BYTES];
const SOON: Option<Duration> = Some(Duration::ZERO);
const LATE: Option<Duration> = Some(Duration::from_secs(3600));

fn connected(name: &str, features: u64) -> (Rig, Peer) {
    let rig = Rig::new(&format!("{name}-{features:x}"), 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(features);
    assert!(peer.share());
    (rig, peer)
}

fn drops(rig: &mut Rig) -> Vec<(&'static str, u64)> {
    let mut drops = Vec::new();
    rig.device.drops(&mut |reason, count| drops.push((reason, count)));
    drops
}

fn transmit(rig: &mut Rig, count: u8) {
    let frames: Vec<_> = (0..count).map(|number| rig.frame(&[number; 60], Meta::default())).collect();
    assert_eq!(rig.transmit(frames), 0);
    rig.reap();
}

#[test]
fn frames_of_a_virtqueue_that_was_not_enabled_yet_wait_until_it_is() {
    for features in [0, feature::EVENT_IDX, feature::PACKED] {
        let (mut rig, mut peer) = connected("waits", features);
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        assert!(pair.send(&peer, &PLAIN, &[1; 60], 1));
        assert_eq!(rig.receive().len(), 1);
        for round in 2..6u8 {
            // The driver left frames behind, and the machine is stopped, or the device was opened anew.
            let base = match round % 2 {
                0 => {
                    assert!(peer.tell(SET_VRING_ENABLE, &state(1, 0), &[]));
                    let base = peer.ask(GET_VRING_BASE, &state(1, 0)).unwrap();
                    u32::from_ne_bytes(base[4..].try_into().unwrap())
                }
                _ => {
                    let mut again = peer.again(&rig.socket.path());
                    drop(peer);
                    again.negotiate(features);
                    assert!(again.share());
                    peer = again;
                    if features & feature::PACKED != 0 { 0x8000_8000 } else { 0 }
                }
            };
            assert!(pair.send(&peer, &PLAIN, &[round; 60], 1));
            assert!(peer.announce(1, 64 << 10, &pair.send_queue, base));
            pair.send_queue.kick.signal();
            for _ in 0..8 {
                assert_eq!(rig.receive(), [], "{features:#x}: round {round}");
            }
            assert!(rig.device.arm(), "{features:#x}: a poller may sleep");
            rig.device.disarm();
            assert!(peer.tell(SET_VRING_ENABLE, &state(1, 1), &[]));
            let came: Vec<_> = rig.receive().into_iter().map(|(bytes, _)| bytes).collect();
            assert_eq!(came, [vec![round; 60]], "{features:#x}: {:?}", rig.errors);
        }
        assert_eq!((drops(&mut rig), rig.errors.len()), (vec![], 0));
        rig.end();
    }
}

#[test]
fn frames_of_a_virtqueue_that_was_switched_off_are_counted() {
    for features in [0, feature::PACKED] {
        let (mut rig, mut peer) = connected("off", features);
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        for _ in 0..5 {
            assert!(pair.send(&peer, &PLAIN, &[1; 60], 1));
        }
        // A pause of the machine: nothing is lost.
        let since = Instant::now();
        assert!(peer.tell(SET_VRING_ENABLE, &state(1, 0), &[]));
        assert_eq!(rig.receive(), []);
        if since.elapsed() < Duration::from_secs(1) {
            assert_eq!(drops(&mut rig), []);
            assert!(peer.tell(SET_VRING_ENABLE, &state(1, 1), &[]));
            assert_eq!(rig.receive().len(), 5);
            assert!(peer.tell(SET_VRING_ENABLE, &state(1, 0), &[]));
            (0..5).for_each(|_| assert!(pair.send(&peer, &PLAIN, &[1; 60], 1)));
        }
        until(|| rig.receive().is_empty() && drops(&mut rig) == [("not-enabled", 5)]);
        assert!(pair.send.next_used().unwrap().is_some() && rig.device.arm(), "{features:#x}");
        rig.end();
    }
}

#[test]
fn a_ring_whose_driver_does_not_notify_is_polled() {
    for index in [0, 1] {
        let (mut rig, mut peer) = connected("mute", 0);
        let pair = Pair::new(&mut peer, 0, 16, 2048);
        assert!(rig.device.arm());
        rig.device.disarm();
        // Bit 8: no event comes with it.
        assert!(peer.tell(SET_VRING_KICK, &words(&[1 << 8 | index]), &[]));
        assert_eq!(rig.device.arm(), index == 0, "nothing waits for its buffers");
        rig.device.disarm();
        transmit(&mut rig, 1);
        assert!(!rig.device.arm());
        drop((peer, pair));
        rig.end();
    }
}

#[test]
fn a_ring_is_enabled_from_the_start_without_protocol_features() {
    [feature::VERSION_1, 0].into_iter().for_each(is_enabled_from_the_start);
}

fn is_enabled_from_the_start(features: u64) {
    let mut rig = Rig::new(&format!("legacy-{features:x}"), 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.features = features;
    peer.send(SET_FEATURES, &words(&[peer.features]), &[]);
    let fd = peer.fd();
    peer.send(SET_MEM_TABLE, &table(&[[GUEST, MEMORY_BYTES as u64, USER, 0]]), &[fd]);
    let mut pair = Pair::unannounced(&peer, 0, 16, 2048);
    peer.announce_mute(1, 64 << 10, &pair.send_queue);
    assert!(pair.send(&peer, &PLAIN, &[9; 60], 1));
    let mut came = Vec::new();
    until(|| {
        came.extend(rig.receive());
        came.len() == 1
    });
    rig.end();
}

#[test]
fn frames_for_a_driver_that_is_not_there_fail_only_if_they_may() {
    let mut rig = Rig::new("absent", 1);
    transmit(&mut rig, 5);
    assert_eq!((rig.device.outstanding(), rig.device.next_completion_ns()), (5, Some(u64::MAX)));
    assert!(rig.device.link().is_some_and(|link| link.is_err()));
    rig.device.set_patience(LATE);
    rig.reap();
    assert_eq!(rig.device.outstanding(), 5);
    assert!(rig.device.next_completion_ns().is_some_and(|due_ns| due_ns < u64::MAX));
    rig.device.set_patience(SOON);
    rig.reap();
    assert_eq!((rig.failed.drain(..).collect::<Vec<_>>(), rig.sent), (vec!["not-enabled"; 5], 0));
    // Those that come now do not wait; also when a driver has connected, and enabled nothing.
    transmit(&mut rig, 3);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    transmit(&mut rig, 3);
    assert_eq!(rig.failed.drain(..).collect::<Vec<_>>(), ["not-enabled"; 6]);
    let down = rig.device.link().unwrap().unwrap_err().to_string();
    assert!(
        down.contains("no virtqueue of its driver is enabled: its machine boots, or is paused"),
        "{down}"
    );
    // Once it is, they go, and wait for its buffers.
    let mut pair = Pair::new(&mut peer, 0, 8, 2048);
    assert!(rig.device.link().is_some_and(|link| link.is_ok()));
    transmit(&mut rig, 4);
    assert_eq!(rig.device.outstanding(), 4);
    pair.post(8);
    rig.reap();
    assert_eq!((rig.sent, rig.failed.len(), rig.device.outstanding()), (4, 0, 0));
    rig.end();
}

#[test]
fn frames_that_waited_for_a_paused_driver_are_too_old_only_if_they_may_be() {
    for (features, patience) in
        [0, feature::PACKED].map(|features| [None, LATE, SOON].map(|patience| (features, patience))).concat()
    {
        let (mut rig, mut peer) = connected(&format!("paused-{patience:?}"), features);
        rig.device.set_patience(patience);
        let mut pair = Pair::new(&mut peer, 0, 8, 2048);
        transmit(&mut rig, 5);
        // The poller sleeps until a kick, more than once.
        for _ in 0..2 {
            assert!(rig.device.arm());
            rig.device.disarm();
            rig.reap();
            assert_eq!(rig.device.outstanding(), 5);
        }
        assert_eq!(rig.device.next_completion_ns(), Some(u64::MAX));
        pair.post(8);
        rig.reap();
        let (sent, failed) = if patience == SOON { (0, 5) } else { (5, 0) };
        assert_eq!((rig.sent, rig.failed.len()), (sent, failed), "{patience:?}");
        assert!(rig.failed.iter().all(|reason| *reason == "ring-full"));
        transmit(&mut rig, 2);
        assert_eq!((rig.sent, rig.failed.len()), (sent + 2, failed), "what comes afterwards is fresh");
        rig.end();
    }
}

#[test]
fn a_device_whose_only_ring_broke_the_rules_is_down() {
    let (mut rig, mut peer) = connected("only", 0);
    let pair = Pair::unannounced(&peer, 0, 16, 2048);
    assert!(peer.set_up(1, 64 << 10, &pair.send_queue, 0));
    assert!(rig.device.link().is_some_and(|link| link.is_ok()));
    // The available index.
    pair.send_queue.place.areas()[1].store_u16(2, 999);
    assert_eq!(rig.receive(), []);
    assert!(rig.device.link().is_some_and(|link| link.is_err()));
    rig.end();
}

#[test]
fn a_line_that_is_taken_down_has_no_peer_and_frames_fail_by_name() {
    let (mut rig, mut peer) = connected("line", 0);
    let pair = Pair::new(&mut peer, 0, 16, 2048);
    assert!(rig.device.link().is_some_and(|link| link.is_ok()));
    assert!(rig.device.set_line(false));
    assert!(peer.is_closed());
    until(|| UnixStream::connect(rig.socket.path()).is_err());
    let down = rig.device.link().unwrap().unwrap_err().to_string();
    assert!(down.contains("its line was taken down"), "{down}");
    transmit(&mut rig, 3);
    assert_eq!(rig.failed.drain(..).collect::<Vec<_>>(), ["link-down"; 3]);
    assert!(rig.device.set_line(true));
    until(|| UnixStream::connect(rig.socket.path()).is_ok());
    drop((peer, pair));
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 16, 2048);
    pair.post(8);
    transmit(&mut rig, 2);
    until(|| {
        rig.reap();
        rig.sent == 2
    });
    assert_eq!((rig.errors.len(), rig.failed.len()), (0, 0), "{:?}", rig.errors);
    rig.end();
}

#[test]
fn a_driver_that_has_a_new_device_is_told_of_the_first_used_buffer_whatever_it_asks_for() {
    for features in [0, feature::EVENT_IDX, feature::PACKED, feature::PACKED | feature::EVENT_IDX] {
        let (mut rig, mut peer) = connected("owed", features);
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        pair.post(8);
        assert!(pair.send(&peer, &PLAIN, &[1; 60], 1));
        transmit(&mut rig, 1);
        assert_eq!(rig.receive().len(), 1);
        let mut again = peer.again(&rig.socket.path());
        drop(peer);
        again.negotiate(features);
        assert!(again.share());
        pair.send.disable_notification();
        pair.receive.disable_notification();
        let base = if features & feature::PACKED != 0 { 0x8001_8001 } else { 1 };
        assert!(pair.set_up(&mut again, 0, base));
        // What came before the event may have been told by none: it is signalled at once.
        assert!(pair.send_queue.call.clear() && pair.receive_queue.call.clear());
        for is_first in [true, false] {
            assert!(pair.send(&again, &PLAIN, &[2; 60], 1));
            transmit(&mut rig, 1);
            assert_eq!(rig.receive().len(), 1);
            let told = [&pair.send_queue.call, &pair.receive_queue.call].map(|call| call.clear());
            // With an event index, a request of the round before looks like one for a buffer that comes late.
            assert!(told == [is_first; 2] || features == feature::EVENT_IDX, "{features:#x}: {told:?}");
            assert!(told == [true; 2] || !is_first, "{features:#x}: {told:?}");
        }
        rig.end();
    }
}
