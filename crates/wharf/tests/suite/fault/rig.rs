//! A path over a faulty device, in each of its forms, that checks the rules that always hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use wharf::testing::{Fault, FaultCounts, FaultSpec};
use wharf_core::counters::QueueCounters;
use wharf_core::device::{RxDevice, TxDevice};
use wharf_core::pool::PagePool;
use wharf_core::qdisc::Prio;
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::{SendError, Sender};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::null::Null;
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::Batch;
use wharf_testkit::threads::UnreadClock;
use wharf_testkit::wrappers::{Recorder, Taken, Watched};
use wharf_testkit::{assert_conserved, pool};

/// The thread that drives the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// One sender that owns it.
    Direct,
    /// The senders themselves, each when it is at it.
    Senders,
    /// The senders and a poller.
    Poller,
    /// An owner for good.
    Dedicated,
}

/// A case.
#[derive(Debug, Clone)]
pub struct Case {
    pub driver: Driver,
    /// A wire with a ring of so many frames, or null.
    pub ring: Option<u32>,
    pub senders: u32,
    /// Packets of each.
    pub packets: u32,
    /// Two priorities in turn.
    pub bands: bool,
    /// Ends it after this number of accepted packets, with others inside.
    pub cut_at: Option<u64>,
    pub frames: u32,
    pub faults: FaultSpec,
}

