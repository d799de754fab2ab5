//! The time at which sent frames come back, and the sender that is charged for them until then.

use super::pair::{Far, Socket, end, queue, send};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::host::PollerThread;
use wharf_devices::open::{Direction, open};
use wharf_testkit::threads::{eventually, within_a_minute};

const LAYOUTS: [&str; 2] = ["", ",packed=on"];

/// Frames that went in and have not come back.
fn inside(queue: &TxQueue) -> u64 {
    queue.counters().packets.get() - queue.counters().sent.get()
}

/// A queue, its only sender, and the other side.
fn in_each_layout(napi: &'static str, body: impl Fn(TxQueue, Far) + Send + 'static) {
    within_a_minute(move || {
        for layout in LAYOUTS {
            let socket = Socket::new();
            let far = Far::new(&socket, 1);
            body(queue(&socket.driver(&format!("{napi}{layout}")), 1024), far);
        }
    });
}

#[test]
fn on_gives_a_frame_back_at_the_first_reap_after_it_left() {
    in_each_layout("", |queue, mut far| {
        let mut sender = queue.sender("test").unwrap();
        assert_eq!(send(&mut sender, 10, 60), 10);
        // A byte limit that knows nothing yet lets one through.
        let first = inside(&queue);
        assert!((1..10).contains(&first), "{first}");
        queue.poll();
        assert_eq!(queue.counters().sent.get(), 0, "none has left");
        assert_eq!(far.receive() as u64, first);
        queue.poll();
        assert_eq!(queue.counters().sent.get(), first);
        while queue.counters().sent.get() < 10 {
            far.receive();
            queue.poll();
        }
        assert_eq!(inside(&queue), 0);
        drop(sender);
        end(&queue, 10);
        far.end();
    });
}

#[test]
fn off_gives_frames_back_after_the_next_transmit_and_to_waiting_senders() {
    in_each_layout(",napi=off", |queue, mut far| {
        let mut sender = queue.sender("test").unwrap();
        assert_eq!(send(&mut sender, 10, 60), 10);
        assert_eq!(far.receive(), 10);
        queue.poll();
        assert_eq!(inside(&queue), 10, "they have left, and no poll has looked");
        assert_eq!(send(&mut sender, 3, 60), 3);
        assert_eq!(inside(&queue), 3);
        assert_eq!(far.receive(), 3);
        assert_eq!(inside(&queue), 3);
        drop(sender);
        // A wait for all frames to leave needs no further transmit.
        end(&queue, 13);
        far.end();
    });
}

#[test]
fn frames_in_the_ring_are_charged_to_the_sender_unless_orphaned() {
    // Frames of 1500 bytes that the far end does not take. A sender may have 212992 bytes inside at first, which
    // are 141 frames.
    for (napi, charged) in [("", true), (",napi=off", false), (",napi=timer", false)] {
        in_each_layout(napi, move |queue, mut far| {
            let mut sender = queue.sender("test").unwrap();
            let mut sent = 0;
            while sent < 230 && send(&mut sender, 1, 1500) == 1 {
                sent += 1;
            }
            assert_eq!(sent, if charged { 141 } else { 230 }, "{napi}");
            let counters = sender.counters().clone();
            let other = std::thread::spawn(move || {
                while charged && counters.waits.get() == 0 {
                    std::thread::yield_now();
                }
                let mut count = 0;
                while count < sent + 1 {
                    count += far.receive();
                }
                far
            });
            // Charged, it waits for its own to leave; else it never had to.
            let mut burst = sender.burst(1);
            sender.fill(&mut burst, 1, 1500, Wait::Never).unwrap();
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            let waits = sender.counters().waits.get();
            assert_eq!(waits > 0, charged, "{napi}: {waits}");
            let far = loop {
                if other.is_finished() {
                    break other.join().unwrap();
                }
                queue.poll();
            };
            drop(sender);
            end(&queue, sent as u64 + 1);
            far.end();
        });
    }
}

#[test]
fn sender_waiting_for_memory_gets_sent_frames_in_every_mode() {
    for napi in ["", ",napi=off", ",napi=timer"] {
        within_a_minute(move || {
            let socket = Socket::new();
            let mut far = Far::new(&socket, 1);
            // Less memory than the ring has room for: once it is all in there, nothing is transmitted any
            // more.
            let queue = queue(&socket.driver(napi), 64);
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            let other = std::thread::spawn(move || {
                let mut count = 0;
                while !stopped.load(SeqCst) || far.receive_all() > 0 {
                    count += far.receive();
                }
                (far, count)
            });
            let mut sender = queue.sender("test").unwrap();
            let mut burst = sender.burst(8);
            let mut sent = 0;
            while sent < 2000 {
                sent += sender.fill(&mut burst, 8, 60, Wait::Forever).unwrap() as u64;
                _ = sender.send(&mut burst, Wait::Forever).unwrap();
            }
            drop(sender);
            end(&queue, sent);
            stop.store(true, SeqCst);
            other.join().unwrap().0.end();
        });
    }
}

/// Receives with a poller, and says when something has come.
fn polled(queue: &TxQueue) -> (PollerThread, std::sync::mpsc::Receiver<usize>) {
    let (arrives, arrived) = std::sync::mpsc::channel();
    let handler = Box::new(move |burst: &mut Burst| {
        arrives.send(burst.len()).unwrap();
        Rest::Free
    });
    let receiver = RxQueue::of(queue, handler).unwrap();
    (PollerThread::builder().receiver(&receiver).start().unwrap(), arrived)
}

#[test]
fn receive_poll_cleans_sent_frames_unless_off() {
    for (napi, is_cleaned) in [(",clean=anywhere", true), (",napi=off", false)] {
        in_each_layout(napi, move |queue, mut far| {
            let (poller, arrived) = polled(&queue);
            let mut sender = queue.sender("test").unwrap();
            for round in 1..=20 {
                assert_eq!(send(&mut sender, 1, 60), 1);
                while far.receive() == 0 {}
                far.send();
                assert_eq!(arrived.recv_timeout(Duration::from_secs(20)), Ok(1));
                while is_cleaned && inside(&queue) > 0 {
                    std::thread::yield_now();
                }
                assert!(inside(&queue) <= 1, "each transmit gives back the one before: round {round}");
            }
            let signals = queue.signals().unwrap();
            assert!(signals.interrupts > 0 && signals.kicks > 0, "{signals:?}");
            drop((poller, sender));
            let cleaned = queue.counters().cleaned_from_receive.get();
            assert!(is_cleaned || cleaned == 0, "{cleaned}");
            end(&queue, 20);
            far.end();
        });
    }
}

#[test]
fn timer_gives_frames_back_without_a_transmit() {
    in_each_layout(",napi=timer", |queue, mut far| {
        let (poller, _arrived) = polled(&queue);
        let mut sender = queue.sender("test").unwrap();
        assert_eq!(send(&mut sender, 5, 60), 5);
        // The poller may be the one that sends them.
        let mut received = 0;
        while received < 5 {
            received += far.receive();
        }
        eventually(Duration::from_secs(50), || inside(&queue) == 0);
        drop((poller, sender));
        end(&queue, 5);
        far.end();
    });
}

#[test]
fn unknown_mode_is_rejected() {
    for (options, what) in
        [(",napi=yes", "napi"), (",napi=off,clean=anywhere", "clean"), (",clean=there", "clean")]
    {
        let Err(error) = open(&format!("virtio-user:/nowhere{options}"), Direction::Send) else {
            panic!("{options}")
        };
        let error = error.to_string();
        assert!(error.contains(what) && !error.contains('\n'), "{error}");
    }
}
