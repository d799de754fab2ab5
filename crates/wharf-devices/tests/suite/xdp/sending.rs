//! Sent frames, as tcpdump sees them at the other end.

use crate::net::{Tcpdump, enter_with, frame, ip, with_pair};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_core::host::Clock;
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::open::{Direction, open};
use wharf_mem::Meta;
use wharf_packet::checksum::complete_transport;
use wharf_sys::clock::monotonic_ns;
use wharf_testkit::content::len_of;
use wharf_testkit::end::End;
use wharf_testkit::packets::{Shape, cut, packet_of};
use wharf_testkit::threads::{eventually, within_a_minute};
use wharf_testkit::{assert_conserved, pool};

/// Over frames of `frame_bytes` (and 64 of headroom), which decides how the kernel is told of the memory.
fn sends(spec: &'static str, frame_bytes: u32, name: &'static str) {
    with_pair(move || {
        let tcpdump = Tcpdump::start("vb", 3000, name);
        let mut end = End::new(spec, Direction::Send, frame_bytes);
        assert_eq!(end.device.mode(), Some("copy"), "a veth can do no better");
        let frames: Vec<Vec<u8>> = (0..3000).map(|number| frame(number, len_of(number))).collect();
        for some in frames.chunks(50) {
            some.iter().for_each(|bytes| end.offer(bytes));
            assert_eq!(end.send_all(), (some.len(), vec![]));
        }
        let captured = tcpdump.frames();
        assert_eq!(captured.len(), frames.len());
        assert!(captured == frames, "frames differ from those sent");
        end.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn every_byte_arrives_in_order() {
    sends("xdp:va", 2048 - 64, "xdp");
}

#[test]
#[ignore = "wants root"]
fn from_pages() {
    sends("xdp:va,mode=copy", 4096 - 64, "xdp-pages");
}

#[test]
#[ignore = "wants root"]
fn from_buffers_of_an_odd_length() {
    sends("xdp:va,queue=0", 2240 - 64, "xdp-odd");
}

#[test]
#[ignore = "wants root"]
fn from_buffers_longer_than_a_page() {
    sends("xdp:va", 16_384 - 64, "xdp-long");
}

#[test]
#[ignore = "wants root"]
fn jumbo_frames_go_out_in_pieces_and_chains_as_one() {
    with_pair(|| {
        ip("link set va mtu 9000");
        ip("link set vb mtu 9000");
        let tcpdump = Tcpdump::start_whole("vb", 40, "xdp-jumbo");
        let mut end = End::new("xdp:va", Direction::Send, 16_384 - 64);
        let mut frames: Vec<Vec<u8>> =
            (0..20).map(|number| frame(number, 4000 + 251 * number as usize)).collect();
        frames.iter().for_each(|bytes| end.offer(bytes));
        assert_eq!(end.send_all(), (20, vec![]));
        end.assert_all_home();
        drop(end);
        // The same queue again, and chains of frames of 1536 bytes.
        let mut end = End::new("xdp:va", Direction::Send, 2048 - 64);
        for number in 20..40 {
            let bytes = frame(number, 2000 + 240 * (number as usize - 10));
            end.offer_chain(&bytes);
            frames.push(bytes);
        }
        assert_eq!(end.send_all(), (20, vec![]));
        assert!(tcpdump.frames() == frames, "frames differ from those sent");
        end.assert_all_home();
    });
}

/// The sender's memory keeps the unfinished checksum, so the finished one is the kernel's.
#[test]
#[ignore = "wants root"]
fn checksums_left_to_the_kernel_arrive_finished() {
    with_pair(|| {
        ip("link set va mtu 9000");
        ip("link set vb mtu 9000");
        let tcpdump = Tcpdump::start_whole("vb", 8, "xdp-offload");
        let mut end = End::new("xdp:va,csum=offload", Direction::Send, 2048 - 64);
        assert_eq!(end.device.mode(), Some("copy, checksums by the kernel"));
        let mut expected = Vec::new();
        for number in 0..8 {
            let (is_udp, is_ipv6, is_chain) = (number & 1 == 1, number & 2 == 2, number & 4 == 4);
            let payload = if is_chain { 5000 } else { 700 };
            let shape = Shape { is_udp, is_ipv6, gso_bytes: 0, payload, ..Shape::default() };
            let (mut bytes, meta) = shape.packet();
            let meta = Meta { gso_kind: 0, ..meta };
            end.offer_with(&bytes, Some(&meta));
            let (start, offset) = (meta.checksum_start.into(), meta.checksum_offset.into());
            let unfinished = bytes.clone();
            assert!(complete_transport(&mut bytes, start, offset) && bytes != unfinished);
            expected.push(bytes);
            end.device.tx_mut().unwrap().transmit(&mut end.batch, false);
            let until = Instant::now() + Duration::from_secs(5);
            while end.done.is_empty() && Instant::now() < until {
                end.device.tx_mut().unwrap().reap(1, false, &mut end.done).unwrap();
            }
            let first = end.pool.region().bytes(&end.done.sent.frames()[0]).unwrap();
            // Of several buffers the kernel would sum up the first: these are filled in before.
            assert_eq!(first != &unfinished[..first.len()], is_chain, "number {number}");
            end.cache.give(&mut end.done.sent).unwrap();
        }
        assert!(tcpdump.frames() == expected, "other frames than those with finished checksums");
        end.assert_all_home();
    });
}

/// Frames that ask for it have the time of the kernel's stamp, those that do not ask have none, and what arrives is the same.
#[test]
#[ignore = "wants root"]
fn frames_that_ask_get_the_time_at_which_the_kernel_had_sent_them() {
    with_pair(|| {
        let tcpdump = Tcpdump::start("vb", 40, "xdp-stamps");
        let mut end = End::new("xdp:va,timestamps=on,csum=offload", Direction::Send, 2048 - 64);
        assert!(end.device.tx_mut().unwrap().info().timestamps);
        let asks = Meta { time_ns: Meta::ASKS_TIME, ..Meta::default() };
        let mut expected = Vec::new();
        for number in 0..40 {
            let (mut bytes, meta) =
                Shape { is_udp: true, gso_bytes: 0, payload: 700, ..Shape::default() }.packet();
            let meta = Meta { gso_kind: 0, ..meta };
            let (start, offset) = (meta.checksum_start.into(), meta.checksum_offset.into());
            match number % 4 {
                // The stamp is written over the request for the checksum, which is done by then.
                0 => end.offer_with(&bytes, Some(&Meta { time_ns: Meta::ASKS_TIME, ..meta })),
                1 => end.offer_with(&bytes, Some(&meta)),
                asked => {
                    assert!(complete_transport(&mut bytes, start, offset));
                    end.offer_with(&bytes, (asked == 2).then_some(&asks));
                }
            }
            if number % 4 < 2 {
                assert!(complete_transport(&mut bytes, start, offset));
            }
            expected.push(bytes);
            let before_ns = monotonic_ns();
            end.device.tx_mut().unwrap().transmit(&mut end.batch, false);
            let until = Instant::now() + Duration::from_secs(5);
            while end.done.is_empty() && Instant::now() < until {
                end.device.tx_mut().unwrap().reap(1, false, &mut end.done).unwrap();
            }
            let meta = end.pool.region().meta(&end.done.sent.frames()[0]).unwrap();
            let between = |ns: u64| (before_ns..=monotonic_ns()).contains(&ns);
            assert_eq!(
                meta.stamp_ns().is_some_and(between),
                number % 2 == 0,
                "{number}: {meta:?} from {before_ns}"
            );
            end.cache.give(&mut end.done.sent).unwrap();
        }
        assert!(tcpdump.frames() == expected, "other frames than those sent");
        end.assert_all_home();
        drop(end);
        let mut both = End::new("xdp:va,timestamps=on", Direction::Both, 2048 - 64);
        assert!(both.device.tx_mut().unwrap().info().timestamps);
        drop(both);
        // Without the key no device says that it stamps.
        let mut end = End::new("xdp:va", Direction::Send, 2048 - 64);
        assert!(!end.device.tx_mut().unwrap().info().timestamps);
    });
}

/// A slow wire behind the other end holds the kernel's copies: their stamps are written when these leave.
#[test]
#[ignore = "wants root"]
fn no_stamp_is_written_into_memory_that_has_come_back() {
    with_pair(|| {
        ip("link add ifb0 type ifb");
        ip("link set ifb0 up");
        let tc = |args: &str| {
            let ran = Command::new("tc").args(args.split(' ')).status();
            assert!(ran.is_ok_and(|status| status.success()), "tc {args}");
        };
        tc("qdisc add dev ifb0 root tbf rate 160kbit burst 2k limit 1m");
        tc("qdisc add dev vb ingress");
        tc(
            "filter add dev vb parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0",
        );
        let mut end = End::new("xdp:va,timestamps=on", Direction::Send, 2048 - 64);
        let asks = Meta { time_ns: Meta::ASKS_TIME, ..Meta::default() };
        (0..20).for_each(|number| end.offer_with(&frame(number, 1000), Some(&asks)));
        end.device.tx_mut().unwrap().transmit(&mut end.batch, false);
        end.device.tx_mut().unwrap().close().unwrap();
        end.device.tx_mut().unwrap().reap(64, false, &mut end.done).unwrap();
        let mut back: Vec<_> = end.done.failed.drain(..).map(|(frame, _)| frame).collect();
        assert!(back.len() > 10, "{} frames were still with the kernel", back.len());
        let region = end.pool.region().clone();
        for frame in &mut back {
            region.bytes_and_before_mut(frame, 24).unwrap()[..24].fill(0xaa);
        }
        eventually(Duration::from_secs(50), || {
            let shown = Command::new("tc").args(["-s", "qdisc", "show", "dev", "ifb0"]).output().unwrap();
            String::from_utf8_lossy(&shown.stdout).contains("backlog 0b")
        });
        for frame in &mut back {
            assert_eq!(region.bytes_and_before_mut(frame, 24).unwrap()[..24], [0xaa; 24]);
        }
        back.into_iter().for_each(|frame| end.cache.give_one(frame).unwrap());
        end.cache.give(&mut end.done.sent).unwrap();
    });
}

#[test]
#[ignore = "wants root"]
fn a_frame_without_room_for_metadata_fails_and_the_others_leave() {
    with_pair(|| {
        let mut end = End::new("xdp:va,csum=offload", Direction::Send, 2048 - 64);
        for number in 0..3 {
            end.offer(&frame(number, 100));
            if number == 1 {
                let last = end.batch.frames_mut().last_mut().unwrap();
                end.pool.region().prepend(last, 50).unwrap();
                end.batch.refresh();
            }
        }
        assert_eq!(end.send_all(), (2, vec!["no-headroom"]));
        end.assert_all_home();
        drop(end);
        // Without, any frame will do; and pools whose frames have no room leave nothing to the kernel.
        let mut end = End::new("xdp:va,csum=offload", Direction::Send, 16_384 - 64);
        assert_eq!(end.device.mode(), Some("copy"));
        let reason = end.device.mode_reason().unwrap();
        assert!(reason.is_curable && reason.what.contains("4096 bytes at most"), "{}", reason.what);
        let (bytes, meta) = Shape { gso_bytes: 0, payload: 700, ..Shape::default() }.packet();
        end.offer_with(&bytes, Some(&Meta { gso_kind: 0, ..meta }));
        assert_eq!(end.send_all(), (1, vec![]));
        end.assert_all_home();
    });
}

/// Each has a socket of its own, over the same memory.
#[test]
#[ignore = "wants root"]
fn two_queues_of_one_interface_from_one_pool() {
    within_a_minute(|| {
        enter_with("va numtxqueues 2 numrxqueues 2 type veth peer name vb numtxqueues 2 numrxqueues 2");
        ip("link set va up");
        ip("link set vb up");
        let mut to = End::receiver("packet:vb");
        let mut first = End::sender("xdp:va,queue=0");
        let mut second = open("xdp:va,queue=1", Direction::Send).unwrap().device;
        second.attach(first.pool.region().clone()).unwrap();
        let frames: Vec<Vec<u8>> = (0..200).map(|number| frame(number, len_of(number))).collect();
        for (number, bytes) in frames.iter().enumerate() {
            first.offer(bytes);
            if number % 2 == 1 {
                std::mem::swap(&mut first.device, &mut second);
            }
            assert_eq!(first.send_all(), (1, vec![]));
        }
        let mut received = to.receive(frames.len());
        received.sort_unstable();
        let mut frames = frames;
        frames.sort_unstable();
        assert!(received == frames, "frames differ from those sent");
        first.assert_all_home();
    });
}

/// A queue with its threads: all that was accepted has left, and the byte limit has learnt something.
#[test]
#[ignore = "wants root"]
fn a_path_over_it_adds_up() {
    with_pair(|| {
        let device = open("xdp:va", Direction::Send).unwrap().device;
        let pool = pool(2048);
        let queue = TxQueue::builder_of(&pool, device, Arc::new(HostClock), Arc::new(HostPark))
            .unwrap()
            .build()
            .unwrap();
        let poller = PollerThread::start(&queue).unwrap();
        let mut sender = queue.sender("test").unwrap();
        let mut burst = sender.burst(32);
        for round in 0..300 {
            while burst.is_empty() {
                sender.fill(&mut burst, 32, 60 + round, Wait::Forever).unwrap();
            }
            for (packet, number) in burst.iter_mut().zip(0..) {
                let len = packet.len();
                packet.copy_from_slice(&frame(number, len));
            }
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
        drop(sender);
        assert!(queue.drain(Duration::from_secs(20)), "stuck");
        drop(poller);
        queue.shutdown(Duration::ZERO);
        assert_conserved(&queue);
        let counters = queue.counters();
        assert_eq!(
            (queue.device_mode(), counters.sent.get(), counters.failed.get()),
            (Some("copy"), 9600, 0)
        );
        assert!(counters.bql_limit_bytes.get() > 0 && counters.packets_per_doorbell() > 30.0);
    });
}

/// Super-packets of all kinds, several in one bulk, with ordinary frames between them.
#[test]
#[ignore = "wants root"]
fn super_packets_leave_in_pieces() {
    with_pair(|| {
        let mut to = End::receiver("packet:vb");
        let device = open("xdp:va", Direction::Send).unwrap().device;
        let pool = pool(1024);
        let builder = TxQueue::builder_of(&pool, device, Arc::new(HostClock), Arc::new(HostPark)).unwrap();
        let mut direct = builder.build_direct().unwrap();
        let mut cache = pool.cache("test").unwrap();
        let (mut burst, mut expected) = (pool.burst(8), Vec::new());
        for (number, (is_udp, is_ipv6)) in
            [(false, false), (false, true), (true, false), (true, true)].into_iter().enumerate()
        {
            let (bytes, meta) = Shape { is_udp, is_ipv6, ..Shape::default() }.packet();
            burst.push(packet_of(&bytes, Some(&meta), |len| cache.packet(len).unwrap())).unwrap();
            expected.extend(cut(&bytes, &meta));
            let plain = frame(number as u32, 60);
            burst.push(packet_of(&plain, None, |len| cache.packet(len).unwrap())).unwrap();
            expected.push(plain);
        }
        _ = direct.send(&mut burst, Wait::Forever).unwrap();
        assert!(to.receive(expected.len()) == expected, "frames differ from those sent");
        let until = HostClock.now_ns() + 5_000_000_000;
        while direct.pending() > 0 && HostClock.now_ns() < until {
            direct.poll();
        }
        let counters = direct.counters();
        assert_eq!((counters.sent.get(), counters.failed.get(), counters.packets.get()), (8, 0, 8));
        drop(burst);
        drop(direct.close());
        assert_eq!(pool.audit().out(), 0);
        to.assert_all_home();
    });
}
