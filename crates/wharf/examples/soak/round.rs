//! One round: a queue, its device with its faults, 64 senders, its owners, and the account at the end.

use super::device::{Watched, Watcher};
use super::random::Random;
use super::senders::{Crowd, Mortal, panic_quietly, what_panicked};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use wharf::PagePool;
use wharf::device::{Batch, Device, RxDevice, TxDevice};
use wharf::qdisc::{Fifo, FifoLimit, WhenFull};
use wharf::queue::{HostClock, TxQueue};
use wharf::testing::{Fault, FaultSpec};
use wharf_core::engine::Batching;
use wharf_devices::host::{PollerThread, pin, processors};
use wharf_devices::null::Null;
use wharf_devices::wire::{Wire, WireSpec, wire};

const SENDERS: u64 = 64;
const PROCESSORS: usize = 2;
/// One round in this many has a device that panics.
const DEATH_EVERY: u64 = 6;
/// Time limit for packets inside to leave.
const DRAIN: Duration = Duration::from_secs(60);

const FAULTS: [&str; 7] = [
    "error=0.1%",
    "stall=1%:2ms,short=10%",
    "lost=5%,late=1%:300us",
    "reorder=2%,short=1/7,error=1/1000",
    "stall=0.5%:5ms,lost=2%,late=0.5%:1ms,reorder=1%,error=0.05%,short=5%",
    "late=10%:50us",
    "freeze=0.1%:50ms,half=10%",
];

/// The owner of the queue besides its senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    Poller,
    /// A thread of its own, which dies now and then, and is replaced.
    Dedicated,
}

/// The settings of a round.
#[derive(Debug, Clone)]
pub struct Round {
    seed: u64,
    owner: Owner,
    faults: Option<&'static str>,
    wire: Option<u64>,
    limit_packets: usize,
    drops_head: bool,
    small_queues: bool,
    pool_frames: u32,
    lane_frames: u32,
    dies: bool,
}

/// The totals of rounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    packets: u64,
    failed: u64,
    dropped: u64,
    waits: u64,
    senders: u64,
    died: u64,
    given_up: u64,
    panics: u64,
    owners: u64,
    deaths: u64,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        let Self { packets, failed, dropped, waits, senders, died, given_up, panics, owners, deaths } = self;
        *packets += other.packets;
        *failed += other.failed;
        *dropped += other.dropped;
        *waits += other.waits;
        *senders += other.senders;
        *died += other.died;
        *given_up += other.given_up;
        *panics += other.panics;
        *owners += other.owners;
        *deaths += other.deaths;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, failed, dropped, waits, senders, died, given_up, panics, owners, deaths } = self;
        write!(
            f,
            "{packets} packets sent, {failed} failed on demand, {dropped} dropped on demand, {waits} waits; {senders} senders, \
             {died} died, {given_up} gave up waiting, {panics} wakers and changes panicked, {owners} owners died, {deaths} \
             devices panicked: all accounted for, in order, no frame out"
        )
    }
}

impl Round {
    pub fn new(random: &mut Random, number: u64) -> Self {
        Self {
            seed: random.next(),
            owner: random.one_of(&[Owner::Nobody, Owner::Poller, Owner::Poller, Owner::Dedicated]),
            faults: if random.once_in(4) { None } else { Some(random.one_of(&FAULTS)) },
            wire: random.one_of(&[None, Some(0), Some(1_000_000_000), Some(200_000_000)]),
            limit_packets: random.one_of(&[8, 64, 1000]),
            drops_head: random.once_in(4),
            small_queues: random.once_in(2),
            pool_frames: random.one_of(&[1024, 4096, 16384]),
            lane_frames: random.one_of(&[8, 64, 256]),
            dies: number % DEATH_EVERY == DEATH_EVERY - 1,
        }
    }

