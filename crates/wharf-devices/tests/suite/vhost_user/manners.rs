//! Messages besides those that virtqueues take: the log of pages, regions of memory one by one, and what a
//! front end tells or asks of the device.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::*;
use super::rig::{Rig, until};
use std::sync::Arc;
use wharf_core::device::{Device, Notify};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_devices::virtio::feature;
use wharf_mem::{Batch, Meta};
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};
use wharf_testkit::Scratch;

const SET_LOG_BASE: u32 = 6;
const SEND_RARP: u32 = 19;
const NET_SET_MTU: u32 = 20;
const GET_CONFIG: u32 = 24;
const GET_MAX_MEM_SLOTS: u32 = 36;
const ADD_MEM_REG: u32 = 37;
const REM_MEM_REG: u32 = 38;
const SET_STATUS: u32 = 39;
const GET_STATUS: u32 = 40;
/// LOG_SHMFD, RARP, REPLY_ACK, MTU, CONFIG, CONFIGURE_MEM_SLOTS, STATUS.
const ALL: u64 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 9 | 1 << 15 | 1 << 16;
const VERSION: u32 = 1;
const NEED_REPLY: u32 = 8;

fn agreeing(rig: &Rig, features: u64) -> Peer {
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(features);
    assert!(peer.tell(SET_PROTOCOL_FEATURES, &words(&[ALL]), &[]));
    peer
}

fn region(at: u64, len: u64) -> Vec<u8> {
    words(&[0, GUEST + at, len, USER + at, at])
}

/// Takes the pages that are noted, by their numbers from [`GUEST`] on.
fn take(log: &View) -> Vec<usize> {
    let mut bytes = vec![0; log.len_bytes()];
    log.copy_out(0, &mut bytes);
    log.copy_in(0, &vec![0; log.len_bytes()]);
    let noted = (0..8 * bytes.len()).filter(|page| bytes[page / 8] >> (page % 8) & 1 != 0);
    noted.map(|page| page - GUEST as usize / 4096).collect()
}

#[test]
fn pages_that_the_device_writes_are_noted_while_that_is_wanted() {
    for features in [0, feature::PACKED, feature::MRG_RXBUF, feature::PACKED | feature::IN_ORDER] {
        let mut rig = Rig::new(&format!("log-{features:x}"), 1);
        let mut peer = agreeing(&rig, features);
        assert!(peer.share());
        // Buffers of 8 KiB, or of 2 KiB, of which a frame takes several.
        let buffer_bytes = if features & feature::MRG_RXBUF == 0 { 8192 } else { 2048 };
        let mut pair = Pair::new(&mut peer, 0, 8, buffer_bytes);
        let len_bytes = (GUEST as usize + MEMORY_BYTES) / 4096 / 8;
        let area = Arc::new(Area::new(Mapping::shared_small_pages(len_bytes).unwrap()));
        let log = View::new(&area, 0, len_bytes).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&area.mapping().unwrap().fd().unwrap());
        peer.send(SET_LOG_BASE, &words(&[len_bytes as u64, 0]), &[fd]);
        assert_eq!(peer.reply(), Some(words(&[len_bytes as u64, 0])));
        pair.post(8);
        let frame = rig.frame(&vec![5; 5000], Meta::default());
        assert_eq!(rig.transmit([frame]), 0);
        rig.reap();
        assert!(take(&log).is_empty(), "{features:#x}: not wanted yet");
        assert!(peer.tell(SET_FEATURES, &words(&[peer.features | feature::LOG_ALL]), &[]));
        take(&log);
        while pair.next(&peer).is_some() {}
        pair.post(8);
        let frame = rig.frame(&vec![6; 5000], Meta::default());
        assert_eq!(rig.transmit([frame]), 0);
        rig.reap();
        let noted = take(&log);
        // The used ring, or all of a packed one, in the first pages; the buffers from 128 KiB on.
        let (rings, buffers): (Vec<_>, Vec<_>) = noted.iter().partition(|&&page| page < 32);
        assert_eq!((rings, buffers.len()), (vec![&0], 2), "{features:#x}: {noted:?}");
        assert!(buffers.iter().all(|page| (32..48).contains(*page)), "{noted:?}");
        assert_eq!(pair.next(&peer).unwrap()[HEADER_BYTES..], [6; 5000]);
        // A frame from the driver is read: the ring alone is written.
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
        until(|| rig.receive().len() == 1);
        assert_eq!(take(&log), [16], "{features:#x}");
        assert!(peer.tell(SET_FEATURES, &words(&[peer.features]), &[]));
        take(&log);
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
        until(|| rig.receive().len() == 1);
        assert!(take(&log).is_empty() && rig.errors.is_empty(), "not wanted any more");
        rig.end();
    }
}

