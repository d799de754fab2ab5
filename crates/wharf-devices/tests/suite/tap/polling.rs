//! One device both ways under a poller: it sleeps while nothing happens, and wakes for arrivals and completions.

use crate::net::{frame, ip, with_net};
use crate::polling::Polling;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wharf_core::poller::Mode;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::open::{Direction, open};
use wharf_testkit::end::End;
use wharf_testkit::threads::eventually;
use wharf_testkit::{assert_conserved, pool};

fn queue(spec: &str) -> TxQueue {
    let device = open(spec, Direction::Send).unwrap_or_else(|error| panic!("{error}")).device;
    TxQueue::builder_of(&pool(1024), device, Arc::new(HostClock), Arc::new(HostPark))
        .unwrap()
        .build()
        .unwrap()
}

/// Receives at the device of `queue`; returns the receiver and the arrivals.
fn arrivals(queue: &TxQueue) -> (RxQueue, Receiver<Vec<u8>>) {
    let (arrives, arrived) = channel();
    let handler = Box::new(move |burst: &mut Burst| {
        burst.iter_mut().for_each(|bytes| arrives.send(bytes.to_vec()).unwrap());
        Rest::Free
    });
    (RxQueue::of(queue, handler).unwrap(), arrived)
}

fn idles_and_wakes(mode: Mode) {
    with_net(move || {
        let queue = queue("tap:t0");
        let (receiver, arrived) = arrivals(&queue);
        let polling = Polling::start(mode, None, &receiver);
        let (mut kernel, mut to) = (End::sender("packet:t0"), End::receiver("packet:t0"));
        let mut sender = queue.sender("test").unwrap();
        for number in 0..50 {
            let (bytes, slept) = (frame(number, 100), polling.slept());
            kernel.offer(&bytes);
            assert_eq!(kernel.send_all(), (1, vec![]));
            // Only the poller reads this file, so it has been woken.
            assert_eq!(arrived.recv_timeout(Duration::from_secs(20)), Ok(bytes.clone()));
            let mut packet = sender.packet(100, Wait::Never).unwrap();
            packet.bytes_mut().copy_from_slice(&bytes);
            _ = sender.send_packet(packet, Wait::Forever).unwrap();
            assert_eq!(to.receive(1), [bytes]);
            eventually(Duration::from_secs(20), || polling.slept() > slept);
        }
        polling.sleeps("nothing happens");
        drop(polling);
        drop(sender);
        assert!(queue.drain(Duration::MAX));
        assert_conserved(&queue);
        assert_eq!((queue.counters().sent.get(), queue.shutdown(Duration::MAX).out()), (50, 0));
    });
}

#[test]
#[ignore = "wants root"]
fn a_sleeping_poller_takes_no_time_while_idle_and_wakes_for_every_frame() {
    idles_and_wakes(Mode::Sleeping);
}

#[test]
#[ignore = "wants root"]
fn and_so_does_an_adaptive_one() {
    idles_and_wakes(Mode::Adaptive);
}

fn tc(arguments: &str) -> String {
    let output = Command::new("tc").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packets that come in at the interface go through a slow qdisc with little room.
#[test]
#[ignore = "wants root"]
fn send_buffer_makes_senders_wait_for_a_shaper_behind_the_interface() {
    with_net(|| {
        let queue = queue("tap:t0,sndbuf=16k");
        ip("link add ifb9 type ifb");
        ip("link set ifb9 up");
        tc("qdisc add dev ifb9 root tbf rate 40mbit burst 4k limit 32k");
        tc("qdisc add dev t0 ingress");
        tc(
            "filter add dev t0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb9",
        );
        let poller = PollerThread::start(&queue).unwrap();
        let mut sender = queue.sender("test").unwrap();
        let mut burst = sender.burst(32);
        for number in 0..32 {
            while burst.len() < 32 {
                let missing = 32 - burst.len();
                sender.fill(&mut burst, missing, 1000, Wait::Forever).unwrap();
            }
            burst.iter_mut().for_each(|bytes| bytes.copy_from_slice(&frame(number, 1000)));
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
        drop((burst, sender));
        assert!(queue.drain(Duration::MAX));
        drop(poller);
        assert!(queue.counters().requeues.get() > 0, "it never had to wait");
        assert_eq!((queue.counters().sent.get(), queue.counters().failed.get()), (1024, 0));
        assert_conserved(&queue);
        assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
        let shown = tc("-s qdisc show dev ifb9");
        assert!(shown.contains("dropped 0,"), "{shown}");
    });
}
