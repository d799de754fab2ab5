//! A poller with nothing to do sleeps, also while frames wait: for a driver that has not come, has no
//! virtqueue enabled, or takes nothing.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::{Peer, SET_VRING_ENABLE, state};
use super::rig::{Rig, until};
use crate::polling::Polling;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use wharf_core::device::{AnyDevice, Notify, RxDevice, TxDevice};
use wharf_core::poller::Mode;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_devices::virtio::feature::{EVENT_IDX, IN_ORDER, MRG_RXBUF, PACKED};
use wharf_mem::Meta;
use wharf_testkit::{Scratch, pool};

#[test]
fn a_poller_sleeps_while_frames_wait_for_a_driver() {
    let (socket, pool) = (Scratch::new("idle"), pool(1024));
    let device = VhostUser::open(&socket.path(), VhostUserOptions::default()).unwrap();
    let queue = TxQueue::builder_of(
        &pool,
        AnyDevice::Duplex(Box::new(device)),
        Arc::new(HostClock),
        Arc::new(HostPark),
    );
    let queue = queue.unwrap().build().unwrap();
    let receiver = RxQueue::of(&queue, Box::new(|_: &mut Burst| Rest::Free)).unwrap();
    let poller = Polling::start(Mode::Adaptive, None, &receiver);
    poller.sleeps("nothing waits");
    // More than the byte limit lets into the device.
    let mut sender = queue.sender("sender").unwrap();
    let mut burst = sender.burst(64);
    sender.fill(&mut burst, 64, 200, Wait::Never).unwrap();
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 64);
    drop(burst);
    poller.sleeps("no driver");
    let mut peer = Peer::connect(&socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    poller.sleeps("a driver that has enabled nothing");
    let mut pair = Pair::new(&mut peer, 0, 256, 2048);
    poller.sleeps("a driver without buffers");
    for index in 0..2 {
        assert!(peer.tell(SET_VRING_ENABLE, &state(index, 0), &[]));
    }
    poller.sleeps("a driver that has disabled its virtqueues");
    for index in 0..2 {
        assert!(peer.tell(SET_VRING_ENABLE, &state(index, 1), &[]));
    }
    pair.post(256);
    let mut came = 0;
    until(|| {
        came += std::iter::from_fn(|| pair.next(&peer)).count();
        came == 64
    });
    drop((poller, receiver, sender));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
}

#[test]
fn buffers_that_are_too_few_for_a_frame_wake_nobody_and_the_next_one_does() {
    for features in [0, EVENT_IDX, PACKED, PACKED | EVENT_IDX, PACKED | EVENT_IDX | IN_ORDER] {
        let mut rig = Rig::new(&format!("too-few-{features:x}"), 1);
        rig.device.set_patience(Some(Duration::ZERO));
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features | MRG_RXBUF);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 200);
        pair.post(3);
        let frame = rig.frame(&[7; 2000], Meta::default());
        assert_eq!(rig.transmit([frame]), 0);
        for posted in 4..8 {
            for _ in 0..2 {
                rig.reap();
                assert!(rig.device.arm(), "{features:#x}: {posted}");
                rig.device.disarm();
            }
            assert_eq!(rig.device.outstanding(), 1, "{features:#x}: they are no new buffers");
            rig.device.set_patience(None);
            rig.reap();
            assert!(rig.device.arm(), "{features:#x}: {posted}");
            pair.receive_queue.kick.clear();
            pair.post(1);
            assert!(pair.receive_queue.kick.clear(), "{features:#x}: {posted}");
            assert!(!rig.device.arm(), "{features:#x}: {posted}");
            rig.device.disarm();
            rig.reap();
            rig.device.set_patience(Some(Duration::from_secs(3600)));
        }
        pair.post(4);
        rig.reap();
        assert_eq!((rig.sent, pair.next(&peer).unwrap()[HEADER_BYTES..].len()), (1, 2000));
        rig.end();
    }
}

#[test]
fn frames_that_may_not_be_received_now_keep_no_poller_awake() {
    for features in [0, EVENT_IDX, PACKED] {
        let mut rig = Rig::new(&format!("kept-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[1; 60], 1));
        assert!(peer.tell(SET_VRING_ENABLE, &state(1, 0), &[]));
        let came = rig.receive();
        if let Some(left_ns) = rig.device.next_arrival_ns() {
            assert!(came.is_empty() && left_ns <= 1_000_000_000);
            assert!(rig.device.arm(), "{features:#x}: they are kept for a second");
            rig.device.disarm();
        }
        until(|| {
            rig.receive();
            rig.device.next_arrival_ns().is_none()
        });
        rig.end();
    }
}

#[test]
fn a_poller_whose_handler_takes_nothing_naps() {
    let (socket, pool) = (Scratch::new("held"), pool(1024));
    let device = VhostUser::open(&socket.path(), VhostUserOptions::default()).unwrap();
    let device = AnyDevice::Duplex(Box::new(device));
    let queue = TxQueue::builder_of(&pool, device, Arc::new(HostClock), Arc::new(HostPark));
    let queue = queue.unwrap().build().unwrap();
    let shown = Arc::new(AtomicBool::new(false));
    let is_shown = shown.clone();
    let handler = move |burst: &mut Burst| {
        is_shown.fetch_or(!burst.is_empty(), Relaxed);
        Rest::Again
    };
    let receiver = RxQueue::of(&queue, Box::new(handler)).unwrap();
    let poller = Polling::start(Mode::Adaptive, None, &receiver);
    let mut peer = Peer::connect(&socket.path());
    peer.negotiate(EVENT_IDX);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 256, 2048);
    assert!(pair.send(&peer, &[0; HEADER_BYTES], &[1; 60], 1));
    until(|| shown.load(Relaxed));
    (0..100).for_each(|_| assert!(pair.send(&peer, &[0; HEADER_BYTES], &[1; 60], 1)));
    poller.naps("a handler that takes nothing");
    drop((poller, receiver));
    queue.shutdown(Duration::MAX);
}

/// QEMU drops what a driver sends while its device is away, and asks for no notifications meanwhile.
#[test]
fn a_ring_that_was_left_without_notifications_asks_for_them_if_the_poller_sleeps() {
    for (features, flags_at) in [(0, 0), (PACKED, 2), (PACKED | EVENT_IDX, 2)] {
        let mut rig = Rig::new(&format!("left-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[1; 60], 1));
        assert_eq!(rig.receive().len(), 1);
        assert!(rig.device.arm());
        let mut again = peer.again(&rig.socket.path());
        drop(peer);
        again.negotiate(features);
        assert!(again.share());
        let [.., device] = pair.send_queue.place.areas();
        assert!(device.copy_in(flags_at, &1u16.to_le_bytes()));
        let base = if features & PACKED != 0 { 0x8001_8001 } else { 1 };
        assert!(again.announce(1, 64 << 10, &pair.send_queue, base));
        let mut flags = [0; 2];
        assert!(device.copy_out(flags_at, &mut flags));
        assert_ne!(flags, 1u16.to_le_bytes(), "{features:#x}");
        rig.end();
    }
}
