//! The workload on real threads: channels take pages and pass packets on, applications read and free them.

use super::super::LabError;
use super::super::host::{StopGuard, fault, start};
use crate::comparators::page_policy::{AnyCache, Policy, Wanted};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf_core::pool::PageCounters;
use wharf_devices::host::{pin, processors};
use wharf_mem::lane::{LaneConsumer, LaneProducer, lane};
use wharf_mem::{Batch, Region};

/// Idle rounds before a thread yields: there may be more threads than processors.
const IDLE_ROUNDS: u32 = 64;

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) channels: usize,
    pub(super) applications: usize,
    pub(super) poll_packets: usize,
    pub(super) lane_packets: u32,
    pub(super) touch_bytes: usize,
    pub(super) duration: Duration,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measurement {
    pub(super) packets: u64,
    pub(super) elapsed_ns: u64,
    /// Sums of all channels, and of all applications.
    pub(super) channels: PageCounters,
    pub(super) applications: PageCounters,
}

/// The result of one thread.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadResult {
    packets: u64,
    counters: PageCounters,
}

/// Runs `load` under a policy, as `name`. After the end an application frees the frames still on their way to it.
pub(super) fn run(
    policy: &dyn Policy, region: &Region, load: Load, name: &str,
) -> Result<Measurement, LabError> {
    let (ins, outs) = lanes(load);
    let caches = |kind: &str, count: usize| -> Result<Vec<AnyCache>, LabError> {
        let one = |n| policy.cache(&format!("{kind}{n}")).map_err(|error| fault(name, &error));
        (0..count).map(one).collect()
    };
    let (taking, freeing) = (caches("channel", load.channels)?, caches("application", load.applications)?);
    // The threads begin once this is theirs.
    let (stop, begin) = (AtomicBool::new(false), RwLock::new(()));
    let cpus = processors();
    // Channels first, so that two threads, one of each kind, are on different processors if there are two.
    let processor = |thread: usize| cpus.get(thread % cpus.len().max(1)).copied();
    std::thread::scope(|scope| {
        let (stop, begin) = (&stop, &begin);
        let (stopping, held) = (StopGuard(stop), begin.write());
        let mut threads = Vec::new();
        for (number, (cache, lanes)) in (0u16..).zip(taking.into_iter().zip(ins)) {
            let cpu = processor(threads.len());
            threads.push(start(scope, name, move || {
                settle_on(cpu);
                drop(begin.read());
                receive(cache, lanes, region, number, load, stop)
            })?);
        }
        for (cache, lanes) in freeing.into_iter().zip(outs) {
            let cpu = processor(threads.len());
            threads.push(start(scope, name, move || {
                settle_on(cpu);
                drop(begin.read());
                consume(cache, lanes, region, load, stop)
            })?);
        }
        drop(held);
        let began = Instant::now();
        std::thread::sleep(load.duration);
        drop(stopping);
        let elapsed_ns = began.elapsed().as_nanos() as u64;
        // A panicking thread has reported itself, and its frames show in the ledger.
        let done = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        Ok(sum(elapsed_ns, load.channels, done))
    })
}

/// Pins the thread to one processor, or leaves it where it is if that is refused.
fn settle_on(cpu: Option<usize>) {
    let _ = cpu.map(pin);
}

/// Creates a lane from each channel to each application.
fn lanes(load: Load) -> (Vec<Vec<LaneProducer>>, Vec<Vec<LaneConsumer>>) {
    let mut ins: Vec<Vec<LaneProducer>> = (0..load.channels).map(|_| Vec::new()).collect();
    let mut outs: Vec<Vec<LaneConsumer>> = (0..load.applications).map(|_| Vec::new()).collect();
    for channel in &mut ins {
        for application in &mut outs {
            let (lane_in, lane_out) = lane(load.lane_packets, 0);
            channel.push(lane_in);
            application.push(lane_out);
        }
    }
    (ins, outs)
}

/// Returns the sums of the first `channels` threads, and of the others.
fn sum(elapsed_ns: u64, channels: usize, threads: impl Iterator<Item = ThreadResult>) -> Measurement {
    let mut ran = Measurement { elapsed_ns, ..Measurement::default() };
    for (number, done) in threads.enumerate() {
        let side = if number < channels { &mut ran.channels } else { &mut ran.applications };
        side.add(&done.counters);
        ran.packets += done.packets;
    }
    ran
}

/// Runs a receive channel: a poll's worth of packets at a time, each poll for the next application.
fn receive(
    mut cache: AnyCache, mut lanes: Vec<LaneProducer>, region: &Region, number: u16, load: Load,
    stop: &AtomicBool,
) -> ThreadResult {
    let wanted = Wanted { sender: number, len_bytes: load.touch_bytes.max(60) as u32 };
    let (mut polled, mut next, mut idle) = (Batch::new(load.poll_packets), 0, 0);
    while !stop.load(Relaxed) {
        if polled.is_empty() && cache.take(&mut polled, load.poll_packets, wanted).is_ok() {
            for bytes in region.each_bytes_mut(&mut polled) {
                bytes[..load.touch_bytes].fill(number as u8);
            }
        }
        next = (next + 1) % lanes.len();
        let moved = lanes[next].push(&mut polled);
        idle = rest(idle, moved > 0);
    }
    // Frames not passed on go back; the counters are about the work.
    let done = ThreadResult { packets: 0, counters: cache.counters() };
    let _ = cache.give(&mut polled);
    done
}

/// Runs an application: reads packets and frees them. After the end it frees those still on their way.
fn consume(
    mut cache: AnyCache, mut lanes: Vec<LaneConsumer>, region: &Region, load: Load, stop: &AtomicBool,
) -> ThreadResult {
    let (mut got, mut idle) = (Batch::new(load.poll_packets), 0);
    let mut done = ThreadResult::default();
    loop {
        let ended = stop.load(Relaxed);
        let gone = lanes.iter().all(LaneConsumer::is_abandoned);
        let mut moved = 0;
        for lane in &mut lanes {
            moved += lane.pop(&mut got, load.poll_packets);
            if load.touch_bytes > 0 {
                let sum = |sum: u8, frame| {
                    let bytes = region.bytes(frame).unwrap_or_default();
                    bytes[..load.touch_bytes].iter().fold(sum, |sum, byte| sum ^ byte)
                };
                std::hint::black_box(got.frames().iter().fold(0, sum));
            }
            // All frames are of this pool.
            let _ = cache.give(&mut got);
        }
        if !ended {
            done = ThreadResult { packets: done.packets + moved as u64, counters: cache.counters() };
        } else if gone && moved == 0 {
            return done;
        }
        idle = rest(idle, moved > 0);
    }
}

/// Yields after a while without work. Returns the idle rounds so far.
fn rest(idle: u32, worked: bool) -> u32 {
    if worked {
        return 0;
    }
    std::hint::spin_loop();
    if idle < IDLE_ROUNDS {
        return idle + 1;
    }
    std::thread::yield_now();
    0
}
