//! A poller with nothing to do sleeps, also while frames wait: for a driver that has not come, has no
//! virtqueue enabled, or takes nothing.

use super::guest::Pair;
use super::peer::{Peer, SET_VRING_ENABLE, state};
use super::rig::until;
use crate::polling::sleeps;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::AnyDevice;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
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
    let poller = PollerThread::builder().receiver(&receiver).start().unwrap();
    sleeps(&poller, "nothing waits");
    // More than the byte limit lets into the device.
    let mut sender = queue.sender("sender").unwrap();
    let mut burst = sender.burst(64);
    sender.fill(&mut burst, 64, 200, Wait::Never).unwrap();
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 64);
    drop(burst);
    sleeps(&poller, "no driver");
    let mut peer = Peer::connect(&socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    sleeps(&poller, "a driver that has enabled nothing");
    let mut pair = Pair::new(&mut peer, 0, 256, 2048);
    sleeps(&poller, "a driver without buffers");
    for index in 0..2 {
        assert!(peer.tell(SET_VRING_ENABLE, &state(index, 0), &[]));
    }
    sleeps(&poller, "a driver that has disabled its virtqueues");
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
