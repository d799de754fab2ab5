//! Pollers with several devices, and devices with several pollers. Sleeps are unbounded: a lost wake-up hangs.

use crate::source::{Arrivals, Source};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::device::TxDevice;
use wharf_core::host::{NoClock, Park, PollerWait, Wake};
use wharf_core::poller::{Mode, Poller, PollerStop, Settings};
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{Sleepers, within_a_minute};
use wharf_testkit::wrappers::{InReap, Interrupted};
use wharf_testkit::{assert_conserved, numbered, pool};

#[derive(Debug, Default, Clone)]
pub struct Threads(pub Sleepers);

/// A notification flag per device.
impl PollerWait for Threads {
    fn waker(&self) -> Arc<dyn Wake> {
        self.0.waker()
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn watch(&mut self, _at: usize, _fd: i32) -> bool {
        false
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, timeout_ns: u64, _told: &mut dyn FnMut(usize)) {
        if timeout_ns > 0 {
            self.0.park(timeout_ns);
        }
    }
}

impl Threads {
    pub fn queue(&self, pool: &PagePool, device: impl TxDevice + 'static) -> TxQueue {
        TxQueue::builder(pool, Box::new(device), Arc::new(NoClock), Arc::new(self.0.clone())).build().unwrap()
    }

    pub fn poller(&self, mode: Mode, queues: &[TxQueue], receivers: &[RxQueue]) -> (Poller, PollerStop) {
        let settings = Settings { mode, ..Settings::default() };
        let mut poller = Poller::new(Box::new(self.clone()), settings);
        queues.iter().for_each(|queue| poller.add(queue));
        receivers.iter().for_each(|receiver| poller.add_receiver(receiver));
        let stop = poller.stopper();
        (poller, stop)
    }
}

fn send(queue: &TxQueue, first: u64, count: usize) {
    let mut sender = queue.sender("test").unwrap();
    let mut burst = numbered(&mut sender, first, count, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
}

fn await_sent(queue: &TxQueue, count: u64) {
    while queue.counters().sent.get() < count {
        std::thread::yield_now();
    }
}

#[test]
fn one_poller_takes_the_completions_of_many_devices_in_every_mode() {
    within_a_minute(|| {
        for mode in [Mode::Busy, Mode::Adaptive, Mode::Sleeping] {
            let threads = Threads::default();
            let made: Vec<(PagePool, TxQueue, Arc<Control>)> = (0..5)
                .map(|_| {
                    let ((gate, control), pool) = (Gate::new(64), pool(128));
                    let queue = threads.queue(&pool, gate);
                    (pool, queue, control)
                })
                .collect();
            let queues: Vec<TxQueue> = made.iter().map(|(_, queue, _)| queue.clone()).collect();
            let (poller, stop) = threads.poller(mode, &queues, &[]);
            std::thread::scope(|scope| {
                scope.spawn(move || poller.run());
                for round in 1..=20 {
                    for (_, queue, control) in &made {
                        send(queue, round, 10);
                        control.allowed.fetch_add(10, SeqCst);
                    }
                    made.iter().for_each(|(_, queue, _)| await_sent(queue, 10 * round));
                    if mode != Mode::Busy {
                        threads.0.await_asleep(1);
                    }
                }
                stop.stop();
            });
            queues.iter().for_each(assert_conserved);
        }
    });
}

#[test]
fn work_left_by_one_poller_is_done_by_the_other() {
    within_a_minute(|| {
        let threads = Threads::default();
        let ((gate, control), pool) = (Gate::new(64), pool(256));
        let queue = threads.queue(&pool, gate);
        let of_queue = std::slice::from_ref(&queue);
        let (first, stop_first) = threads.poller(Mode::Adaptive, of_queue, &[]);
        let (second, stop_second) = threads.poller(Mode::Sleeping, of_queue, &[]);
        std::thread::scope(|scope| {
            let first = scope.spawn(move || first.run());
            scope.spawn(move || second.run());
            threads.0.await_asleep(2);
            send(&queue, 0, 10);
            // One of them naps and will come back; it may be the one that is stopped now.
            threads.0.await_asleep(1);
            stop_first.stop();
            first.join().unwrap();
            control.allowed.store(10, SeqCst);
            await_sent(&queue, 10);
            threads.0.await_asleep(1);
            stop_second.stop();
        });
        assert_conserved(&queue);
    });
}

#[test]
fn pollers_sharing_devices_come_and_go_under_traffic() {
    within_a_minute(|| {
        let threads = Threads::default();
        let pool = pool(512);
        let gates: Vec<_> = (0..3).map(|_| Gate::open(32)).collect();
        let (gates, controls): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
        let queues: Vec<TxQueue> = gates.into_iter().map(|gate| threads.queue(&pool, gate)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (mode, lives) in [(Mode::Sleeping, 40), (Mode::Adaptive, 30), (Mode::Adaptive, 1)] {
                let (threads, queues, done) = (&threads, &queues, &done);
                scope.spawn(move || {
                    for life in 0..lives {
                        let (poller, stop) = threads.poller(mode, queues, &[]);
                        std::thread::scope(|scope| {
                            scope.spawn(move || poller.run());
                            while lives == 1 && !done.load(SeqCst) {
                                std::thread::yield_now();
                            }
                            std::thread::sleep(Duration::from_micros(300 * life % 1000));
                            stop.stop();
                        });
                    }
                });
            }
            let senders: Vec<_> = (0..6u64)
                .map(|who| {
                    let queue = &queues[who as usize % 3];
                    scope.spawn(move || {
                        let mut sender = queue.sender("test").unwrap();
                        for n in 0..400 {
                            let mut burst = sender.burst(5);
                            sender.fill(&mut burst, 5, 64, Wait::Forever).unwrap();
                            burst.iter_mut().for_each(|bytes| {
                                bytes[..8].copy_from_slice(&(who << 32 | n).to_be_bytes());
                            });
                            _ = sender.send(&mut burst, Wait::Forever).unwrap();
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            done.store(true, SeqCst);
        });
        assert!(queues.iter().all(|queue| queue.drain(Duration::MAX)));
        let sent = controls.iter().map(|control| control.sent());
        for (at, sent) in sent.enumerate() {
            for who in [at as u64, at as u64 + 3] {
                let mine: Vec<u64> =
                    sent.iter().filter(|&&n| n >> 32 == who).map(|n| n & 0xffff_ffff).collect();
                assert!(mine.is_sorted() && mine.len() >= 400, "sender {who}");
            }
        }
        let counted: Vec<_> = queues.iter().map(|queue| queue.counters().clone_sums()).collect();
        assert!(counted.iter().all(|(accepted, done)| accepted == done), "{counted:?}");
        assert_eq!(queues[0].audit().out(), 0);
    });
}

trait Sums {
    fn clone_sums(&self) -> (u64, u64);
}

impl Sums for wharf_core::counters::QueueCounters {
    fn clone_sums(&self) -> (u64, u64) {
        (self.accepted.get(), self.sent.get() + self.failed.get() + self.returned.get())
    }
}

#[test]
fn panicking_device_ends_no_other() {
    within_a_minute(|| {
        let threads = Threads::default();
        let ((bad, bomb), (good, control), pool) = (Gate::new(8), Gate::new(8), pool(64));
        let queues = [threads.queue(&pool, bad), threads.queue(&pool, good)];
        let (poller, stop) = threads.poller(Mode::Adaptive, &queues, &[]);
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            threads.0.await_asleep(1);
            queues.iter().for_each(|queue| send(queue, 0, 4));
            bomb.bomb.store(1, SeqCst);
            // Not by a call to the queue, which would panic here.
            while !format!("{:?}", queues[0]).contains("OwnerCell(0x84") {
                std::thread::yield_now();
            }
            control.allowed.store(4, SeqCst);
            await_sent(&queues[1], 4);
            stop.stop();
        });
    });
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

#[test]
fn two_pollers_receive_once_and_in_order_and_back_pressure_loses_no_frame() {
    within_a_minute(|| {
        let (threads, pool) = (Threads::default(), pool(32));
        let arrivals = Arc::new(Arrivals::default());
        let source = Source(arrivals.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (sees, mut calls) = (seen.clone(), 0);
        // Leaves all frames at every third call, else takes one.
        let handler = Box::new(move |burst: &mut Burst| {
            calls += 1;
            let taken = if calls % 3 == 0 { None } else { burst.pop() };
            sees.lock().unwrap().extend(taken.map(|packet| number(packet.bytes())));
            Rest::Again
        });
        let receiver = RxQueue::new(Box::new(source), &pool, &[], handler).unwrap();
        std::thread::scope(|scope| {
            let stops: Vec<_> = [Mode::Adaptive, Mode::Busy]
                .map(|mode| {
                    let (poller, stop) = threads.poller(mode, &[], std::slice::from_ref(&receiver));
                    scope.spawn(move || poller.run());
                    stop
                })
                .into();
            for number in 0..500 {
                arrivals.waiting.lock().unwrap().push_back(number);
                std::thread::yield_now();
            }
            arrivals.ended.store(true, SeqCst);
            while !receiver.has_ended() || seen.lock().unwrap().len() < 500 {
                std::thread::yield_now();
            }
            stops.iter().for_each(PollerStop::stop);
        });
        assert!(seen.lock().unwrap().iter().copied().eq(0..500));
        assert_eq!(receiver.received(), 500);
        receiver.close().unwrap();
        assert_eq!(pool.audit().out(), 0, "{}", pool.audit());
    });
}

#[test]
fn receive_poll_takes_completions_of_its_send_queue() {
    within_a_minute(|| {
        // No more memory than one device's ring: without completions nothing more could be received.
        let (threads, pool) = (Threads::default(), pool(16));
        let (gate, control) = Gate::open(8);
        let queue = threads.queue(&pool, gate);
        let arrivals = Arc::new(Arrivals::default());
        let source = Source(arrivals.clone());
        let mut sender = queue.sender("forwards").unwrap();
        let handler = Box::new(move |burst: &mut Burst| {
            _ = sender.send(burst, Wait::Never).unwrap();
            Rest::Again
        });
        let receiver = RxQueue::new(Box::new(source), &pool, std::slice::from_ref(&queue), handler).unwrap();
        let (poller, stop) = threads.poller(Mode::Adaptive, &[], std::slice::from_ref(&receiver));
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            arrivals.waiting.lock().unwrap().extend(0..1000);
            await_sent(&queue, 1000);
            stop.stop();
        });
        assert!(control.sent().into_iter().eq(0..1000));
        drop(receiver);
        assert_conserved(&queue);
    });
}

/// A sender acquires the bias after its sixteenth run alone. A poller that comes in that run is woken by ordinary runs.
#[test]
fn poller_that_comes_in_a_sole_run_leaves_the_sender_without_bias() {
    for comes in [false, true] {
        let (threads, in_reap) = (Threads::default(), InReap::default());
        let ((inner, _), pool) = (Gate::open(64), pool(64));
        let queue = threads.queue(&pool, Interrupted { inner, in_reap: in_reap.clone() });
        let mut sender = queue.sender("alone").unwrap();
        for n in 0..16 {
            if comes && n == 15 {
                let poller = threads.poller(Mode::Sleeping, std::slice::from_ref(&queue), &[]).0;
                *in_reap.lock().unwrap() = Some(Box::new(|| std::mem::forget(poller.begin())));
            }
            let mut burst = numbered(&mut sender, n, 1, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
        let is_biased = format!("{queue:?}").contains(&format!("{:#x}", wharf_mem::word::BIASED));
        assert_eq!((is_biased, queue.counters().sent.get()), (!comes, 16));
        drop(sender);
        assert_conserved(&queue);
    }
}
