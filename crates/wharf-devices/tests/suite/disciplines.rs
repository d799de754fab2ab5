//! `fq_codel` behind a rate over interfaces of the kernel's: every packet is sent or dropped by reason.

use crate::net::{with_net, with_pair};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use wharf_core::qdisc::contract::write_packet;
use wharf_core::qdisc::{CODEL, FqCodel, FqCodelOptions, Rate, Tbf};
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_testkit::pool;

const OFFERED: u64 = 2000;

/// Sends four flows as fast as the discipline takes them.
fn packets_are_sent_or_dropped_by_codel(spec: &str) {
    let memory = pool(2048);
    let device = open(spec, Direction::Send).unwrap().device;
    let options = FqCodelOptions {
        target: Duration::from_millis(1),
        interval: Duration::from_millis(10),
        limit_packets: 500,
        ..FqCodelOptions::default()
    };
    let qdisc = Tbf::new(FqCodel::new(options), Rate::new(50_000_000));
    let builder = TxQueue::builder_of(&memory, device, Arc::new(HostClock), Arc::new(HostPark)).unwrap();
    let queue = builder.qdisc(Box::new(qdisc)).small_queues(None).build().unwrap();
    let mut sender = queue.sender("test").unwrap();
    let (poller, stop) = queue.poller();
    let polling = thread::spawn(|| poller.run());
    for number in 0..OFFERED {
        let mut packet = sender.packet(1514, Wait::Never).unwrap();
        write_packet(packet.bytes_mut(), number as u16 % 4, 0, number);
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
    }
    assert!(queue.drain(Duration::MAX));
    stop.stop();
    polling.join().unwrap();
    drop(sender);
    let counters = queue.counters();
    let [accepted, sent, failed] =
        [&counters.accepted, &counters.sent, &counters.failed].map(|counter| counter.get());
    assert_eq!((accepted, sent + failed), (OFFERED, OFFERED), "{spec}");
    assert!(sent > 500 && failed > 10, "{spec}: {sent} sent, {failed} dropped");
    assert_eq!(counters.failures(), [(CODEL, failed)], "{spec}");
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0, "{spec}");
}

#[test]
#[ignore = "wants root"]
fn fq_codel_over_packet_accounts_for_each_packet() {
    with_pair(|| packets_are_sent_or_dropped_by_codel("packet:va"));
}

#[test]
#[ignore = "wants root"]
fn fq_codel_over_xdp_accounts_for_each_packet() {
    with_pair(|| packets_are_sent_or_dropped_by_codel("xdp:va"));
}

#[test]
#[ignore = "wants root"]
fn fq_codel_over_tap_accounts_for_each_packet() {
    with_net(|| packets_are_sent_or_dropped_by_codel("tap:t0"));
}
