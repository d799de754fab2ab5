//! Measures 64-byte packets per second through a device: sent by one thread that owns its path, or received and counted.

use super::path::{BURSTS, PACKET_BYTES, all_home, on_a_thread, write};
use crate::args::DeviceArgs;
use anyhow::Context;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf::queue::TxQueue;
use wharf::{OnGone, Port};
use wharf_cli::host;
use wharf_cli::session::open;
use wharf_cli::signals::Signals;
use wharf_cli::usage;
use wharf_core::device::{AnyDevice, Device, Notify, RxDevice, close_receiver};
use wharf_core::direct::Direct;
use wharf_core::pool::{Burst, Cache, PagePool};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, processors};
use wharf_devices::spec::{DeviceSpec, Direction};
use wharf_mem::Batch;

/// Time from the first packet until rings and caches are in their steady state.
const WARM_UP: Duration = Duration::from_millis(200);
/// Longest time that the peer may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The measurement. The keys are a promise: they are added to, never renamed.
#[derive(Debug, Serialize)]
pub(super) struct Through {
    device: String,
    mode: Option<&'static str>,
    packets: u64,
    seconds: f64,
    mpps: f64,
    /// Packets per burst that moved any.
    packets_per_burst: f64,
    /// Packets per doorbell; null for a receiver.
    packets_per_doorbell: Option<f64>,
}

impl std::fmt::Display for Through {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, mode, packets, seconds, mpps, packets_per_burst, .. } = self;
        let mode = mode.map_or(String::new(), |mode| format!(" ({mode})"));
        write!(
            f,
            "{device}{mode}: {packets} packets in {seconds:.2} s, {mpps:.2} Mpps, {packets_per_burst:.1} a burst"
        )
    }
}

/// Measures on a thread of its own.
pub(super) fn measure(args: &DeviceArgs) -> anyhow::Result<Through> {
    let there = processors();
    let cpu = args.cpu.or(there.first().copied()).context("this process may use no processor")?;
    if !there.contains(&cpu) {
        return Err(usage(format!("--cpu {cpu}: this process may not use it")));
    }
    if let Some(from) = &args.from {
        host::spare(args.host, from, Direction::Receive)?;
    }
    let signals = Signals::listen()?;
    on_a_thread(cpu, || match (args.to(), &args.from) {
        (Some(spec), _) => send(spec, args, &signals),
        (None, Some(spec)) => receive(spec, args, &signals),
        (None, None) => Err(usage("name a DEVICE to send to, or --from DEVICE")),
    })
}

fn opened(
    option: &str, spec: &DeviceSpec, direction: Direction, signals: &Signals,
) -> anyhow::Result<AnyDevice> {
    let mut port =
        open(option, spec, Port::builder_of(spec, direction).on_gone(OnGone::Fail), 1, signals, None)?;
    Ok(port.take_devices().pop().context("a device has at least one queue")?.device)
}

fn pool(args: &DeviceArgs) -> anyhow::Result<PagePool> {
    Ok(PagePool::builder().frames(args.frames).build()?)
}

/// One end that moves packets a step at a time, and never waits.
trait Moves {
    /// Moves packets. Returns their number, and that of the bursts that they took.
    fn turn(&mut self) -> anyhow::Result<(u64, u64)>;
}

/// Waits until packets move, warms up, then measures for `time`. Returns packets, bursts and seconds.
fn watch(moves: &mut impl Moves, time: Duration, signals: &Signals) -> anyhow::Result<(u64, u64, f64)> {
    let came = Instant::now();
    while moves.turn()?.0 == 0 {
        anyhow::ensure!(came.elapsed() < PATIENCE && !signals.asked(), "no packet has moved");
    }
    let mut run = |time: Duration| -> anyhow::Result<(u64, u64, f64)> {
        let (began, mut packets, mut bursts) = (Instant::now(), 0, 0);
        while began.elapsed() < time && !signals.asked() {
            let moved = moves.turn()?;
            (packets, bursts) = (packets + moved.0, bursts + moved.1);
        }
        Ok((packets, bursts, began.elapsed().as_secs_f64()))
    };
    run(WARM_UP)?;
    run(time)
}

