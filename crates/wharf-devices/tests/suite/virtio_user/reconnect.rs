//! A back end that goes, and comes back.

use super::pair::{Far, Socket, queue, send};
use crate::polling::Polling;
use std::time::Duration;
use wharf_core::monitor::Watched;
use wharf_core::poller::Mode;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::sender::Sender;
use wharf_devices::host::PollerThread;
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_testkit::assert_conserved;
use wharf_testkit::threads::{within_a_minute, within_ten_minutes};

/// Polls until `is_so`.
fn until(queue: &TxQueue, what: &str, mut is_so: impl FnMut(&TxQueue) -> bool) {
    let began = std::time::Instant::now();
    while !is_so(queue) {
        assert!(began.elapsed() < Duration::from_secs(50), "{what}: {:?}", queue.counters().last_error());
        queue.poll();
        std::thread::yield_now();
    }
}

fn failed(queue: &TxQueue) -> u64 {
    queue.counters().failed.get()
}

/// Sends until `count` are in the queue.
fn put_in(queue: &TxQueue, sender: &mut Sender, count: usize) {
    let mut sent = 0;
    until(queue, "all are in the queue", |_| {
        sent += send(sender, count - sent, 60);
        sent == count
    });
}

/// Receives until `count` have come.
fn take_out(queue: &TxQueue, far: &mut Far, count: usize) {
    let mut came = 0;
    until(queue, "all have come", |_| {
        came += far.receive();
        came >= count
    });
    assert_eq!(came, count);
}

/// A queue over the back end `far`, ended.
fn end(queue: &TxQueue, far: Far) {
    assert!(queue.drain(Duration::MAX));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_conserved(queue);
    assert_eq!(failed(queue), 0);
    far.end();
}

#[test]
fn frames_in_the_rings_of_a_lost_back_end_arrive_once_with_the_next_one() {
    for options in
        ["", ",packed=on", ",in_order=off", ",packed=on,in_order=off,queues=2", ",packed=on,napi=timer"]
    {
        within_ten_minutes(move || {
            let socket = Socket::new();
            let mut far = Far::new(&socket, 2);
            let queue = queue(&socket.driver(&format!(",reconnect=on{options}")), 1024);
            let mut sender = queue.sender("test").unwrap();
            // The positions pass the end of the ring.
            for round in 1..=25 {
                put_in(&queue, &mut sender, 20);
                take_out(&queue, &mut far, 20);
                // These are in its ring, or wait behind them, as it goes.
                put_in(&queue, &mut sender, 5);
                far.end();
                until(&queue, "its end is noticed", |queue| queue.counters().lost.get() == round);
                let told = queue.counters().last_error().unwrap();
                assert!(told.contains("another one is waited for") && !told.contains('\n'), "{told}");
                put_in(&queue, &mut sender, 7);
                queue.poll();
                far = Far::new(&socket, 2);
                take_out(&queue, &mut far, 12);
                until(&queue, "it is here", |queue| queue.link().is_some_and(|link| link.is_ok()));
                assert_eq!(failed(&queue), 0);
            }
            drop(sender);
            end(&queue, far);
        });
    }
}

#[test]
fn memory_that_waited_for_frames_waits_for_those_of_the_next_one() {
    for options in ["", ",packed=on,queues=2"] {
        within_a_minute(move || {
            let socket = Socket::new();
            let mut far = Far::new(&socket, 2);
            // Less than two rings have room for.
            let queue = queue(&socket.driver(&format!(",reconnect=on{options}")), 300);
            let (arrives, arrived) = std::sync::mpsc::channel();
            let handler = Box::new(move |burst: &mut Burst| {
                arrives.send(burst.len()).unwrap();
                Rest::Free
            });
            let receiver = RxQueue::of(&queue, handler).unwrap();
            let poller = PollerThread::builder().receiver(&receiver).start().unwrap();
            for _ in 0..3 {
                for _ in 0..20 {
                    far.send();
                    assert_eq!(arrived.recv_timeout(Duration::from_secs(30)), Ok(1));
                }
                far.end();
                far = Far::new(&socket, 2);
            }
            drop(poller);
            end(&queue, far);
        });
    }
}

