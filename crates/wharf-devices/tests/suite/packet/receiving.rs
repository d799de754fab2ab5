//! Reception of frames that a plain socket sent.

use crate::net::{frame, ip, send_raw, with_net, with_pair};
use std::io::IoSlice;
use std::time::{Duration, Instant};
use wharf_core::device::{AnyDevice, RxDevice};
use wharf_devices::packet::{PacketReceiver, ReceiveOptions, ReceiveVersion, SuperPackets};
use wharf_sys::tap::{Tap, VNET_HEADER_BYTES};
use wharf_testkit::content::len_of;
use wharf_testkit::end::End;
use wharf_testkit::packets::Shape;
use wharf_testkit::threads::eventually;

fn kernel_drops(device: &mut AnyDevice) -> u64 {
    let mut drops = 0;
    device.rx_mut().unwrap().drops(&mut |reason, count| {
        assert!(reason == "ring-full" || count == 0, "{reason}: {count}");
        drops += count;
    });
    drops
}

#[test]
#[ignore = "wants root"]
fn every_byte_arrives_in_order() {
    assert_all_arrive("packet:vb", 5000);
}

#[test]
#[ignore = "wants root"]
fn every_byte_arrives_in_order_by_version_2() {
    // All slots of its ring but the one that the receiver has until its next poll.
    assert_all_arrive("packet:vb,tpacket=v2", 255);
    assert_all_arrive("packet:vb,tpacket=v2,buffer=256m", 2000);
}

fn assert_all_arrive(spec: &'static str, count: u32) {
    with_pair(move || {
        let mut end = End::receiver(spec);
        let frames: Vec<Vec<u8>> = (0..count).map(|number| frame(number, len_of(number))).collect();
        for _ in 0..3 {
            send_raw("va", &frames);
            assert!(end.receive(frames.len()) == frames, "frames differ from those sent");
        }
        assert_eq!(kernel_drops(&mut end.device), 0);
        end.assert_all_home();
    });
}

/// A frame of a virtual machine's by UFO, which no virtio net header of the kernel's describes.
#[test]
#[ignore = "wants root"]
fn super_packet_by_ufo_then_a_ring_of_version_2_is_made_anew() {
    with_net(|| {
        const UFO: u8 = 3;
        let (tap, guest) =
            (Tap::open("t0", false).unwrap(), Shape { is_udp: true, payload: 3000, ..Shape::default() });
        ip("link set t0 up");
        let mut end = End::receiver("packet:t0,tpacket=v2");
        let plain = frame(1, 100);
        let write = |header: [u8; VNET_HEADER_BYTES], bytes: &[u8]| {
            assert!(tap.write(&[IoSlice::new(&header), IoSlice::new(bytes)]).is_ok());
        };
        write([0; VNET_HEADER_BYTES], &plain);
        assert_eq!(end.receive(1), std::slice::from_ref(&plain));
        let (bytes, meta) = guest.packet();
        let [header_bytes, gso_bytes] = [42, meta.gso_bytes].map(u16::to_le_bytes);
        let [start, offset] = [meta.checksum_start, meta.checksum_offset].map(u16::to_le_bytes);
        let header = [&[1, UFO][..], &header_bytes, &gso_bytes, &start, &offset].concat();
        write(header.try_into().unwrap(), &bytes);
        // It goes on, however the poller comes: after a while all frames arrive again.
        let began = Instant::now();
        while end.receive_within(1, Duration::from_millis(20)).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(5), "the ring is stuck");
            write([0; VNET_HEADER_BYTES], &plain);
        }
        let frames: Vec<_> = (0..100).map(|number| frame(number, 200)).collect();
        end.receive_within(1000, Duration::from_millis(50));
        frames.iter().for_each(|bytes| write([0; VNET_HEADER_BYTES], bytes));
        assert_eq!(end.receive(frames.len()), frames);
        assert!(kernel_drops(&mut end.device) > 0, "the frame by UFO counts as dropped");
        end.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn tags_are_where_they_were() {
    assert_tags_stay("packet:vb");
    assert_tags_stay("packet:vb,tpacket=v2");
}

fn assert_tags_stay(spec: &'static str) {
    with_pair(move || {
        let mut end = End::receiver(spec);
        let tagged = |tags: &[u8]| {
            let mut bytes = frame(tags.len() as u32, 100);
            bytes.splice(12..12, tags.iter().copied());
            bytes
        };
        let frames = [
            tagged(&[0x81, 0x00, 0x60, 0x05]),
            tagged(&[0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x20, 0x07]),
            tagged(&[0x81, 0x00, 0x00, 0x00]),
            tagged(&[]),
        ];
        send_raw("va", &frames);
        assert_eq!(end.receive(frames.len()), frames);
        end.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn frames_sent_by_this_host_are_not_received() {
    with_pair(|| {
        let mut end = End::receiver("packet:vb");
        let [theirs, later] = [2, 4].map(|number| frame(number, 60));
        for (number, frame_of_theirs) in [(1, &theirs), (3, &later)] {
            send_raw("vb", [&frame(number, 60)]);
            send_raw("va", [frame_of_theirs]);
        }
        assert_eq!(end.receive(2), [theirs, later]);
    });
}

/// More than the rings of the group have room for: none of them gets there.
#[test]
#[ignore = "wants root"]
fn frames_sent_by_this_host_take_no_room_in_several_queues() {
    with_pair(|| {
        let options = ReceiveOptions {
            super_packets: SuperPackets::Cut,
            buffer_bytes: 256 << 10,
            promiscuous: true,
            version: ReceiveVersion::V3,
        };
        let mut group = PacketReceiver::open_queues("vb", options, 2).unwrap();
        let frames: Vec<Vec<u8>> = (0..20_000).map(|number| frame(number, 300)).collect();
        send_raw("vb", &frames);
        for one in &mut group {
            one.drops(&mut |reason, count| assert_eq!(count, 0, "{reason}"));
        }
    });
}

#[test]
#[ignore = "wants root"]
fn frames_beyond_the_ring_are_counted() {
    assert_drops_are_counted("packet:vb,buffer=256k");
    assert_drops_are_counted("packet:vb,buffer=256k,tpacket=v2");
}

fn assert_drops_are_counted(spec: &'static str) {
    with_pair(move || {
        let mut end = End::receiver(spec);
        let frames: Vec<Vec<u8>> = (0..20_000).map(|number| frame(number, 300)).collect();
        send_raw("va", &frames);
        let (mut received, mut drops) = (Vec::new(), 0);
        eventually(Duration::from_secs(20), || {
            received.extend(end.receive_within(frames.len(), Duration::ZERO));
            drops = kernel_drops(&mut end.device);
            received.len() as u64 + drops >= 20_000
        });
        assert!(drops > 0 && received.len() as u64 + drops == 20_000, "{} and {drops}", received.len());
        // Reading the kernel's counter resets it; ours goes on.
        assert_eq!(kernel_drops(&mut end.device), drops);
        let mut sent = frames.iter();
        assert!(received.iter().all(|one| sent.any(|other| other == one)), "whole, and in order");
        end.assert_all_home();
    });
}