    /// Runs the round for `time`. Returns its totals, or what is wrong.
    pub fn run(&self, time: Duration) -> Result<Totals, String> {
        let pool = pool(self.pool_frames)?;
        let (device, far) = self.device();
        let watched = Arc::new(Watched::default());
        let queue = self.queue(&pool, Box::new(Watcher::new(device, watched.clone())))?;
        let crowd = Crowd {
            queue: queue.clone(),
            stop: AtomicBool::new(false),
            names: AtomicU64::new(0),
            died: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            fault: OnceLock::new(),
        };
        let (far_stop, owners) = (AtomicBool::new(false), AtomicU64::new(0));
        let drained = std::thread::scope(|scope| {
            far.map(|far| scope.spawn(|| receive(far, &far_stop)));
            let _far_stopping = Stops(&far_stop);
            let poller = (self.owner == Owner::Poller).then(|| PollerThread::start(&queue));
            let poller = poller.transpose().map_err(|error| error.to_string())?;
            self.with_senders(&crowd, &watched, &owners, time)?;
            let drained = self.dies || queue.drain(DRAIN);
            drop(poller);
            Ok::<_, String>(drained)
        })?;
        if !drained {
            return Err("frames stay inside for ever".into());
        }
        self.account(&crowd, &watched, &pool, owners.into_inner())
    }

    fn queue(&self, pool: &PagePool, device: Box<dyn TxDevice>) -> Result<TxQueue, String> {
        let when_full = if self.drops_head { WhenFull::DropHead } else { WhenFull::Wait };
        let qdisc = Box::new(Fifo::new(FifoLimit::Packets(self.limit_packets)).when_full(when_full));
        let builder = TxQueue::builder(pool, device, Arc::new(HostClock), Arc::new(Mortal));
        let builder = builder.qdisc(qdisc).lane_frames(self.lane_frames).index_start(u32::MAX - 1000);
        let builder = if self.small_queues { builder } else { builder.small_queues(None) };
        builder.build().map_err(|error| error.to_string())
    }

    fn device(&self) -> (Box<dyn TxDevice>, Option<Wire>) {
        let (device, far): (Box<dyn TxDevice>, _) = match self.wire {
            None => (Box::new(Null::default()), None),
            Some(bits_per_second) => {
                let (near, far) = wire(&WireSpec::default().rate(bits_per_second));
                (Box::new(near), Some(far))
            }
        };
        let spec = |faults| FaultSpec::parse(&format!("seed={},{faults}", self.seed % 1000));
        match self.faults.map(spec) {
            Some(Ok(spec)) => (Box::new(Fault::new(device, &spec)), far),
            _ => (device, far),
        }
    }

