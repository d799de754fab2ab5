//! Packets longer than a frame: as chains where a program asked for them, else dropped and counted, never
//! delivered in part.

use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use wharf::{Direction, PagePool, Port, Receiver, Sender, Wait};
use wharf_testkit::threads::{eventually, within_a_minute};

const LONG: Duration = Duration::from_secs(20);
/// Bytes of a datagram's Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
/// Bytes of the longest packet that fits a frame of a default pool.
const MOST: usize = 1536;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8).collect()
}

/// Sends a packet of `len` bytes, in pieces of a thousand.
fn send(sender: &mut Sender, len: usize) {
    let bytes = content(len);
    let mut pieces = bytes.chunks(1000).map(|chunk| {
        let mut piece = sender.packet(chunk.len() as u32, Wait::Never).unwrap();
        piece.bytes_mut().copy_from_slice(chunk);
        piece
    });
    let mut packet = pieces.next().unwrap();
    pieces.for_each(|piece| packet.append(piece).map_err(|(error, _)| error).unwrap());
    assert_eq!(packet.is_chain(), len > 1000);
    _ = sender.send_packet(packet, Wait::Forever).unwrap();
}

fn too_long(path: &Port, receiver: &Receiver) -> u64 {
    let (mut dropped, mut measured) = (0, 0);
    receiver.queue().drops(&mut |reason, count| dropped += if reason == "too-long" { count } else { 0 });
    // Metrics agree with the queue.
    eventually(LONG, || {
        path.metrics().each(&mut |metric| {
            let is_it = metric.name == "wharf_device_drops"
                && metric.labels.iter().any(|label| label.1 == "too-long");
            if is_it {
                measured = metric.value;
            }
        });
        measured == dropped
    });
    dropped
}

/// Sends a packet of each of `sizes` over a wire, and checks those that come.
fn over_a_wire(takes_chains: bool, sizes: impl Iterator<Item = usize> + Clone) {
    let near = Port::builder("wire", Direction::Send).takes_chains(takes_chains).build().unwrap();
    let far = near.far_end().unwrap();
    assert_eq!(far.pool().packet_bytes_max() as usize, MOST);
    let (mut sender, mut receiver) = (near.sender("test").unwrap(), far.served_receiver().unwrap());
    let mut arrived = far.burst(32);
    for len in sizes.clone() {
        send(&mut sender, len);
        if !takes_chains && len > MOST {
            continue;
        }
        assert_eq!(receiver.recv(&mut arrived, LONG).unwrap(), 1, "{len} B");
        assert_eq!(arrived.packets_mut().next().unwrap().is_chain(), len > MOST);
        let packet = arrived.pop().unwrap();
        assert_eq!((packet.is_chain(), packet.len()), (len > MOST, len));
        assert!(packet.chunks().flatten().eq(&content(len)), "{len} B");
        assert!(packet.is_chain() || packet.bytes() == content(len));
        assert_eq!(packet.head(), &content(len)[..len.min(MOST)]);
    }
    let lost = if takes_chains { 0 } else { sizes.clone().filter(|&len| len > MOST).count() as u64 };
    eventually(LONG, || receiver.queue().received() + lost >= sizes.clone().count() as u64);
    assert!(near.drain(LONG));
    assert_eq!(too_long(&far, &receiver), lost);
    drop((sender, receiver, arrived));
    assert_eq!([near.close(LONG).out(), far.close(LONG).out()], [0, 0]);
}

#[test]
fn packets_of_all_sizes_come_whole_or_are_counted() {
    within_a_minute(|| {
        let sizes = (60..1400).step_by(67).chain(1400..1620).chain([3000, 9000, 65_000]);
        over_a_wire(false, sizes.clone());
        over_a_wire(true, sizes);
    });
}

