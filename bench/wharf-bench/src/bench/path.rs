//! Measures 64-byte packets per second through the path, from a sender to the null device and back.
//!
//! Every packet is written, in memory of 65535 frames of 2 KiB: more than caches hold, so that a pool that hands out cold frames shows.

use anyhow::{Context, anyhow};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, Scope, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};
use wharf::Wait;
use wharf::device::TxDevice;
use wharf_core::direct::Direct;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::Sender;
use wharf_devices::host::{HostClock, HostPark, pin};
use wharf_devices::null::Null;

/// Frames of memory.
const FRAMES: u32 = 65535;
/// Bytes of each packet.
pub(super) const PACKET_BYTES: u32 = 64;
/// Bursts between two looks at a clock or a flag.
pub(super) const BURSTS: u32 = 256;
/// Time until caches and the byte limit are in their steady state.
const WARM_UP: Duration = Duration::from_millis(50);

/// The thread that runs the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The sender that finds it free.
    Lane,
    /// The first core, which does nothing else.
    Dedicated,
    /// The only sender, which owns it outright.
    Direct,
}

/// One case to measure.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) cpus: Vec<usize>,
    pub(super) senders: u16,
    pub(super) burst: usize,
    pub(super) time: Duration,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, cpus, senders, burst, .. } = self;
        write!(f, "{kind:?}, {} cores, {senders} senders, bursts of {burst}", cpus.len())
    }
}

/// Returns Mpps, and packets per doorbell.
pub(super) fn measure(case: &Case) -> anyhow::Result<(f64, f64)> {
    let measured = match case.kind {
        Kind::Direct => on_a_thread(case.cpus[0], || direct(case)),
        Kind::Lane | Kind::Dedicated => queue(case),
    };
    let (mpps, packets_per_doorbell) = measured?;
    Ok(((mpps * 1e3).round() / 1e3, (packets_per_doorbell * 1e3).round() / 1e3))
}

/// Builds a path over `device`, the same for all measurements.
pub(super) fn builder(device: Box<dyn TxDevice>) -> anyhow::Result<QueueBuilder> {
    let pool = PagePool::builder().frames(FRAMES).frame_bytes(2048).build()?;
    Ok(TxQueue::builder(&pool, device, Arc::new(HostClock), Arc::new(HostPark)))
}

/// Runs `what` on a thread of its own, pinned.
pub(super) fn on_a_thread<T: Send>(
    cpu: usize, what: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| joined(start(scope, cpu, what)))
}

type Handle<'scope, T> = std::io::Result<ScopedJoinHandle<'scope, anyhow::Result<T>>>;

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>, cpu: usize, what: impl FnOnce() -> anyhow::Result<T> + Send + 'scope,
) -> Handle<'scope, T> {
    let pinned = move || {
        pin(cpu).with_context(|| format!("processor {cpu}"))?;
        what()
    };
    Builder::new().spawn_scoped(scope, pinned)
}

fn joined<T>(thread: Handle<'_, T>) -> anyhow::Result<T> {
    thread
        .context("cannot start a thread")?
        .join()
        .map_err(|_| anyhow!("a thread panicked: this is a bug in wharf"))?
}

/// Writes each packet.
#[inline(always)]
pub(super) fn write(burst: &mut Burst) {
    let packet = [1u8; PACKET_BYTES as usize];
    for bytes in burst.iter_mut() {
        bytes.copy_from_slice(&packet);
    }
}

fn direct(case: &Case) -> anyhow::Result<(f64, f64)> {
    let mut path = builder(Box::new(Null::default()))?.build_direct()?;
    let mut burst = path.burst(case.burst);
    let mut send = |time: Duration| -> anyhow::Result<f64> {
        let (began, mut packets) = (Instant::now(), 0);
        while began.elapsed() < time {
            packets += send_directly(&mut path, &mut burst, case.burst)?;
        }
        Ok(packets as f64 / began.elapsed().as_secs_f64() / 1e6)
    };
    send(WARM_UP)?;
    let mpps = send(case.time)?;
    let packets_per_doorbell = path.counters().packets_per_doorbell();
    drop(burst);
    all_home(path.close().out())?;
    Ok((mpps, packets_per_doorbell))
}