#[test]
fn a_machine_that_has_come_is_announced_once() {
    let mut rig = Rig::new("rarp", 1);
    let mut peer = agreeing(&rig, 0);
    let mut all = [(); 4].map(|()| Batch::new(256));
    for batch in &mut all {
        while batch.room() > 0 {
            let room = batch.room();
            rig.cache.take(batch, room, 60).unwrap();
        }
    }
    assert!(peer.tell(SEND_RARP, &[2, 0, 0, 7, 8, 9, 0, 0], &[]));
    assert_eq!(rig.receive(), [], "without memory");
    all.iter_mut().for_each(|batch| rig.cache.give(batch).unwrap());
    let came = rig.receive();
    let [(frame, _)] = &came[..] else { panic!("{came:?}") };
    assert_eq!(
        (frame.len(), &frame[..14]),
        (60, &[255, 255, 255, 255, 255, 255, 2, 0, 0, 7, 8, 9, 0x80, 0x35][..])
    );
    assert_eq!(frame[14..28], [0, 1, 8, 0, 6, 4, 0, 3, 2, 0, 0, 7, 8, 9]);
    assert_eq!(rig.receive(), []);
    rig.end();
}

#[test]
fn a_machine_whose_address_is_known_is_announced_once_it_goes_on_here() {
    for features in [0, feature::PACKED] {
        let mut rig = Rig::new(&format!("comes-{features:x}"), 1);
        rig.socket = Scratch::new(&format!("comes-mac-{features:x}"));
        let options = VhostUserOptions { mac: Some([2, 0, 0, 7, 8, 9]), ..VhostUserOptions::default() };
        rig.device = VhostUser::open(&rig.socket.path(), options).unwrap();
        rig.device.attach(rig.pool.region().clone()).unwrap();
        let mut peer = agreeing(&rig, features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 16, 2048);
        assert_eq!(rig.receive(), [], "it begins");
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[1; 60], 1));
        assert_eq!(rig.receive().len(), 1);
        let mut again = peer.again(&rig.socket.path());
        drop(peer);
        again.negotiate(features);
        assert!(again.share());
        let (begin, base) = if features == 0 { (0, 1) } else { (0x8000, 0x8001_8001) };
        assert!(again.announce(0, 0, &pair.receive_queue, begin));
        assert!(again.announce(1, 64 << 10, &pair.send_queue, base));
        assert!(again.tell(SET_VRING_ENABLE, &state(1, 1), &[]));
        assert_eq!(rig.receive(), [], "it cannot be reached");
        assert!(again.tell(SET_VRING_ENABLE, &state(0, 1), &[]));
        let came = rig.receive();
        let [(frame, _)] = &came[..] else { panic!("{features:#x}: {came:?}") };
        assert_eq!(frame[6..14], [2, 0, 0, 7, 8, 9, 0x80, 0x35]);
        assert!(again.tell(SET_VRING_ENABLE, &state(1, 1), &[]));
        assert_eq!(rig.receive(), []);
        rig.end();
    }
}

#[test]
fn memory_comes_and_goes_by_regions_while_frames_pass() {
    let mut rig = Rig::new("slots", 1);
    let mut peer = agreeing(&rig, 0);
    assert_eq!(peer.ask(GET_MAX_MEM_SLOTS, &[]), Some(words(&[509])));
    let (fd, half) = (peer.fd(), MEMORY_BYTES as u64 / 2);
    // A region per queue pair, as QEMU 7.2 has it, is one.
    for at in [0, half, half] {
        assert!(peer.tell(ADD_MEM_REG, &region(at, half), &[fd]));
    }
    let mut pair = Pair::new(&mut peer, 0, 8, 2048);
    for _ in 0..2 {
        assert!(peer.tell(REM_MEM_REG, &region(half, half), &[]));
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
        until(|| rig.receive().len() == 1);
    }
    // Twelve small ones more than a table of eight holds.
    for at in 0..12 {
        assert!(peer.tell(ADD_MEM_REG, &region(half + at * 4096, 4096), &[fd]), "{at}");
    }
    assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
    until(|| rig.receive().len() == 1);
    assert_eq!(rig.errors.len(), 0);
    assert!(!peer.tell(REM_MEM_REG, &region(1 << 30, half), &[]));
    assert!(peer.is_closed() && rig.error().contains("no region at"));
    rig.end();
}

