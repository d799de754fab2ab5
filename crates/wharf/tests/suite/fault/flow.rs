//! Throughput while allocations fail, counted in steps and not in seconds. In a step each sender tries once to take
//! a burst and to send it, and the path is driven once.

use std::sync::Arc;
use wharf::testing::{Fault, FaultCounts, FaultSpec};
use wharf_core::device::{Device, RxDevice, TxDevice};
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::SendError;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::null::Null;
use wharf_devices::wire::{WireSpec, wire};
use wharf_mem::Batch;
use wharf_testkit::pool;

const STEPS: usize = 10_000;

/// The faults, or none, and their counts.
struct Memory {
    spec: FaultSpec,
    counts: Arc<FaultCounts>,
}

impl Memory {
    fn new(faults: Option<&str>) -> Self {
        let spec = faults.map_or(FaultSpec::default(), |faults| FaultSpec::parse(faults).unwrap());
        Self { spec, counts: Arc::default() }
    }

    fn of(&self, sender: u32) -> impl FnMut() -> bool + Send + use<> {
        self.spec.failing_takes(sender, &self.counts)
    }
}

fn builder(pool: &PagePool) -> QueueBuilder {
    TxQueue::builder(pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark))
}

/// Takes up to `count` packets, unless memory fails: then nothing this time.
fn take(fails: &mut impl FnMut() -> bool, fill: impl FnOnce() -> Result<usize, SendError>) {
    if !fails() {
        fill().unwrap();
    }
}

/// Packets that one sender that owns its path gets through.
fn direct(memory: &Memory, burst_packets: usize) -> u64 {
    let pool = pool(64);
    let mut direct = builder(&pool).build_direct().unwrap();
    let (mut failing, mut burst) = (memory.of(0), direct.burst(64));
    for _ in 0..STEPS {
        take(&mut failing, || direct.fill(&mut burst, burst_packets, 64, Wait::Never));
        _ = direct.send(&mut burst, Wait::Never).unwrap();
        direct.poll();
    }
    direct.counters().sent.get()
}

/// Packets that three senders get through together, driven by themselves or by an owner for good.
fn queue(memory: &Memory, burst_packets: usize, dedicated: bool) -> u64 {
    let pool = pool(64);
    let queue = builder(&pool).build().unwrap();
    let mut senders: Vec<_> = (0..3).map(|who| (queue.sender("flows").unwrap(), memory.of(who))).collect();
    let mut bursts: Vec<Burst> = senders.iter().map(|(sender, _)| sender.burst(64)).collect();
    let mut owner = dedicated.then(|| queue.dedicate().unwrap());
    for _ in 0..STEPS {
        for ((sender, failing), burst) in senders.iter_mut().zip(&mut bursts) {
            take(failing, || sender.fill(burst, burst_packets, 64, Wait::Never));
            _ = sender.send(burst, Wait::Never).unwrap();
        }
        match &mut owner {
            Some(owner) => _ = owner.poll(),
            None => queue.poll(),
        }
    }
    queue.counters().sent.get()
}

/// Packets that a receiver gets whose memory fails, one batch a step.
fn receiver(memory: &Memory, budget: usize) -> u64 {
    let (mut near, far) = wire(&WireSpec::default());
    let (near_pool, far_pool) = (pool(512), pool(64));
    near.attach(near_pool.region().clone()).unwrap();
    let mut far = Fault::new(Box::new(far), &memory.spec);
    let (mut from, mut to) = (near_pool.cache("near").unwrap(), far_pool.cache("far").unwrap());
    let (mut batch, mut received) = (Batch::new(64), Batch::new(64));
    let mut done = wharf_core::device::Completions::new(256);
    let mut count = 0;
    for _ in 0..STEPS {
        let room = batch.room();
        // An empty pool gives none this time.
        _ = from.take(&mut batch, room, 64);
        near.transmit(&mut batch, false);
        count += far.receive(&mut to, &mut received, budget).unwrap() as u64;
        to.give(&mut received).unwrap();
        near.reap(256, false, &mut done).unwrap();
        from.give(&mut done.sent).unwrap();
    }
    count
}

/// Packets that get through, in bursts of so many.
type Form = fn(&Memory, usize) -> u64;

#[test]
fn with_one_allocation_in_a_hundred_failing_more_than_half_of_the_packets_flow() {
    let forms: [(&str, Form); 4] = [
        ("one sender that owns its path", direct),
        ("three senders", |memory, burst| queue(memory, burst, false)),
        ("a dedicated owner", |memory, burst| queue(memory, burst, true)),
        ("a receiver", receiver),
    ];
    for (form, run) in forms {
        for burst_packets in [1, 16, 64] {
            let free = run(&Memory::new(None), burst_packets);
            for seed in 1..4 {
                let faulty = run(&Memory::new(Some(&format!("seed={seed},alloc=1%"))), burst_packets);
                println!("{form}, bursts of {burst_packets}, seed {seed}: {faulty} of {free}");
                assert!(free > 0 && faulty < free && 2 * faulty >= free);
            }
        }
    }
}
