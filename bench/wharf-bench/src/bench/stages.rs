//! Measures the cycles of a packet by stage: the time stamp counter around whole stages of whole bursts.
//!
//! A device in front of the null device notes when the path calls it. The time up to the first completion is *send*; the time until the
//! path transmits again or returns is *complete*. The cost of reading the counter is measured and taken off.

use super::path::{self, BURSTS, Case, Kind, PACKET_BYTES, builder, on_a_thread};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf::SendError;
use wharf::Sent;
use wharf::Wait;
use wharf::device::delegate;
use wharf::device::{Completions, Device, DeviceError, Notify, Transmitted, TxDevice};
use wharf::queue::TxQueue;
use wharf_core::direct::Direct;
use wharf_core::pool::Burst;
use wharf_core::sender::Sender;
use wharf_devices::host::ticks;
use wharf_devices::null::Null;
use wharf_mem::Batch;

const TIME: Duration = Duration::from_millis(200);

/// Ticks of the time stamp counter per packet.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cycles {
    /// Taking frames out of the pool.
    pub(super) alloc: f64,
    /// Writing the packets.
    pub(super) fill: f64,
    /// Lane, qdisc, byte limit, hand-over to the device.
    pub(super) send: f64,
    /// Completions, byte limit, frames back home.
    pub(super) complete: f64,
}

/// Measures the stages of one sender on one core. Returns `None` for anything else, where stages overlap.
pub(super) fn measure(case: &Case) -> anyhow::Result<Option<Cycles>> {
    if case.kind == Kind::Dedicated || case.senders > 1 {
        return Ok(None);
    }
    on_a_thread(case.cpus[0], || {
        let watch = Arc::new(Watch { overhead: overhead_ticks(), ..Watch::default() });
        let timed = Timed { device: Null::default(), watch: watch.clone() };
        let builder = builder(Box::new(timed))?;
        match case.kind {
            Kind::Direct => profile(&mut builder.build_direct()?, case.burst, &watch),
            Kind::Lane | Kind::Dedicated => {
                let queue: TxQueue = builder.build()?;
                profile(&mut queue.sender("stages")?, case.burst, &watch)
            }
        }
        .map(Some)
    })
}

/// A sender or a direct path.
trait Path {
    fn burst(&self, capacity: usize) -> Burst;
    fn fill(&mut self, burst: &mut Burst, count: usize) -> Result<usize, SendError>;
    fn send(&mut self, burst: &mut Burst) -> Result<Sent, SendError>;
}

macro_rules! impl_path {
    ($($path:ident),+) => {$(
        impl Path for $path {
            fn burst(&self, capacity: usize) -> Burst {
                $path::burst(self, capacity)
            }

            fn fill(&mut self, burst: &mut Burst, count: usize) -> Result<usize, SendError> {
                $path::fill(self, burst, count, PACKET_BYTES, Wait::Forever)
            }

            fn send(&mut self, burst: &mut Burst) -> Result<Sent, SendError> {
                $path::send(self, burst, Wait::Forever)
            }
        }
    )+};
}

impl_path!(Sender, Direct);

fn profile(path: &mut impl Path, count: usize, watch: &Watch) -> anyhow::Result<Cycles> {
    let mut burst = path.burst(count);
    let (began, overhead) = (Instant::now(), watch.overhead);
    let (mut packets, mut alloc, mut fill) = (0u64, 0u64, 0u64);
    while began.elapsed() < TIME {
        for _ in 0..BURSTS {
            let start = ticks();
            packets += path.fill(&mut burst, count)? as u64;
            let filled = ticks();
            path::write(&mut burst);
            let written = ticks();
            alloc += filled.saturating_sub(start + overhead);
            fill += written.saturating_sub(filled + overhead);
            watch.begin();
            _ = path.send(&mut burst)?;
            watch.enter(Stage::Send);
        }
    }
    let each = |ticks: u64| (ticks as f64 / packets.max(1) as f64 * 10.0).round() / 10.0;
    let [send, complete] =
        [Stage::Send, Stage::Complete].map(|stage| each(watch.spent[stage as usize].load(Relaxed)));
    Ok(Cycles { alloc: each(alloc), fill: each(fill), send, complete })
}

/// The stage of a send.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Send,
    Complete,
}

/// A stop watch for both stages, shared by a path and its device, on one thread.
#[derive(Debug, Default)]
struct Watch {
    overhead: u64,
    /// Time at which the present stage began.
    since: AtomicU64,
    stage: AtomicUsize,
    /// Ticks spent, by stage.
    spent: [AtomicU64; 2],
}

impl Watch {
    /// Begins a send.
    #[inline]
    fn begin(&self) {
        self.stage.store(Stage::Send as usize, Relaxed);
        self.since.store(ticks(), Relaxed);
    }

    /// Ends the present stage and begins `stage`.
    #[inline]
    fn enter(&self, stage: Stage) {
        let now = ticks();
        let spent = &self.spent[self.stage.load(Relaxed)];
        let ticks = now.saturating_sub(self.since.load(Relaxed) + self.overhead);
        spent.store(spent.load(Relaxed) + ticks, Relaxed);
        self.stage.store(stage as usize, Relaxed);
        self.since.store(now, Relaxed);
    }
}

/// The null device, with a watch.
struct Timed {
    device: Null,
    watch: Arc<Watch>,
}

impl Notify for Timed {}

impl Device for Timed {
    delegate!(device: name, attach, visit);
}

impl TxDevice for Timed {
    delegate!(device: info, flush, outstanding, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if self.watch.stage.load(Relaxed) == Stage::Complete as usize {
            self.watch.enter(Stage::Send);
        }
        self.device.transmit(batch, more)
    }

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.watch.enter(Stage::Complete);
        self.device.reap(budget, urgent, into)
    }
}

/// Measures the least ticks of reading the counter twice.
fn overhead_ticks() -> u64 {
    (0..1000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0)
}