#[test]
fn lesser_back_end_is_reported_once_and_the_next_one_is_taken() {
    within_a_minute(|| {
        let socket = Socket::new();
        let far = Far::new(&socket, 1);
        let queue = queue(&socket.driver(",reconnect=on,packed=on"), 1024);
        let mut sender = queue.sender("test").unwrap();
        put_in(&queue, &mut sender, 1);
        far.end();
        until(&queue, "it is gone", |queue| queue.counters().lost.get() == 1);
        let less = VhostUserOptions { packed: false, ..VhostUserOptions::default() };
        let less = VhostUser::open(&socket.path(), less).unwrap();
        put_in(&queue, &mut sender, 1);
        let mut errors = queue.counters().device_errors.get();
        until(&queue, "it is told", |queue| queue.counters().device_errors.get() > errors);
        let told = queue.counters().last_error().unwrap();
        assert!(told.contains("does not offer packed=on") && !told.contains('\n'), "{told}");
        errors += 1;
        drop(less);
        let mut far = Far::new(&socket, 1);
        take_out(&queue, &mut far, 2);
        assert_eq!((queue.counters().device_errors.get(), queue.counters().lost.get()), (errors, 1));
        drop(sender);
        end(&queue, far);
    });
}

#[test]
fn listener_listens_again_and_close_meanwhile_does_not_wait() {
    within_a_minute(|| {
        let socket = Socket::new();
        let spec = socket.driver(",reconnect=on,server=on");
        let opening = std::thread::spawn(move || queue(&spec, 1024));
        let mut far = Far::connecting(&socket);
        let queue = opening.join().unwrap();
        let mut sender = queue.sender("test").unwrap();
        for death in 1..=2 {
            put_in(&queue, &mut sender, 1);
            far.end();
            until(&queue, "it is gone", |queue| queue.counters().lost.get() == death);
            put_in(&queue, &mut sender, 1);
            far = Far::connecting(&socket);
            take_out(&queue, &mut far, 2);
        }
        put_in(&queue, &mut sender, 1);
        far.end();
        until(&queue, "it is gone", |queue| queue.counters().lost.get() == 3);
        put_in(&queue, &mut sender, 2);
        drop(sender);
        assert_eq!(queue.shutdown(Duration::ZERO).out(), 0);
        assert_conserved(&queue);
        assert!(!socket.path().exists(), "the socket is gone");
    });
}

#[test]
fn a_poller_sleeps_while_frames_wait_for_a_back_end() {
    for way in ["client", "server"] {
        within_a_minute(move || {
            let socket = Socket::new();
            let open_far = || match way {
                "client" => Far::new(&socket, 1),
                _ => Far::connecting(&socket),
            };
            let (queue, far) = match way {
                "client" => {
                    let far = open_far();
                    (queue(&socket.driver(",reconnect=on"), 1024), far)
                }
                _ => {
                    let spec = socket.driver(",reconnect=on,server=on");
                    let opening = std::thread::spawn(move || queue(&spec, 1024));
                    let far = open_far();
                    (opening.join().unwrap(), far)
                }
            };
            let receiver = RxQueue::of(&queue, Box::new(|_: &mut Burst| Rest::Free)).unwrap();
            let poller = Polling::start(Mode::Adaptive, None, &receiver);
            let mut sender = queue.sender("sender").unwrap();
            far.end();
            until(&queue, "its end is noticed", |queue| queue.link().is_some_and(|link| link.is_err()));
            assert_eq!(send(&mut sender, 64, 60), 64);
            poller.sleeps(way);
            take_out(&queue, &mut open_far(), 64);
            drop((poller, receiver, sender));
            assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
        });
    }
}
