//! Drivers that break the rules, one case a line: each is an error of one line for its connection or
//! virtqueue, and the next driver is served as if nothing had been.

use super::guest::{HEADER_BYTES, Pair};
use super::hostile_cases::*;
use super::peer::*;
use super::rig::{Rig, until};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use wharf_core::device::Device;
use wharf_devices::virtio::{Extent, feature};
use wharf_mem::Meta;
use wharf_testkit::content::content;

const CLOSED: &str = "the connection is closed: ";

/// A driver that keeps the rules passes a frame each way.
fn serves(rig: &mut Rig) {
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(!0);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 8, 2048);
    pair.post(8);
    let bytes: Vec<u8> = content(1, 2, 100).collect();
    let frames = [rig.frame(&bytes, Meta::default())];
    assert_eq!(rig.transmit(frames), 0);
    rig.reap();
    assert_eq!(pair.next(&peer).unwrap()[HEADER_BYTES..], bytes[..]);
    assert!(pair.send(&peer, &[0; HEADER_BYTES], &bytes, 1));
    assert_eq!(rig.receive().len(), 1);
    assert_eq!(rig.errors, [""; 0]);
}

#[test]
fn messages_that_break_the_rules_end_their_connection() {
    let mut rig = Rig::new("hostile", 1);
    let mut count = 0;
    let mut run = |name: &str, says: &str, case: &dyn Fn(&mut Peer)| {
        let mut peer = Peer::connect(&rig.socket.path());
        case(&mut peer);
        let error = rig.error();
        assert!(error.contains(CLOSED) && error.contains(says), "{name}: {error}");
        assert!(peer.is_closed(), "{name}");
        println!("{name}: {}", error.rsplit_once(CLOSED).map_or("", |(_, why)| why));
        serves(&mut rig);
        count += 1;
    };
    for (name, says, case) in
        [messages(), files_of_memory(), regions_of_memory(), messages_of_queues()].concat()
    {
        run(name, says, &case);
    }
    for (name, says, all) in requests() {
        run(name, says, &|peer| all.iter().for_each(|(request, body)| peer.send(*request, body, &[])));
    }
    for (name, says, features, size, places) in QUEUES {
        run(name, says, &|peer| {
            peer.negotiate(features);
            assert!(peer.share());
            set_up(peer, size, places);
        });
    }
    println!("{count} cases of messages");
    rig.end();
}

