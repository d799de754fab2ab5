//! Under a queue with its poller: conservation, and addresses that cannot be.

use super::rig::{PATIENCE, frame, socket};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::open::{Direction, open};
use wharf_testkit::content::content;
use wharf_testkit::threads::{eventually, within_a_minute};
use wharf_testkit::{assert_conserved, free_udp, pool};

fn queue(spec: &str) -> TxQueue {
    let device = open(spec, Direction::Send).unwrap().device;
    TxQueue::builder_of(&pool(1024), device, Arc::new(HostClock), Arc::new(HostPark))
        .unwrap()
        .build()
        .unwrap()
}

#[test]
fn many_senders_share_a_socket_and_all_is_accounted_for() {
    within_a_minute(|| {
        let (peer, address) = socket("127.0.0.1:0");
        peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let sent_all = over.clone();
        let reader = std::thread::spawn(move || {
            let (mut bytes, mut next, mut seen) = ([0; 2000], [0u32; 3], 0u64);
            loop {
                // Looked at before receiving: silence means the end only where all was sent before it began.
                let is_last = sent_all.load(Acquire);
                let len = match peer.recv(&mut bytes) {
                    Ok(len) => len,
                    Err(_) if is_last => return seen,
                    Err(_) => continue,
                };
                let (who, number) = (bytes[3] as usize, u32::from_be_bytes(bytes[4..8].try_into().unwrap()));
                assert!(content(who as u32, number, len).eq(bytes[..len].iter().copied()));
                // Loopback may drop, and never reorders.
                assert!(number >= next[who], "sender {who}");
                (next[who], seen) = (number + 1, seen + 1);
            }
        });
        let queue = queue(&format!("udp:{address}"));
        let poller = PollerThread::start(&queue).unwrap();
        let threads = [0u32, 1, 2].map(|who| {
            let mut sender = queue.sender("test").unwrap();
            std::thread::spawn(move || {
                for number in 0..2000 {
                    let bytes = frame(address, address, &content(who, number, 200).collect::<Vec<u8>>());
                    let mut packet = sender.packet(bytes.len() as u32, Wait::Forever).unwrap();
                    packet.bytes_mut().copy_from_slice(&bytes);
                    _ = sender.send_packet(packet, Wait::Forever).unwrap();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.drain(Duration::MAX));
        drop(poller);
        queue.shutdown(Duration::MAX);
        assert_conserved(&queue);
        assert_eq!(queue.counters().sent.get(), 6000);
        over.store(true, Release);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn sleeping_poller_hands_over_arrivals() {
    within_a_minute(|| {
        let local = free_udp("127.0.0.1");
        let queue = queue(&format!("udp:{local},dest=frame"));
        let count = Arc::new(AtomicU64::new(0));
        let seen = count.clone();
        let receiver = RxQueue::of(
            &queue,
            Box::new(move |burst: &mut Burst| {
                seen.fetch_add(burst.len() as u64, Relaxed);
                Rest::Free
            }),
        );
        let receiver = receiver.unwrap();
        let poller = PollerThread::builder().receiver(&receiver).start().unwrap();
        let (peer, _) = socket("127.0.0.1:0");
        let slept = || poller.counters().sleeps.get();
        for round in 1..=20 {
            let before = slept();
            peer.send_to(b"knock", local).unwrap();
            eventually(PATIENCE, || count.load(Relaxed) == round);
            eventually(PATIENCE, || slept() > before);
        }
        drop(poller);
        queue.shutdown(Duration::MAX);
        assert_conserved(&queue);
    });
}

#[test]
fn addresses_that_cannot_be_say_so_in_one_line() {
    let (_held, taken) = socket("127.0.0.1:0");
    let cases = [
        (format!("udp:{taken}"), Direction::Receive, "in use"),
        ("udp:192.0.2.1:5000".into(), Direction::Receive, "no address of this machine"),
        (
            "udp:no-such-host.invalid:5000".into(),
            Direction::Send,
            "no address of no-such-host.invalid is known",
        ),
        ("udp:255.255.255.255:5000".into(), Direction::Send, "may not send there"),
    ];
    for (spec, direction, says) in cases {
        let told = open(&spec, direction).unwrap_err().to_string();
        assert!(told.contains(says) && told.starts_with("udp:") && !told.contains('\n'), "{spec}: {told}");
    }
}

#[test]
fn port_0_becomes_a_port_shown_in_the_name() {
    for direction in [Direction::Receive, Direction::Both] {
        for host in ["127.0.0.1", "localhost"] {
            let name = open(&format!("udp:{host}:0,dest=frame"), direction).unwrap().device.name();
            let port = name.strip_prefix(&format!("udp:{host}:")).and_then(|port| port.parse::<u16>().ok());
            assert!(port > Some(0), "{name}");
        }
    }
}
