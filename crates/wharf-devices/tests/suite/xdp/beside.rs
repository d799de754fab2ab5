//! `xdp:` and `packet:` beside each other: two transmit queues, and two processors, for an interface of one queue.

use crate::net::{frame, with_pair};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_testkit::content::len_of;
use wharf_testkit::end::End;
use wharf_testkit::{assert_conserved, pool};

const SPECS: [&str; 2] = ["xdp:va", "packet:va,bypass=on"];
const LONG: Duration = Duration::from_secs(20);

fn queue(spec: &str, pool: &PagePool) -> TxQueue {
    let device = open(spec, Direction::Send).unwrap().device;
    TxQueue::builder_of(pool, device, Arc::new(HostClock), Arc::new(HostPark)).unwrap().build().unwrap()
}

/// Returns `count` frames of a flow; the last byte of their source address is its number.
fn frames(flow: u8, count: u32) -> Vec<Vec<u8>> {
    let one = |number| {
        let mut bytes = frame(number, len_of(number));
        bytes[11] = flow;
        bytes
    };
    (0..count).map(one).collect()
}

fn send(queue: &TxQueue, frames: &[Vec<u8>]) {
    let mut sender = queue.sender("test").unwrap();
    for bytes in frames {
        let mut packet = sender.packet(bytes.len() as u32, Wait::Forever).unwrap();
        packet.bytes_mut().copy_from_slice(bytes);
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
    }
}

#[test]
#[ignore = "wants root"]
fn each_flow_arrives_whole_and_in_order() {
    with_pair(|| {
        let mut to = End::receiver("packet:vb");
        let pool = pool(512);
        let queues = SPECS.map(|spec| queue(spec, &pool));
        let sent = [frames(0, 3000), frames(1, 3000)];
        let received = thread::scope(|scope| {
            queues.iter().zip(&sent).for_each(|(queue, frames)| _ = scope.spawn(|| send(queue, frames)));
            to.receive(6000)
        });
        for (flow, frames) in (0..).zip(&sent) {
            let of_flow = received.iter().filter(|bytes| bytes[11] == flow);
            assert!(of_flow.eq(frames), "flow {flow} differs from what was sent");
        }
        for queue in &queues {
            assert!(queue.drain(LONG), "stuck");
            queue.shutdown(Duration::ZERO);
        }
        queues.iter().for_each(assert_conserved);
    });
}

#[test]
#[ignore = "wants root"]
fn one_that_is_closed_in_flight_leaves_the_other_alone() {
    with_pair(|| {
        for round in 0..10 {
            let pool = pool(512);
            let [closed, stays] = [round % 2, 1 - round % 2].map(|at| queue(SPECS[at], &pool));
            thread::scope(|scope| {
                scope.spawn(|| send(&stays, &frames(1, 1500)));
                send(&closed, &frames(0, 50 * round as u32));
                closed.shutdown(Duration::ZERO);
            });
            assert!(stays.drain(LONG), "stuck");
            stays.shutdown(Duration::ZERO);
            assert_eq!(stays.counters().sent.get(), 1500, "{:?}", stays.counters().failures());
            [closed, stays].iter().for_each(assert_conserved);
        }
    });
}
