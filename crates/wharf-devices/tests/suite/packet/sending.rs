//! Sent frames, as tcpdump sees them at the other end.

use crate::net::{Tcpdump, frame, ip, with_pair, with_two};
use std::ops::Range;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use wharf_core::host::Clock;
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread, pin, processors};
use wharf_devices::open::{Direction, open};
use wharf_testkit::content::len_of;
use wharf_testkit::end::End;
use wharf_testkit::{assert_conserved, pool};

fn sends(spec: &'static str, count: u32, name: &'static str) {
    with_pair(move || {
        let tcpdump = Tcpdump::start("vb", count as usize, name);
        let mut end = End::sender(spec);
        let frames: Vec<Vec<u8>> = (0..count).map(|number| frame(number, len_of(number))).collect();
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
    sends("packet:va", 3000, "send");
}

#[test]
#[ignore = "wants root"]
fn and_past_the_qdisc() {
    sends("packet:va,bypass=on", 3000, "bypass");
}

/// A ring of whatever fits one block; many times round.
#[test]
#[ignore = "wants root"]
fn and_by_the_smallest_ring() {
    sends("packet:va,ring=1", 2000, "small");
}

/// A queue with its threads, over `va`.
struct Path {
    queue: TxQueue,
    poller: PollerThread,
}

impl Path {
    fn new(spec: &str) -> Self {
        let device = open(spec, Direction::Send).unwrap().device;
        let pool = pool(2048);
        let queue = TxQueue::builder_of(&pool, device, Arc::new(HostClock), Arc::new(HostPark))
            .unwrap()
            .build()
            .unwrap();
        let poller = PollerThread::start(&queue).unwrap();
        Self { queue, poller }
    }

    /// Sends frames `numbers`, and drops the sender.
    fn send(&self, numbers: Range<u32>) {
        let mut sender = self.queue.sender("test").unwrap();
        for number in numbers {
            let bytes = frame(number, len_of(number));
            let mut packet = sender.packet(bytes.len() as u32, Wait::Forever).unwrap();
            packet.bytes_mut().copy_from_slice(&bytes);
            _ = sender.send_packet(packet, Wait::Forever).unwrap();
        }
    }

    /// Waits until half of what `send(0..1000)` gave has left; the rest may be under way.
    fn half_gone(&self) {
        while self.queue.counters().sent.get() < 500 {
            std::thread::yield_now();
        }
    }

    /// Waits until all frames have left, and shuts down. Returns the number sent, and the reasons of the others.
    fn close(self) -> (u64, Vec<(&'static str, u64)>) {
        let until = HostClock.now_ns() + 20_000_000_000;
        assert!(self.queue.drain_until(until), "stuck");
        drop(self.poller);
        self.queue.shutdown(Duration::ZERO);
        assert_conserved(&self.queue);
        (self.queue.counters().sent.get(), self.queue.counters().failures())
    }
}

/// The kernel rejects frames that its queueing discipline has no room for. They are requested again, and none is lost.
#[test]
#[ignore = "wants root"]
fn a_slow_qdisc_that_drops_loses_nothing() {
    with_pair(|| {
        let tbf = "qdisc add dev va root tbf rate 100mbit burst 4k limit 10k".split(' ');
        if !Command::new("tc").args(tbf).status().is_ok_and(|status| status.success()) {
            panic!("wants `tc` and the tbf qdisc");
        }
        // A veth keeps order per processor only: here senders and a timer run the qdisc.
        pin(processors()[0]).unwrap();
        let mut to = End::receiver("packet:vb");
        let path = Path::new("packet:va");
        let frames: Vec<Vec<u8>> = (0..1500).map(|number| frame(number, len_of(number))).collect();
        let sends = std::thread::spawn(move || {
            path.send(0..1500);
            let limit_bytes = path.queue.counters().bql_limit_bytes.get();
            assert_eq!(path.close(), (1500, vec![]));
            limit_bytes
        });
        let received = to.receive(1500);
        let wrong = received.iter().zip(&frames).position(|(one, other)| one != other);
        assert_eq!((received.len(), wrong), (1500, None));
        let limit_bytes = sends.join().unwrap();
        // A completion means that a frame has left, so the bytes under way stay few.
        assert!((1..=100_000).contains(&limit_bytes), "{limit_bytes}");
        to.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn a_queue_over_an_interface_that_goes_adds_up() {
    for (goes, reason) in
        [("link del va", "gone"), ("link set va down", "link-down"), ("link set vb down", "link-down")]
    {
        with_pair(move || {
            let path = Path::new("packet:va");
            path.send(0..1000);
            path.half_gone();
            ip(goes);
            path.send(1000..3000);
            let counters = path.queue.counters();
            while counters.failed.get() == 0 {
                std::thread::yield_now();
            }
            assert!(counters.lost.get() > 0, "{goes}");
            let (sent, failures) = path.close();
            // Without a carrier the kernel drops in silence until we look again, some doorbells later.
            assert!(
                sent >= 500 && failures.len() == 1 && failures[0].0 == reason,
                "{goes}: {sent}, {failures:?}"
            );
        });
    }
}

/// Its other end lives in another network, which goes.
#[test]
#[ignore = "wants root"]
fn and_over_one_whose_peer_goes_with_its_network() {
    let (say, hear) = mpsc::channel::<()>();
    let near = move || {
        let path = Path::new("packet:va");
        path.send(0..1000);
        path.half_gone();
        say.send(()).unwrap();
        while path.queue.counters().lost.get() == 0 {
            path.send(1000..1100);
        }
        let (sent, failures) = path.close();
        // First its carrier goes, then it goes itself.
        let reasons = failures.iter().all(|(reason, _)| ["link-down", "gone"].contains(reason));
        assert!(sent >= 500 && !failures.is_empty() && reasons, "{failures:?}");
    };
    // The far network ends with its only thread.
    with_two(near, move || hear.recv().unwrap());
}