/// cloud-hypervisor begins with a table, and plugs memory in by regions. QEMU takes a region away before it adds it changed.
#[test]
fn memory_of_a_table_grows_and_shrinks_by_regions() {
    for features in [0, feature::PACKED] {
        let mut rig = Rig::new(&format!("table-{features:x}"), 1);
        let mut peer = agreeing(&rig, features);
        let (fd, half) = (peer.fd(), MEMORY_BYTES as u64 / 2);
        let regions = [[GUEST, half, USER, 0], [GUEST + half, half / 2, USER + half, half]];
        assert!(peer.tell(SET_MEM_TABLE, &table(&regions), &[fd, fd]));
        let mut pair = Pair::new(&mut peer, 0, 8, 2048);
        let mut pass = |peer: &Peer, rig: &mut Rig| {
            assert!(pair.send(peer, &[0; HEADER_BYTES], &[7; 60], 1));
            until(|| rig.receive().len() == 1);
        };
        pass(&peer, &mut rig);
        assert!(peer.tell(ADD_MEM_REG, &region(half + half / 2, half / 2), &[fd]));
        pass(&peer, &mut rig);
        assert!(peer.tell(REM_MEM_REG, &region(half, half / 2), &[]));
        pass(&peer, &mut rig);
        // The region of the rings: they stand still until it is back, longer.
        assert!(peer.tell(REM_MEM_REG, &region(0, half), &[]));
        assert_eq!(rig.receive(), []);
        until(|| rig.device.link().is_some_and(|link| link.is_err()));
        assert!(peer.tell(ADD_MEM_REG, &region(0, half + half / 2), &[fd]));
        pass(&peer, &mut rig);
        assert!(rig.device.link().is_some_and(|link| link.is_ok()) && rig.errors.is_empty());
        rig.end();
    }
}

/// QEMU's order of a region that changes: the driver goes on meanwhile.
#[test]
fn a_region_with_buffers_of_the_driver_is_replaced_under_traffic() {
    let mut rig = Rig::new("replaced", 1);
    let mut peer = agreeing(&rig, 0);
    let (fd, half) = (peer.fd(), MEMORY_BYTES as u64 / 8);
    // The second one has the buffers that are sent.
    for at in [0, half] {
        assert!(peer.tell(ADD_MEM_REG, &region(at, half), &[fd]));
    }
    let mut pair = Pair::new(&mut peer, 0, 64, 2048);
    for round in 0..200 {
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
        peer.send(REM_MEM_REG, &region(half, half), &[]);
        peer.send(ADD_MEM_REG, &region(half, half), &[fd]);
        until(|| rig.receive().len() == 1 || !rig.errors.is_empty());
        assert!(rig.errors.is_empty(), "round {round}: {:?}", rig.errors);
    }
    rig.end();
}

#[test]
fn the_front_end_tells_of_status_and_mtu_and_reads_the_configuration() {
    let mut rig = Rig::new("config", 2);
    let mut peer = agreeing(&rig, 0);
    assert_eq!(peer.ask(GET_STATUS, &[]), Some(words(&[0])));
    assert!(peer.tell(SET_STATUS, &words(&[11]), &[]) && peer.tell(NET_SET_MTU, &words(&[9000]), &[]));
    assert_eq!(peer.ask(GET_STATUS, &[]), Some(words(&[11])));
    // An MTU that cannot be is declined, and nothing else happens.
    for mtu in [0, 67, 65536, u64::MAX] {
        peer.raw(&message(NET_SET_MTU, VERSION | NEED_REPLY, &words(&[mtu])), &[]);
        assert_eq!(peer.reply(), Some(words(&[1])), "{mtu}");
    }
    let asked = |at: u32, len: u32| [at.to_ne_bytes(), len.to_ne_bytes(), [0; 4]].concat();
    let config = [&[0; 6][..], &[1, 0, 2, 0], &9000u16.to_le_bytes()].concat();
    let body = [asked(0, 12), vec![0; 12]].concat();
    assert_eq!(peer.ask(GET_CONFIG, &body), Some([asked(0, 12), config].concat()));
    let beyond = [asked(8, 12), vec![0; 12]].concat();
    assert_eq!(peer.ask(GET_CONFIG, &beyond), Some(asked(8, 0)), "beyond its end: none");
    rig.errors.clear();
    rig.end();
}