fn report(
    device: String, mode: Option<&'static str>, (packets, bursts, seconds): (u64, u64, f64),
    packets_per_doorbell: Option<f64>,
) -> Through {
    let mpps = (packets as f64 / seconds / 1e3).round() / 1e3;
    let packets_per_burst = packets as f64 / bursts.max(1) as f64;
    Through { device, mode, packets, seconds, mpps, packets_per_burst, packets_per_doorbell }
}

struct Sends {
    path: Direct,
    burst: Burst,
    count: usize,
}

impl Moves for Sends {
    #[inline(never)]
    fn turn(&mut self) -> anyhow::Result<(u64, u64)> {
        let (mut packets, mut bursts) = (0, 0);
        for _ in 0..BURSTS {
            if self.burst.is_empty() {
                self.path.fill(&mut self.burst, self.count, PACKET_BYTES, Wait::Never)?;
                write(&mut self.burst);
            }
            let sent = self.path.send(&mut self.burst, Wait::Never)?.accepted;
            (packets, bursts) = (packets + sent as u64, bursts + u64::from(sent > 0));
        }
        Ok((packets, bursts))
    }
}

fn send(spec: &DeviceSpec, args: &DeviceArgs, signals: &Signals) -> anyhow::Result<Through> {
    let (device, pool) = (opened("--to", spec, Direction::Send, signals)?.into_tx()?, pool(args)?);
    let (name, mode) = (device.name(), device.mode());
    let path = TxQueue::builder(&pool, device, Arc::new(HostClock), Arc::new(HostPark)).build_direct()?;
    let burst = path.burst(args.burst);
    let mut sends = Sends { path, burst, count: args.burst };
    let moved = watch(&mut sends, args.seconds, signals)?;
    let Sends { path, burst, .. } = sends;
    drop(burst);
    let counters = path.counters();
    let (error, per_doorbell) = (counters.last_error(), counters.packets_per_doorbell());
    let out = path.close().out();
    if let Some(error) = error {
        anyhow::bail!(error);
    }
    all_home(out)?;
    Ok(report(name, mode, moved, Some(per_doorbell)))
}

struct Receives {
    device: Box<dyn RxDevice>,
    cache: Cache,
    batch: Batch,
    count: usize,
}

impl Moves for Receives {
    #[inline(never)]
    fn turn(&mut self) -> anyhow::Result<(u64, u64)> {
        let (mut packets, mut bursts) = (0, 0);
        for _ in 0..BURSTS {
            let received = self.device.receive(&mut self.cache, &mut self.batch, self.count)?;
            if received > 0 {
                self.cache.give(&mut self.batch)?;
                (packets, bursts) = (packets + received as u64, bursts + 1);
            }
        }
        anyhow::ensure!(
            packets > 0 || !self.device.ended(),
            "{}: nothing comes from it any more, too soon to measure",
            self.device.name()
        );
        Ok((packets, bursts))
    }
}

fn receive(spec: &DeviceSpec, args: &DeviceArgs, signals: &Signals) -> anyhow::Result<Through> {
    let (mut device, pool) = (opened("--from", spec, Direction::Receive, signals)?.into_rx()?, pool(args)?);
    device.attach(pool.region().clone())?;
    device.disarm();
    let (name, mode) = (device.name(), device.mode());
    let (cache, batch) = (pool.cache("bench")?, Batch::new(args.burst));
    let mut receives = Receives { device, cache, batch, count: args.burst };
    let moved = watch(&mut receives, args.seconds, signals)?;
    let Receives { mut device, mut cache, .. } = receives;
    close_receiver(&mut *device, &mut cache)?;
    drop((device, cache));
    all_home(pool.audit().out())?;
    Ok(report(name, mode, moved, None))
}
