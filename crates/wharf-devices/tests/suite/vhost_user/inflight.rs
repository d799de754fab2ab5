//! Tables of what is in flight: asked for, given back to the next device, and refused.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::*;
use super::rig::{Rig, until};
use std::fs::File;
use std::os::fd::AsRawFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_devices::virtio::{InflightTable, Layout, feature};

const GET_INFLIGHT_FD: u32 = 31;
const SET_INFLIGHT_FD: u32 = 32;
const INFLIGHT_SHMFD: u64 = 1 << 12;
const SIZE: u16 = 8;

/// The body of both messages.
fn body(len_bytes: u64, at: u64, queues: u16, size: u16) -> Vec<u8> {
    [words(&[len_bytes, at]), queues.to_ne_bytes().to_vec(), size.to_ne_bytes().to_vec(), vec![0; 4]].concat()
}

/// A driver of `rig` that has agreed on tables.
fn recording(rig: &Rig, before: Option<&Peer>, features: u64) -> Peer {
    let path = rig.socket.path();
    let mut peer = before.map_or_else(|| Peer::connect(&path), |before| before.again(&path));
    peer.negotiate(features);
    assert!(peer.tell(SET_PROTOCOL_FEATURES, &words(&[INFLIGHT_SHMFD | 1 << 3]), &[]));
    assert!(peer.share());
    peer
}

/// Asks for tables of `queues`: their bytes, and the file.
fn ask(peer: &Peer, queues: u16) -> (u64, File) {
    peer.send(GET_INFLIGHT_FD, &body(0, 0, queues, SIZE), &[]);
    let (mut reply, mut came, mut file) = (vec![0; 36], 0, None);
    while came < reply.len() {
        let (count, with) = peer.stream.recv_with_fd(&mut reply[came..]).unwrap();
        assert!(count > 0, "{came}");
        (came, file) = (came + count, with.or(file));
    }
    let word = |at: usize| u64::from_ne_bytes(reply[at..at + 8].try_into().unwrap());
    assert_eq!((word(20), &reply[28..32]), (0, &body(0, 0, queues, SIZE)[16..20]));
    (word(12), file.unwrap())
}

#[test]
fn the_next_device_goes_on_where_the_one_before_ended_whatever_base_it_is_told() {
    for (features, base) in [(0, 77), (feature::PACKED, 3), (feature::PACKED | feature::IN_ORDER, 0)] {
        let mut rig = Rig::new(&format!("inflight-{features:x}"), 1);
        let mut peer = recording(&rig, None, features);
        let (len_bytes, file) = ask(&peer, 2);
        let mut pair = Pair::unannounced(&peer, 0, SIZE.into(), 2048);
        let mut first = if features & feature::PACKED != 0 { 0x8000 } else { 0 };
        for round in 0..20u8 {
            assert!(peer.tell(SET_INFLIGHT_FD, &body(len_bytes, 0, 2, SIZE), &[file.as_raw_fd()]));
            assert!(pair.set_up(&mut peer, 0, first));
            let mut came = Vec::new();
            // The driver leaves two behind.
            for number in 0..5 {
                assert!(pair.send(
                    &peer,
                    &[0; HEADER_BYTES],
                    &[round * 8 + number; 60],
                    1 + usize::from(number % 2)
                ));
                if number == 2 {
                    until(|| {
                        came.extend(rig.receive().into_iter().map(|(bytes, _)| bytes[0]));
                        came.len() == if round == 0 { 3 } else { 5 }
                    });
                }
            }
            let left = if round == 0 { vec![] } else { vec![(round - 1) * 8 + 3, (round - 1) * 8 + 4] };
            let sent = (0..3).map(|number| round * 8 + number);
            assert_eq!(
                came,
                left.into_iter().chain(sent).collect::<Vec<_>>(),
                "{features:#x}, round {round}: {:?}",
                rig.errors
            );
            rig.end();
            rig = Rig::new(&format!("inflight-{features:x}-{round}"), 1);
            peer = recording(&rig, Some(&peer), features);
            first = base;
        }
        rig.end();
    }
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let each_bytes = InflightTable::len_bytes(Layout::Split, SIZE) as u64;
    let bad = [
        (2 * each_bytes - 1, 0, 2, SIZE),
        (2 * each_bytes, u64::MAX, 2, SIZE),
        (2 * each_bytes, 1 << 40, 2, SIZE),
        (2 * each_bytes, 4, 2, SIZE),
        (2 * each_bytes, 0, 3, SIZE),
        (2 * each_bytes, 0, 2, u16::MAX),
        (0, 0, 2, SIZE),
    ];
    for (len_bytes, at, queues, size) in bad {
        let mut rig = Rig::new("inflight-bad", 1);
        let mut peer = recording(&rig, None, 0);
        let (_, file) = ask(&peer, 2);
        let pair = Pair::unannounced(&peer, 0, SIZE.into(), 2048);
        let is_taken = peer.tell(SET_INFLIGHT_FD, &body(len_bytes, at, queues, size), &[file.as_raw_fd()])
            && pair.set_up(&mut peer, 0, 0);
        assert!(!is_taken && peer.is_closed(), "{len_bytes} {at} {queues} {size}");
        rig.error();
        rig.end();
    }
    // A file without an end would take all addresses of the process.
    let (mut rig, file) = (Rig::new("inflight-endless", 1), unsealed(1 << 46));
    wharf_devices::vhost_user::install_sigbus_handler().unwrap();
    let peer = recording(&rig, None, 0);
    peer.send(SET_INFLIGHT_FD, &body(1 << 46, 0, 2, SIZE), &[file.as_raw_fd()]);
    let error = rig.error();
    assert!(error.contains("the table of what is in flight: 70368744177664 bytes of a file"), "{error}");
    rig.end();
    let mut rig = Rig::new("inflight-many", 1);
    let mut peer = recording(&rig, None, 0);
    peer.send(GET_INFLIGHT_FD, &body(0, 0, 3, SIZE), &[]);
    assert!(peer.is_closed());
    let error = rig.error();
    assert!(error.contains("what is in flight in 3 virtqueues of 8"), "{error}");
    rig.end();
}