#[test]
fn logs_and_regions_that_cannot_be_are_refused() {
    let half = MEMORY_BYTES as u64 / 2;
    let log = |len: u64, at: u64| (SET_LOG_BASE, words(&[len, at]));
    let cases = [
        ("bytes of a file that has", vec![log(1 << 32, 0)]),
        ("the log of pages: 4294967304 bytes of a file: ", vec![log((1 << 32) + 8, 0)]),
        ("the log of pages: 4294971392 bytes of a file: ", vec![log(4096, 1 << 32)]),
        ("the log of pages is not aligned", vec![log(4096, 4)]),
        ("overlap", vec![(ADD_MEM_REG, region(0, half)), (ADD_MEM_REG, region(half - 4096, half))]),
        ("bytes of a file that has", vec![(ADD_MEM_REG, region(half, 1 << 30))]),
        (
            "a region of shared memory",
            vec![(ADD_MEM_REG, region(0, half)), (ADD_MEM_REG, region(1 << 40, 4096))],
        ),
    ];
    for (says, messages) in cases {
        let mut rig = Rig::new("refused", 1);
        let mut peer = agreeing(&rig, 0);
        let fd = peer.fd();
        messages.iter().for_each(|(request, body)| peer.send(*request, body, &[fd]));
        let error = rig.error();
        assert!(error.contains(says) && peer.is_closed(), "{error}");
        rig.end();
    }
}

#[test]
fn the_layout_and_the_notifications_of_a_driver_are_seen() {
    for (features, words) in [(0, "split"), (feature::PACKED | feature::IN_ORDER, "packed, in order")] {
        let mut rig = Rig::new(&format!("seen-{words}"), 1);
        assert_eq!(rig.device.mode(), None);
        let mut peer = agreeing(&rig, features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 8, 2048);
        assert_eq!(rig.device.mode(), Some(words));
        assert!(rig.device.arm());
        assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
        assert!(!rig.device.arm(), "it has sent one");
        let seen = rig.device.signals().unwrap();
        assert!(seen.interrupts >= 1, "{seen:?}");
        until(|| rig.receive().len() == 1);
        assert!(rig.device.signals().unwrap().kicks >= 1);
        let mut facts = Vec::new();
        rig.device.facts(&mut |name, pair, value| facts.push((name, pair, value)));
        for fact in [("link_up", None, 1), ("features", None, peer.features), ("pairs_in_use", None, 1)] {
            assert!(facts.contains(&fact), "{fact:?}: {facts:?}");
        }
        assert!(facts.iter().any(|(name, pair, _)| (*name, *pair) == ("kicks", Some(0))));
        drop(peer);
        until(|| rig.device.mode().is_none());
        // The next one has agreed on nothing yet.
        let mut peer = Peer::connect(&rig.socket.path());
        assert!(peer.ask(GET_FEATURES, &[]).is_some());
        assert_eq!(rig.device.mode(), None);
        rig.end();
    }
}

#[test]
fn super_packets_of_udp_go_whole_to_a_driver_that_takes_them() {
    let takes = feature::GUEST_CSUM | feature::MRG_RXBUF;
    for (features, count) in [(takes | feature::GUEST_USO, 1), (takes, 3)] {
        let mut rig = Rig::new(&format!("uso-{features:x}"), 1);
        let mut peer = agreeing(&rig, features);
        assert!(peer.share());
        let mut pair = Pair::new(&mut peer, 0, 8, 2048);
        pair.post(8);
        let mut packet = Vec::new();
        let builder =
            etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
        builder.udp(5, 6).write(&mut packet, &[7; 2500]).unwrap();
        let meta = Meta {
            gso_bytes: 1000,
            gso_kind: wharf_packet::gso::GSO_UDP,
            needs_checksum: true,
            checksum_start: 34,
            checksum_offset: 6,
            ..Meta::default()
        };
        let frame = rig.frame(&packet, meta);
        assert_eq!(rig.transmit([frame]), 0);
        rig.reap();
        let got: Vec<_> = std::iter::from_fn(|| pair.next(&peer)).collect();
        assert_eq!(got.len(), count, "{features:#x}");
        assert_eq!(got[0].len() - HEADER_BYTES, if count == 1 { packet.len() } else { 42 + 1000 });
        rig.end();
    }
}
