//! Reception of frames that a plain socket or the kernel sent.

use crate::net::{frame, ip, send_raw, with_pair, with_two};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wharf_core::device::AnyDevice;
use wharf_devices::open::{Direction, open};
use wharf_mem::Batch;
use wharf_testkit::content::len_of;
use wharf_testkit::end::End;
use wharf_testkit::threads::eventually;

fn drops(device: &mut AnyDevice) -> Vec<(&'static str, u64)> {
    let mut drops = Vec::new();
    device.rx_mut().unwrap().drops(&mut |reason, count| drops.push((reason, count)));
    drops
}

/// Closes it, takes back what waited inside, and counts.
pub fn finish(mut end: End) {
    let device = end.device.rx_mut().unwrap();
    device.close().unwrap();
    let mut posted = Batch::new(64);
    while device.reclaim(&mut posted) > 0 {
        end.cache.give(&mut posted).unwrap();
    }
    end.assert_all_home();
}

fn receives(spec: &'static str, mode: &'static str, frame_bytes: u32) {
    with_pair(move || {
        let mut end = End::new(spec, Direction::Receive, frame_bytes);
        assert_eq!(end.device.mode(), Some(mode));
        end.device.rx_mut().unwrap().receive(&mut end.cache, &mut end.batch, 1).unwrap();
        let frames: Vec<Vec<u8>> = (0..5000).map(|number| frame(number, len_of(number))).collect();
        for some in frames.chunks(500) {
            send_raw("va", some);
            assert!(end.receive(some.len()) == some, "frames differ from those sent");
        }
        assert_eq!(drops(&mut end.device), [("fill-ring-empty", 0)]);
        finish(end);
    });
}

#[test]
#[ignore = "wants root"]
fn every_byte_arrives_in_order() {
    receives("xdp:vb", "native, copy", 2048 - 64);
}

#[test]
#[ignore = "wants root"]
fn into_pages() {
    receives("xdp:vb,mode=copy,csum=off", "native, copy", 4096 - 64);
}

#[test]
#[ignore = "wants root"]
fn into_buffers_of_an_odd_length() {
    receives("xdp:vb,queue=0", "native, copy", 2240 - 64);
}

#[test]
#[ignore = "wants root"]
fn into_buffers_longer_than_a_page() {
    receives("xdp:vb", "native, copy", 16_384 - 64);
}

/// The least that the kernel takes: most packets take several.
#[test]
#[ignore = "wants root"]
fn into_buffers_shorter_than_a_frame() {
    receives("xdp:vb", "native, copy", 448);
}

#[test]
#[ignore = "wants root"]
fn too_short_buffers_give_their_error() {
    with_pair(|| {
        let mut device = open("xdp:vb", Direction::Receive).unwrap().device;
        let pool = wharf_testkit::pool_of(64, 384);
        let message = device.attach(pool.region().clone()).unwrap_err().to_string();
        assert_eq!(message, "xdp:vb: the pool's frames hold 384 bytes: to receive takes 448 at least");
    });
}

#[test]
#[ignore = "wants root"]
fn driver_without_native_xdp_falls_back_to_generic() {
    wharf_testkit::threads::within_a_minute(|| {
        crate::net::enter_with("va type veth peer name vb");
        // A bridge has no XDP of its own; the veth into it does.
        for command in [
            "link add name bridge0 type bridge",
            "link set va up",
            "link set vb up",
            "link set vb master bridge0",
            "link set bridge0 up promisc on",
        ] {
            ip(command);
        }
        eventually(Duration::from_secs(20), || open("xdp:bridge0", Direction::Receive).is_ok());
        let mut end = End::receiver("xdp:bridge0");
        assert_eq!(end.device.mode(), Some("generic, copy"));
        end.device.rx_mut().unwrap().receive(&mut end.cache, &mut end.batch, 1).unwrap();
        let frames: Vec<Vec<u8>> = (0..200).map(|number| frame(number, len_of(number))).collect();
        // A port of a bridge forwards after a while.
        let until = Instant::now() + Duration::from_secs(45);
        while end.receive_within(1, Duration::from_millis(50)).is_empty() {
            assert!(Instant::now() < until, "the bridge forwards nothing");
            send_raw("va", &frames[..1]);
        }
        // The last of those that were sent meanwhile.
        let last = frame(1000, 60);
        send_raw("va", [&last]);
        eventually(Duration::from_secs(20), || end.receive_within(1, Duration::ZERO).contains(&last));
        send_raw("va", &frames);
        assert!(end.receive(frames.len()) == frames, "frames differ from those sent");
        finish(end);
    });
}