    /// Senders, chaos and a dedicated owner, until the time is over.
    fn with_senders(
        &self, crowd: &Crowd, watched: &Watched, owners: &AtomicU64, time: Duration,
    ) -> Result<(), String> {
        let (mut random, began, cpus) = (Random::new(self.seed), Instant::now(), processors());
        let owner_stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS)
                .map(|at| {
                    let (random, cpu) =
                        (Random::new(random.next()), cpus[at as usize % cpus.len().min(PROCESSORS)]);
                    scope.spawn(move || {
                        let _ = pin(cpu);
                        crowd.come_and_go(random);
                    })
                })
                .collect();
            if self.owner == Owner::Dedicated {
                let (random, stop) = (Random::new(random.next()), &owner_stop);
                scope.spawn(move || own(&crowd.queue, random, owners, stop));
            }
            let _owner_stopping = Stops(&owner_stop);
            while began.elapsed() < time && crowd.fault.get().is_none() {
                std::thread::sleep(Duration::from_micros(500));
                watched.bomb.fetch_or(self.dies && began.elapsed() > time / 2, SeqCst);
                owners.fetch_add(u64::from(disturb(&crowd.queue, &mut random)), SeqCst);
            }
            crowd.stop.store(true, SeqCst);
            let ended: Vec<_> = senders.into_iter().map(|sender| sender.join()).collect();
            ended.into_iter().find(Result::is_err).map_or(Ok(()), |panic| Err(what_panicked(panic)))
        })
    }

    /// Checks the account at the end.
    fn account(
        &self, crowd: &Crowd, watched: &Watched, pool: &PagePool, owners: u64,
    ) -> Result<Totals, String> {
        let wrong = |what: String| if what.is_empty() { Ok(()) } else { Err(what) };
        wrong(crowd.fault.get().cloned().unwrap_or_default())?;
        wrong(watched.fault.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default())?;
        let queue = &crowd.queue;
        let audit = catch_unwind(AssertUnwindSafe(|| queue.shutdown(Duration::ZERO)));
        let (counters, senders) = (queue.counters(), queue.sender_totals());
        let taken = senders.packets.get();
        let (sent, failed, returned) = (counters.sent.get(), counters.failed.get(), counters.returned.get());
        if !self.dies {
            if taken != sent + failed + returned {
                return Err(format!("{taken} taken, but {sent} sent, {failed} failed, {returned} returned"));
            }
            let out = audit.map_or("its end panicked".into(), |audit| match audit.out() {
                0 => String::new(),
                _ => audit.to_string(),
            });
            wrong(out)?;
        } else if pool.audit().out() as u64 > taken {
            return Err(format!("{} frames out, but {taken} were sent", pool.audit().out()));
        }
        Ok(Totals {
            packets: sent,
            failed,
            dropped: senders.drops.get(),
            waits: senders.waits.get(),
            senders: crowd.names.load(SeqCst),
            died: crowd.died.load(SeqCst),
            given_up: crowd.given_up.load(SeqCst),
            panics: counters.panics.get(),
            owners,
            deaths: u64::from(self.dies),
        })
    }
}

/// Disturbs the queue from outside. True if an owner died of it.
fn disturb(queue: &TxQueue, random: &mut Random) -> bool {
    let disturbed = catch_unwind(AssertUnwindSafe(|| match random.below(12) {
        0 => queue.apply(|_| panic_quietly("a change")),
        1 => queue.set_batching(Batching::Off),
        2 => queue.set_batching(Batching::Bytes(3000)),
        3 => queue.set_batching(Batching::On),
        4 => _ = queue.audit(),
        5 => {
            if let Some(mut turn) = queue.claim(0) {
                turn.step(0);
                panic_quietly("an owner between two steps");
            }
        }
        _ => queue.poll(),
    }));
    disturbed.is_err()
}

/// A dedicated owner that dies between two polls, and comes again.
fn own(queue: &TxQueue, mut random: Random, owners: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        let polls = 100 + random.below(3000);
        let died = catch_unwind(AssertUnwindSafe(|| {
            let Ok(mut owner) = queue.dedicate() else { return };
            for _ in 0..polls {
                if stop.load(SeqCst) {
                    return;
                }
                owner.poll();
                std::thread::yield_now();
            }
            panic_quietly("a dedicated owner");
        }));
        owners.fetch_add(u64::from(died.is_err()), SeqCst);
        std::thread::sleep(Duration::from_micros(random.below(1000)));
    }
}

/// The far end of a wire.
fn receive(mut far: Wire, stop: &AtomicBool) {
    let Ok(pool) = pool(4096) else { return };
    let Ok(mut cache) = pool.cache("far end") else { return };
    let mut frames = Batch::new(64);
    let mut attached = far.attach(pool.region().clone()).is_ok();
    while attached && !stop.load(SeqCst) {
        match far.receive(&mut cache, &mut frames, 64) {
            Ok(0) => std::thread::sleep(Duration::from_micros(50)),
            Ok(_) => attached = cache.give(&mut frames).is_ok(),
            Err(_) => attached = false,
        }
    }
}

fn pool(frames: u32) -> Result<PagePool, String> {
    PagePool::builder().frames(frames).huge_pages(false).build().map_err(|error| error.to_string())
}

/// Sets the stop flag when it is dropped, for whatever reason.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