#[test]
fn a_virtqueue_that_breaks_the_rules_stands_still_until_it_is_set_up_anew() {
    let cases = rings();
    for (at, (name, features, says, case)) in cases.iter().enumerate() {
        let mut rig = Rig::new(&format!("ring-{at}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(*features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        case(&mut peer, &mut pair);
        let error = rig.error();
        assert!(error.contains("virtqueue 1: ") && error.contains(says), "{name}: {error}");
        println!("{name}: {error}");
        // The other one goes on.
        pair.post(4);
        let frames = [rig.frame(&[7; 60], Meta::default())];
        assert_eq!(rig.transmit(frames), 0);
        rig.reap();
        assert_eq!(pair.next(&peer).unwrap()[HEADER_BYTES..], [7; 60]);
        assert_eq!((rig.receive(), rig.errors.len()), (vec![], 0), "{name}: told of once");
        drop(peer);
        serves(&mut rig);
        rig.end();
    }
    println!("{} cases of virtqueues", cases.len());
}

/// Bytes that neither side has read: a driver that asks and does not read has filled both directions.
/// The first buffer is looked at as a packed ring starts: also where its device was told of it before the ring.
#[test]
fn a_buffer_that_breaks_the_rules_before_its_ring_starts_stops_that_ring_alone() {
    for features in [0, feature::PACKED, feature::PACKED | feature::IN_ORDER] {
        let mut rig = Rig::new(&format!("early-{features:x}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        peer.negotiate(features);
        assert!(peer.share());
        let mut pair = Pair::unannounced(&peer, 0, 16, 2048);
        let outside = Extent { address: GUEST - 4096, len_bytes: 64 };
        assert!(pair.send.add(&[outside], &[]).is_some());
        pair.send.publish();
        assert!(pair.set_up(&mut peer, 0, 0x8000 * u32::from(features != 0)), "{features:#x}");
        let error = rig.error();
        assert!(error.contains("virtqueue 1: 64 bytes at"), "{features:#x}: {error}");
        pair.post(4);
        let frames = [rig.frame(&[7; 60], Meta::default())];
        assert_eq!(rig.transmit(frames), 0);
        rig.reap();
        assert_eq!(pair.next(&peer).unwrap()[HEADER_BYTES..], [7; 60]);
        rig.end();
    }
}

#[test]
fn driver_that_reads_no_answers_blocks_only_itself() {
    let mut rig = Rig::new("unread", 1);
    let peer = Peer::connect(&rig.socket.path());
    peer.stream.set_nonblocking(true).unwrap();
    while (&peer.stream).write(&message(GET_FEATURES, 1, &[])).is_ok() {}
    // Told of nothing: it has gone before it was answered.
    drop(peer);
    serves(&mut rig);
    let peer = Peer::connect(&rig.socket.path());
    peer.stream.set_nonblocking(true).unwrap();
    while (&peer.stream).write(&message(GET_FEATURES, 1, &[])).is_ok() {}
    rig.end();
}

#[test]
fn memory_that_shrinks_ends_its_connection() {
    wharf_devices::vhost_user::install_sigbus_handler().unwrap();
    // The last is longer than a machine's memory, and the kernel would refuse that much of the device's own.
    for (features, len) in [(0, MEMORY), (feature::PACKED, MEMORY), (0, 1 << 40)] {
        let mut rig = Rig::new(&format!("shrinks-{features:x}-{len}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        let file = unsealed(len);
        peer.negotiate(features);
        assert!(peer.tell(SET_MEM_TABLE, &table(&[region(GUEST, len, USER, 0)]), &[file.as_raw_fd()]));
        // Its rings lie in the peer's other memory, where this device does not look: all it sees is zeroes.
        let queue = peer.queue(0, 16);
        let is_set_up = peer.set_up(1, 0, &queue, 0x8000 * u32::from(features != 0));
        assert!(is_set_up);
        assert_eq!(rig.receive(), []);
        file.set_len(0).unwrap();
        let error = rig.error();
        assert!(error.contains("made its shared memory shorter; the connection is closed"), "{error}");
        assert!(peer.is_closed());
        serves(&mut rig);
        rig.end();
    }
}

/// The log of pages, and the table of what is in flight.
#[test]
fn notes_that_shrink_end_their_connection() {
    const SET_LOG_BASE: u32 = 6;
    const SET_INFLIGHT_FD: u32 = 32;
    wharf_devices::vhost_user::install_sigbus_handler().unwrap();
    let len = 1 << 20;
    let inflight = [words(&[len, 0]), 2u16.to_ne_bytes().to_vec(), 16u16.to_ne_bytes().to_vec(), vec![0; 4]];
    for (request, body) in [(SET_LOG_BASE, words(&[len, 0])), (SET_INFLIGHT_FD, inflight.concat())] {
        let mut rig = Rig::new(&format!("notes-{request}"), 1);
        let mut peer = Peer::connect(&rig.socket.path());
        let file = unsealed(len);
        peer.negotiate(feature::LOG_ALL);
        // LOG_SHMFD, REPLY_ACK, INFLIGHT_SHMFD.
        assert!(peer.tell(SET_PROTOCOL_FEATURES, &words(&[1 << 1 | 1 << 3 | 1 << 12]), &[]));
        assert!(peer.share());
        peer.send(request, &body, &[file.as_raw_fd()]);
        if request == SET_LOG_BASE {
            assert!(peer.reply().is_some());
        }
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        file.set_len(0).unwrap();
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
        let error = rig.error();
        assert!(error.contains("made its shared memory shorter; the connection is closed"), "{error}");
        assert!(peer.is_closed());
        serves(&mut rig);
        rig.end();
    }
}

#[test]
fn memory_that_can_be_sealed_is() {
    let rig = Rig::new("seal", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    assert!(wharf_sys::shared::is_sealed(peer.area.mapping().unwrap().fd().unwrap()));
    rig.end();
}

#[test]
fn disconnect_at_any_byte_leaves_the_device_serving() {
    let mut rig = Rig::new("goes", 1);
    let bytes = [
        message(SET_OWNER, 1, &[]),
        message(GET_FEATURES, 1, &[]),
        message(SET_FEATURES, 1, &words(&[feature::VERSION_1])),
        message(SET_VRING_NUM, 1, &state(0, 256)),
        message(SET_VRING_BASE, 1, &state(0, 0)),
        message(SET_VRING_ADDR, 1, &addresses(0, GOOD[0], GOOD[1], GOOD[2])),
    ]
    .concat();
    for len in (0..bytes.len()).step_by(9) {
        let peer = Peer::connect(&rig.socket.path());
        peer.raw(&bytes[..len], &[]);
        drop(peer);
        rig.receive();
    }
    until(|| {
        rig.receive();
        UnixStream::connect(rig.socket.path()).is_ok()
    });
    rig.device.close().unwrap();
    rig.end();
}

#[test]
fn close_does_not_wait_for_a_silent_driver() {
    for half in [&[][..], &[1, 0, 0][..]] {
        let rig = Rig::new(&format!("silent-{}", half.len()), 1);
        let peer = Peer::connect(&rig.socket.path());
        peer.raw(half, &[]);
        let path = rig.socket.path();
        rig.end();
        assert!(!path.exists(), "the socket is gone");
    }
}
