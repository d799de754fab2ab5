//! Drivers whose chains are long and hold next to nothing: work counts, and not frames alone.

use super::peer::*;
use super::rig::{Rig, until};
use wharf_core::device::RxDevice;
use wharf_devices::virtio::feature;
use wharf_mem::Meta;

/// Most descriptors of a chain that are followed.
const CHAIN_MAX: u32 = 1024;
const NEXT: u64 = 1 << 32;
const WRITE: u64 = 2 << 32;

/// A device and its driver, which has made the ring's first chain available `count` times over: `size` descriptors, the
/// first of `len` bytes.
fn with_chains(
    name: &str, (index, size, count): (u32, u32, u16), features: u64, len: u64,
) -> (Rig, Peer, Queue) {
    let rig = Rig::new(name, 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(features);
    assert!(peer.share());
    let queue = peer.queue(0, size);
    let [descriptors, available, _] = queue.place.areas();
    let way = if index == 0 { WRITE } else { 0 };
    for at in 0..u64::from(size) {
        let (next, len) =
            (if at + 1 < size.into() { NEXT | (at + 1) << 48 } else { 0 }, if at == 0 { len } else { 0 });
        descriptors.store_u64(16 * at as usize, GUEST);
        descriptors.store_u64(16 * at as usize + 8, len | way | next);
    }
    available.store_u16(2, count);
    assert!(peer.set_up(index, 0, &queue, 0) && peer.tell(SET_VRING_ENABLE, &state(1, 1), &[]));
    (rig, peer, queue)
}

fn used(queue: &Queue) -> u16 {
    queue.place.areas()[2].load_u16(2)
}

#[test]
fn long_chains_share_a_thread_with_other_devices() {
    let (mut rig, _peer, queue) = with_chains("long", (1, CHAIN_MAX, 1000), 0, 0);
    assert_eq!(rig.receive(), []);
    assert!((1..=8).contains(&used(&queue)), "{} at a time", used(&queue));
    until(|| rig.receive().is_empty() && used(&queue) == 1000);
    let mut drops = Vec::new();
    rig.device.drops(&mut |reason, count| drops.push((reason, count)));
    assert_eq!(drops, [("too-short", 1000)]);
    rig.end();
}

#[test]
fn chain_that_no_driver_makes_breaks_its_virtqueue() {
    let (mut rig, _peer, _queue) = with_chains("longer", (1, 2 * CHAIN_MAX, 1), 0, 0);
    let error = rig.error();
    assert!(error.contains("virtqueue 1: a chain of more than 1024 descriptors"), "{error}");
    rig.end();
}

#[test]
fn frame_for_which_buffers_are_crumbs_fails() {
    let (mut rig, _peer, queue) = with_chains("crumbs", (0, CHAIN_MAX, 100), feature::MRG_RXBUF, 12);
    let frames = [rig.frame(&[7; 1400], Meta::default())];
    assert_eq!(rig.transmit(frames), 0);
    rig.reap();
    assert_eq!((&rig.failed[..], used(&queue)), (&["too-long"][..], 0));
    rig.end();
}