#[test]
fn datagrams_longer_than_a_frame_are_counted_or_come_as_chains() {
    within_a_minute(|| {
        for takes_chains in [false, true] {
            let path = Port::builder("udp:127.0.0.1:0", Direction::Receive).takes_chains(takes_chains);
            let path = path.build().unwrap();
            let address = path.name().trim_start_matches("udp:").to_string();
            let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
            let (mut receiver, mut arrived, mut lost) = (path.receiver().unwrap(), path.burst(8), 0);
            for len in (1400..1600).chain([4000, 1000]) {
                peer.send_to(&content(len), &address).unwrap();
                if !takes_chains && len + HEADERS > MOST {
                    lost += 1;
                    continue;
                }
                assert_eq!(receiver.recv(&mut arrived, LONG).unwrap(), 1, "{len} B");
                let packet = arrived.pop().unwrap();
                assert!(packet.chunks().flatten().skip(HEADERS).eq(&content(len)), "{len} B");
            }
            assert_eq!(too_long_by_call(&receiver), lost);
        }
    });
}

fn too_long_by_call(receiver: &Receiver) -> u64 {
    let mut dropped = 0;
    receiver.queue().drops(&mut |reason, count| dropped += if reason == "too-long" { count } else { 0 });
    dropped
}

#[test]
fn bytes_of_a_chain_are_no_part_of_it() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let mut packet = pool.packet(100).unwrap();
    packet.append(pool.packet(50).unwrap()).unwrap();
    let says = |read: &mut dyn FnMut()| {
        let panicked = catch_unwind(AssertUnwindSafe(read)).unwrap_err();
        let text = panicked.downcast_ref::<String>().cloned();
        text.or(panicked.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    };
    let mut said = vec![says(&mut || _ = packet.bytes()), says(&mut || _ = packet.bytes_mut())];
    assert_eq!(packet.head_mut().len(), 100);
    packet.prepend(14).unwrap().fill(1);
    let mut burst = pool.burst(2);
    burst.push(pool.packet(60).unwrap()).unwrap();
    burst.push(packet).unwrap();
    said.push(says(&mut || burst.iter().for_each(|_| ())));
    said.push(says(&mut || burst.iter_mut().for_each(|_| ())));
    said.push(says(&mut || burst.packets_mut().for_each(|mut packet| _ = packet.bytes_mut())));
    assert!(said.iter().all(|text| text.contains("chunks()") && text.contains("is_chain()")), "{said:?}");
    let lengths: Vec<usize> = burst.packets_mut().map(|packet| packet.chunks().flatten().count()).collect();
    assert_eq!(lengths, [60, 164]);
    drop(burst);
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn key_that_asks_for_super_packets_is_refused_with_the_call_that_takes_them() {
    let specs = ["tap:wharf-none,offload=on", "packet:lo,gso=keep"];
    #[cfg(feature = "vhost")]
    let specs =
        [&specs[..], &["vhost-user:/nowhere/s,offload=on", "virtio-user:/nowhere/s,offload=on"]].concat();
    for spec in specs {
        for direction in [Direction::Both, Direction::Receive] {
            let said = Port::open(spec, direction).unwrap_err().to_string();
            assert!(said.contains("PortBuilder::takes_chains(true)") && !said.contains('\n'), "{said}");
        }
    }
    // Each of these is past that check, whatever else is wrong.
    let large = PagePool::builder().frames(16).frame_bytes(66_176).huge_pages(false).build().unwrap();
    for path in [
        Port::builder("tap:wharf-no/name", Direction::Both).takes_chains(true),
        Port::builder("tap:wharf-no/name", Direction::Both),
        Port::builder("packet:wharf-no-name", Direction::Both),
        Port::builder("tap:wharf-no/name", Direction::Send),
        Port::builder("tap:wharf-no/name,offload=off", Direction::Both),
        Port::builder("tap:wharf-no/name", Direction::Both).pool(&large),
    ] {
        let said = path.build().unwrap_err().to_string();
        assert!(!said.contains("takes_chains"), "{said}");
    }
}