/// Sends [`BURSTS`] bursts of `count` packets. Returns the number of packets.
#[inline(never)]
fn send_directly(path: &mut Direct, burst: &mut Burst, count: usize) -> anyhow::Result<usize> {
    let mut packets = 0;
    for _ in 0..BURSTS {
        packets += path.fill(burst, count, PACKET_BYTES, Wait::Never)?;
        write(burst);
        _ = path.send(burst, Wait::Forever)?;
    }
    Ok(packets)
}

pub(super) fn all_home(out: usize) -> anyhow::Result<()> {
    if out == 0 { Ok(()) } else { Err(anyhow!("{out} frames did not come home: this is a bug in wharf")) }
}

/// Runs senders, and an owner if there is to be one, on threads of their own, and reads the queue's counters meanwhile.
fn queue(case: &Case) -> anyhow::Result<(f64, f64)> {
    let queue = builder(Box::new(Null::default()))?.build()?;
    let senders = (0..case.senders).map(|at| queue.sender(&format!("sender {at}")));
    let senders = senders.collect::<Result<Vec<Sender>, _>>()?;
    let (stop, through) = (AtomicBool::new(false), AtomicBool::new(false));
    let (owner_cpu, sender_cpus) = match case.kind {
        // The owner has the first core for itself.
        Kind::Dedicated => (case.cpus.first(), &case.cpus[1..]),
        Kind::Lane | Kind::Direct => (None, &case.cpus[..]),
    };
    let measured = std::thread::scope(|scope| {
        let owner = owner_cpu.map(|&cpu| start(scope, cpu, || own(&queue, &through)));
        let one = |(sender, &cpu)| start(scope, cpu, || send(sender, case.burst, &stop));
        let threads: Vec<_> = senders.into_iter().zip(sender_cpus.iter().cycle()).map(one).collect();
        let all = threads.iter().all(Result::is_ok) && owner.as_ref().is_none_or(Result::is_ok);
        let measured = if all { watch(&queue, case.time) } else { Default::default() };
        stop.store(true, Relaxed);
        // All have ended before the owner does, since one may wait for it.
        let sent = threads.into_iter().map(joined).fold(Ok(()), Result::and);
        through.store(true, Relaxed);
        owner.map_or(Ok(()), joined).and(sent).map(|()| measured)
    });
    all_home(queue.shutdown(Duration::MAX).out())?;
    measured
}

/// Runs the queue until all senders have ended.
fn own(queue: &TxQueue, through: &AtomicBool) -> anyhow::Result<()> {
    let mut owner = queue.dedicate()?;
    while !through.load(Relaxed) {
        for _ in 0..BURSTS {
            owner.poll();
        }
    }
    Ok(())
}

/// Sends until stopped.
fn send(mut sender: Sender, count: usize, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut burst = sender.burst(count);
    while !stop.load(Relaxed) {
        for _ in 0..BURSTS {
            sender.fill(&mut burst, count, PACKET_BYTES, Wait::Forever)?;
            write(&mut burst);
            _ = sender.send(&mut burst, Wait::Forever)?;
        }
    }
    Ok(())
}

/// Longest wait for a machine that gives the senders no processor.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sleeps for `time`, and longer if nothing has moved by then. Returns Mpps and packets per doorbell meanwhile.
fn watch(queue: &TxQueue, time: Duration) -> (f64, f64) {
    let counters = queue.counters();
    let look = || (Instant::now(), counters.packets.get(), counters.doorbells.get());
    sleep(WARM_UP);
    let (began, packets, doorbells) = look();
    let (ended, packets_then, doorbells_then) = loop {
        sleep(time);
        let seen = look();
        if seen.1 > packets || began.elapsed() > PATIENCE {
            break seen;
        }
    };
    let sent = (packets_then - packets) as f64;
    let rang = (doorbells_then - doorbells).max(1) as f64;
    (sent / ended.duration_since(began).as_secs_f64() / 1e6, sent / rang)
}