/// Returns the sender, band and number of a frame with this header.
fn name_of(header: u64) -> (u32, u8, u32) {
    ((header >> 32) as u32, (header as u32 & 1) as u8, header as u32)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// The parts of a case that its checks need.
struct Rig {
    pool: PagePool,
    taken: Taken,
    broken: Arc<AtomicUsize>,
    counts: Arc<FaultCounts>,
    far: Option<thread::JoinHandle<Vec<u64>>>,
}

/// Receives and gives back until the other end is gone. Returns the headers of the frames, in their order.
fn drain(mut far: Fault<Wire>) -> Vec<u64> {
    let (pool, mut headers) = (pool(256), Vec::new());
    let (mut cache, mut batch) = (pool.cache("far").unwrap(), Batch::new(64));
    while !far.ended() {
        if far.receive(&mut cache, &mut batch, 64).unwrap() == 0 {
            thread::yield_now();
        }
        let header = |frame| pool.region().bytes(frame).unwrap()[..8].try_into().unwrap();
        headers.extend(batch.frames().iter().map(header).map(u64::from_be_bytes));
        cache.give(&mut batch).unwrap();
    }
    assert_eq!(pool.audit().out(), 0);
    headers
}

impl Case {
    /// Runs it to its end, and checks.
    pub fn run(&self) {
        let (builder, rig) = self.build();
        match self.driver {
            Driver::Direct => self.run_direct(builder, rig),
            _ => self.run_queue(&builder.build().unwrap(), rig),
        }
    }

    fn build(&self) -> (QueueBuilder, Rig) {
        let (near, far): (Box<dyn TxDevice>, _) = match self.ring {
            None => (Box::new(Null::default()), None),
            Some(ring) => {
                let (near, far) = wire(&WireSpec::default().clock(Arc::new(UnreadClock)).ring(ring).unwrap());
                let far = Fault::new(far, &self.faults);
                (Box::new(near), Some(thread::spawn(move || drain(far))))
            }
        };
        let (recorder, taken) = Recorder::new(near);
        let fault = Fault::new(recorder, &self.faults);
        let (broken, counts, pool) = (Arc::new(AtomicUsize::new(0)), fault.counts(), pool(self.frames));
        let device = Watched { inner: fault, broken: broken.clone() };
        let builder = TxQueue::builder(&pool, Box::new(device), Arc::new(HostClock), Arc::new(HostPark))
            .index_start(u32::MAX - 500);
        let builder = if self.bands { builder.qdisc(Box::new(Prio::new(100))) } else { builder };
        (builder, Rig { pool, taken, broken, counts, far })
    }

    fn run_direct(&self, builder: QueueBuilder, rig: Rig) {
        let mut direct = builder.build_direct().unwrap();
        let mut fails = self.faults.failing_takes(0, &rig.counts);
        let (mut burst, mut number) = (direct.burst(32), 0);
        while number < self.packets && self.cut_at.is_none_or(|at| u64::from(number) < at) {
            let want = (number % 32 + 1).min(self.packets - number);
            if fails() || direct.fill(&mut burst, want as usize, 64, Wait::Never).unwrap() == 0 {
                direct.poll();
                continue;
            }
            number = self.number(&mut burst, 0, number);
            _ = direct.send(&mut burst, Wait::Forever).unwrap();
        }
        while self.cut_at.is_none() && direct.pending() > 0 {
            direct.poll();
        }
        drop(burst);
        let counters = (direct.counters().accepted.get(), direct.counters().sent.get());
        let failed = direct.counters().failed.get();
        let (before, pending) = (counters, direct.pending() as u64);
        assert_eq!(before.0, before.1 + failed + pending, "conservation with {pending} inside");
        assert_eq!(before.0, u64::from(number));
        drop(direct.close());
        self.check(rig, None);
    }

    /// Numbers the packets of a burst from `number` on; the next number.
    fn number(&self, burst: &mut wharf_core::pool::Burst, who: u32, number: u32) -> u32 {
        for (at, bytes) in burst.iter_mut().enumerate() {
            bytes[..8].copy_from_slice(&(u64::from(who) << 32 | u64::from(number + at as u32)).to_be_bytes());
        }
        if self.bands {
            for (at, mut packet) in burst.packets_mut().enumerate() {
                packet.set_priority(if (number + at as u32) & 1 == 1 { 6 } else { 0 });
            }
        }
        number + burst.len() as u32
    }

    /// Sends all of one sender's packets, or until the queue is shut down.
    fn send(&self, sender: &mut Sender, who: u32, mut fails: impl FnMut() -> bool) -> Result<(), SendError> {
        let (mut burst, mut number) = (sender.burst(32), 0);
        while number < self.packets {
            let want = ((number * 7 + who) % 32 + 1).min(self.packets - number);
            if fails() || sender.fill(&mut burst, want as usize, 64, Wait::Never)? == 0 {
                sender.wait_for_memory(Wait::Forever)?;
                continue;
            }
            number = self.number(&mut burst, who, number);
            _ = sender.send(&mut burst, Wait::Forever)?;
        }
        Ok(())
    }

    fn run_queue(&self, queue: &TxQueue, rig: Rig) {
        let poller = (self.driver == Driver::Poller).then(|| PollerThread::start(queue).unwrap());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let owner = (self.driver == Driver::Dedicated).then(|| {
                scope.spawn(|| {
                    let mut dedicated = queue.dedicate().unwrap();
                    while !stop.load(SeqCst) {
                        dedicated.poll_or_sleep(1_000_000);
                    }
                })
            });
            let send = |who| {
                let fails = self.faults.failing_takes(who, &rig.counts);
                let mut sender = queue.sender("sends").unwrap();
                move || match self.send(&mut sender, who, fails) {
                    Ok(()) | Err(SendError::Closed) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            let threads: Vec<_> = (0..self.senders).map(|who| scope.spawn(send(who))).collect();
            if let Some(at) = self.cut_at {
                while queue.counters().accepted.get() < at
                    && threads.iter().any(|thread| !thread.is_finished())
                {
                    thread::yield_now();
                }
                queue.shutdown(Duration::ZERO);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            if self.cut_at.is_none() && self.driver == Driver::Dedicated {
                while queue.counters().sent.get() + queue.counters().failed.get() < self.all() {
                    thread::yield_now();
                }
            }
            stop.store(true, SeqCst);
            owner.into_iter().for_each(|owner| owner.join().unwrap());
        });
        if self.cut_at.is_none() {
            assert!(queue.drain(Duration::MAX));
        }
        queue.shutdown(Duration::MAX);
        drop(poller);
        self.check(rig, Some(queue));
    }

    fn all(&self) -> u64 {
        u64::from(self.senders) * u64::from(self.packets)
    }

    /// Checks the rules that always hold.
    fn check(&self, rig: Rig, queue: Option<&TxQueue>) {
        let received = rig.far.map(|far| far.join().unwrap());
        if let Some(queue) = queue {
            queue.poll();
            assert_conserved(queue);
            self.check_counts(queue.counters(), &rig.taken, &rig.counts);
        }
        let audit = rig.pool.audit();
        assert_eq!(audit.out(), 0, "{audit}");
        assert_eq!(rig.broken.load(SeqCst), 0, "doorbells and stops");
        if let (Some(received), None) = (received, self.cut_at) {
            assert!(received == *locked(&rig.taken), "the other end receives each frame once, in its order");
        }
        let taken: Vec<_> = locked(&rig.taken).iter().map(|&header| name_of(header)).collect();
        for who in 0..self.senders {
            // Without bands, the whole of a sender's is one row.
            for band in 0..2 {
                let of_band = |taken: &&(u32, u8, u32)| taken.0 == who && (!self.bands || taken.1 == band);
                let numbers: Vec<u32> = taken.iter().filter(of_band).map(|taken| taken.2).collect();
                assert!(numbers.is_sorted_by(|a, b| a < b), "order of sender {who} in band {band}");
            }
        }
    }

    fn check_counts(&self, counters: &QueueCounters, taken: &Taken, counts: &FaultCounts) {
        let taken = locked(taken).len() as u64;
        assert_eq!(counters.packets.get(), taken + counts.of("error"), "packets that the device was given");
        if self.cut_at.is_none() {
            assert_eq!(counters.accepted.get(), self.all());
            assert_eq!((counters.sent.get(), counters.failed.get()), (taken, counts.of("error")));
        }
        assert_eq!(counters.device_errors.get(), 0, "{:?}", counters.last_error());
    }
}