#[test]
#[ignore = "wants root"]
fn jumbo_frames_arrive_in_several_buffers() {
    with_pair(|| {
        ip("link set va mtu 9000");
        ip("link set vb mtu 9000");
        let mut end = End::receiver("xdp:vb");
        end.device.rx_mut().unwrap().receive(&mut end.cache, &mut end.batch, 1).unwrap();
        let frames: Vec<Vec<u8>> = (0..60).map(|number| frame(number, 100 + 150 * number as usize)).collect();
        send_raw("va", &frames);
        assert!(end.receive(frames.len()) == frames, "frames differ from those sent");
        finish(end);
    });
}

/// Returns true if the UDP checksum of a frame is right, and `None` for other frames.
fn udp_is_right(bytes: &[u8]) -> Option<bool> {
    let packet = SlicedPacket::from_ethernet(bytes).ok()?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (&packet.net, &packet.transport) else {
        return None;
    };
    let header = udp.to_header();
    let want = header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).ok()?;
    Some(header.checksum == want)
}

#[test]
#[ignore = "wants root"]
fn a_sender_on_this_host_leaves_checksums_unfinished() {
    for (spec, is_right) in [("xdp:va", true), ("xdp:va,csum=fill", true), ("xdp:va,csum=off", false)] {
        let (seen_enough, until_seen) = mpsc::channel::<()>();
        let near = move || {
            let mut end = End::receiver(spec);
            let mut seen = 0;
            let until = Instant::now() + Duration::from_secs(10);
            while seen < 5 && Instant::now() < until {
                for bytes in end.receive_within(1, Duration::from_millis(100)) {
                    if let Some(found) = udp_is_right(&bytes) {
                        assert_eq!(found, is_right, "{spec}");
                        seen += 1;
                    }
                }
            }
            assert!(seen >= 5, "{spec}: no packets");
            finish(end);
            seen_enough.send(()).unwrap();
        };
        let far = move || {
            ip("neigh add 10.9.0.1 lladdr 02:00:00:00:00:09 dev vb");
            let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
            while until_seen.recv_timeout(Duration::from_millis(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = socket.send_to(&[7; 100], "10.9.0.1:9");
            }
        };
        with_two(near, far);
    }
}

#[test]
#[ignore = "wants root"]
fn frames_without_memory_are_counted() {
    with_pair(|| {
        let mut end = End::receiver("xdp:vb");
        end.device.rx_mut().unwrap().receive(&mut end.cache, &mut end.batch, 1).unwrap();
        let frames: Vec<Vec<u8>> = (0..10_000).map(|number| frame(number, 300)).collect();
        send_raw("va", &frames);
        let (mut received, mut dropped) = (Vec::new(), 0);
        eventually(Duration::from_secs(20), || {
            received.extend(end.receive_within(frames.len(), Duration::ZERO));
            dropped = drops(&mut end.device).iter().map(|one| one.1).sum();
            received.len() as u64 + dropped >= 10_000
        });
        assert!(dropped > 0 && received.len() as u64 + dropped == 10_000, "{} and {dropped}", received.len());
        let mut sent = frames.iter();
        assert!(received.iter().all(|one| sent.any(|other| other == one)), "whole, and in order");
        finish(end);
    });
}

#[test]
#[ignore = "wants root"]
fn frames_already_there_need_no_notification() {
    with_pair(|| {
        let mut end = End::receiver("xdp:vb");
        assert!(end.receive_within(1, Duration::from_millis(1)).is_empty());
        assert!(end.device.arm() && end.device.wait_fd().is_some());
        send_raw("va", &[frame(1, 60)]);
        let until = Instant::now() + Duration::from_secs(5);
        while end.device.arm() {
            assert!(Instant::now() < until, "nothing comes");
        }
        assert_eq!(end.receive(1).len(), 1);
        assert!(end.device.arm());
        finish(end);
    });
}
