//! A device that misbehaves, over a wire: what it gets wrong is an error, and nothing is lost, doubled or
//! overtaken for it.

use crate::common::{NoClock, assert_conserved, len_of, pool, read, within_a_minute, write};
use proptest::prelude::*;
use std::sync::Arc;
use std::thread;
use wharf_core::device::{Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo};
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::{Batch, Frame, Region};

/// Frequency of each fault in 256 calls.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    /// Takes fewer frames than it has room for.
    partial: u8,
    /// Says that it is stopped though it has room.
    stopped: u8,
    /// Completes a slot that holds nothing.
    not_held: u8,
    /// Completes nothing though it could.
    lazy: u8,
    /// Completes a frame as longer than it was.
    longer: u8,
    /// Fails a frame that was sent.
    failed: u8,
}

/// The near end of a wire, with faults.
struct Faulty {
    wire: Wire,
    ring: usize,
    rates: Rates,
    random: u64,
    region: Option<Arc<Region>>,
    part: Batch,
}

impl Faulty {
    fn happens(&mut self, rate: u8) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) as u8 <= rate && rate > 0
    }
}

impl Notify for Faulty {}

impl Device for Faulty {
    fn name(&self) -> String {
        "faulty".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.wire.attach(region)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.wire.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.wire.close()
    }
}

impl TxDevice for Faulty {
    fn info(&self) -> TxInfo {
        self.wire.info()
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let room = self.ring - self.wire.outstanding();
        let max =
            if self.happens(self.rates.partial) { room.min(1 + self.random as usize % 3) } else { room };
        self.part.append(batch, max);
        let mut done = self.wire.transmit(&mut self.part, more);
        assert!(self.part.is_empty());
        done.stopped |= self.happens(self.rates.stopped);
        done
    }

    fn flush(&mut self) -> bool {
        self.wire.flush()
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if !self.happens(self.rates.lazy) {
            self.wire.reap(budget, false, into)?;
        }
        if self.happens(self.rates.longer)
            && let (Some(region), Some(frame)) = (&self.region, into.sent.frames_mut().first_mut())
        {
            region.set_len(frame, region.data_bytes_max()).unwrap();
        }
        if self.happens(self.rates.failed)
            && let Some(frame) = into.sent.pop()
        {
            into.failed.push((frame, "faulty"));
        }
        if self.happens(self.rates.not_held) {
            return Err(DeviceError::NotHeld { device: self.name(), slot: 7, ring_frames: self.ring as u32 });
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.wire.outstanding()
    }
}

/// Receives all packets of one sender, in order. Returns their number.
fn receive_all(mut far: Wire, pool: PagePool) -> u32 {
    let mut cache = pool.cache("far").unwrap();
    let (mut batch, mut next) = (Batch::new(64), 0);
    while !far.ended() {
        far.receive(&mut cache, &mut batch, 64).unwrap();
        for frame in batch.frames() {
            assert_eq!(read(pool.region().bytes(frame).unwrap()), (0, next));
            next += 1;
        }
        cache.give(&mut batch).unwrap();
        thread::yield_now();
    }
    assert_eq!(pool.audit().out(), 0);
    next
}

/// Sends `packets` over a faulty wire. Returns the queue with its counts.
fn send_over(rates: Rates, seed: u64, ring: u32, packets: u32) -> TxQueue {
    let (near, far) = wire(&WireSpec::default().clock(Arc::new(NoClock)).ring(ring).unwrap());
    let (random, part) = (seed | 1, Batch::new(256));
    let faulty = Faulty { wire: near, ring: ring as usize, rates, random, region: None, part };
    let builder = TxQueue::builder(&pool(512), Box::new(faulty), Arc::new(HostClock), Arc::new(HostPark));
    let queue = builder.build().unwrap();
    let poller = PollerThread::start(&queue).unwrap();
    let receiver = thread::spawn(move || receive_all(far, pool(512)));
    let mut sender = queue.sender("one").unwrap();
    for number in 0..packets {
        let mut packet = loop {
            match sender.packet(len_of(number) as u32) {
                Ok(packet) => break packet,
                Err(_) => sender.wait_for_memory().unwrap(),
            }
        };
        write(packet.bytes_mut(), 0, number);
        sender.send_packet(packet).unwrap();
    }
    assert!(queue.drain(u64::MAX));
    drop(sender);
    assert_eq!(queue.shutdown(u64::MAX).out(), 0);
    assert_eq!(receiver.join().unwrap(), packets, "every packet arrived once and in order");
    drop(poller);
    assert_conserved(&queue);
    queue
}

#[test]
fn completions_of_frames_not_held_are_errors_and_cost_nothing() {
    within_a_minute(|| {
        let queue = send_over(Rates { not_held: 128, ..Rates::default() }, 1, 8, 500);
        assert!(queue.counters().device_errors.get() > 0);
        let error = queue.counters().last_error().unwrap();
        assert_eq!(error, "faulty: completion of slot 7, which holds no frame (ring of 8)");
        assert_eq!(queue.counters().sent.get(), 500);
    });
}

#[test]
fn excess_completed_bytes_are_an_error_and_block_no_sender() {
    within_a_minute(|| {
        let queue = send_over(Rates { longer: 255, ..Rates::default() }, 1, 8, 500);
        assert!(queue.counters().device_errors.get() > 0);
        let error = queue.counters().last_error().unwrap();
        assert!(error.starts_with("faulty: ") && !error.contains('\n'), "{error}");
    });
}

/// A case that hangs takes a minute: no shrinking.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_is_lost_doubled_or_overtaken(
        seed in any::<u64>(),
        ring in prop::sample::select(vec![2u32, 4, 64]),
        rates in any::<[u8; 5]>(),
    ) {
        let [partial, stopped, not_held, lazy, failed] = rates;
        // A device that never completes anything would hold all for ever, rightly.
        let rates = Rates { partial, stopped, not_held, lazy: lazy.min(200), longer: 0, failed };
        within_a_minute(move || {
            let queue = send_over(rates, seed, ring, 200);
            let counters = queue.counters();
            assert_eq!(counters.sent.get() + counters.failed.get(), 200);
        });
    }
}
