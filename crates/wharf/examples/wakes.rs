//! The cost of waiting beside that of a bare futex wake. `bench/wake.sh` runs it; figures are valid on an idle machine only.
//!
//! 1. The time from space in a full queue to the return of the waiting `send`, beside a bare futex wake of a sleeping thread,
//!    in turn. The woken thread has a processor of its own, so that the scheduler's choice of a processor does not count.
//! 2. One active sender beside thousands that are registered and idle, and one alone, in turn.
//!
//! `idle N PACKETS BURST` sends only PACKETS of one sender beside N idle ones, for a profiler to count.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wharf::device::{Batch, Frame, Region};
use wharf::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf::qdisc::{Fifo, FifoLimit};
use wharf::queue::{HostClock, TxQueue};
use wharf::{PagePool, Sender, Wait};
use wharf_devices::host::{HostPark, pin, processors};
use wharf_devices::null::Null;

const WAKES: usize = 3000;
/// Time for a thread to fall asleep.
const ASLEEP: Duration = Duration::from_micros(300);
const IDLE: usize = 4000;
const ROUNDS: usize = 15;
const ROUND_PACKETS: usize = 1_000_000;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, idle, packets, burst] = &args[..]
        && what == "idle"
    {
        let mut path = Path::new(idle.parse()?)?;
        return path.send(packets.parse()?, burst.parse()?);
    }
    let (mut bare, mut waits) = wakes()?;
    println!("wake-up of a sleeping thread   p50 us   p99 us");
    for (name, times) in [("bare futex", &mut bare), ("space to sender", &mut waits)] {
        println!("{name:28} {:8.1} {:8.1}", at(times, 500), at(times, 990));
    }
    println!(
        "{:28} {:8.2} {:8.2}",
        "ratio",
        at(&mut waits, 500) / at(&mut bare, 500),
        at(&mut waits, 990) / at(&mut bare, 990)
    );
    println!("\none active sender, ns a packet   alone   beside {IDLE} idle   ratio");
    for burst in [1, 32] {
        let [alone, beside, ratio] = idle(burst)?;
        println!("burst {burst:<2}  {alone:29.2} {beside:17.2} {ratio:7.3}");
    }
    Ok(())
}

/// Returns a percentile in microseconds; the rank is in thousandths.
fn at(times_ns: &mut [u64], permille: usize) -> f64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() * permille / 1000).map_or(0.0, |&ns| ns as f64 / 1000.0)
}

/// A device that completes on request.
struct Gate {
    open: Arc<AtomicBool>,
    held: VecDeque<Frame>,
}

const RING: usize = 4;

impl Notify for Gate {}

impl Device for Gate {
    fn name(&self) -> String {
        "gate".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.open.store(true, SeqCst);
        Ok(())
    }
}

impl TxDevice for Gate {
    fn info(&self) -> TxInfo {
        TxInfo { ring_frames: Some(RING as u32), completions: CompletionMode::Real, ..Default::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        let before = self.held.len();
        while self.held.len() < RING {
            let Some(frame) = batch.pop() else { break };
            self.held.push_back(frame);
        }
        Transmitted { doorbell: self.held.len() > before, stopped: self.held.len() == RING }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        for _ in 0..budget {
            let Some(frame) = self.open.load(SeqCst).then(|| self.held.pop_front()).flatten() else { break };
            if let Err(frame) = into.sent.push(frame) {
                self.held.push_front(frame);
                break;
            }
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}

/// Nanoseconds from a common origin.
fn now_ns(began: Instant) -> u64 {
    began.elapsed().as_nanos() as u64
}

/// Measures bare wake-ups and senders' wake-ups in turn.
fn wakes() -> Outcome<(Vec<u64>, Vec<u64>)> {
    let pool = PagePool::builder().frames(4096).build()?;
    let open = Arc::new(AtomicBool::new(false));
    let gate = Box::new(Gate { open: open.clone(), held: VecDeque::new() });
    let queue = TxQueue::builder(&pool, gate, Arc::new(HostClock), Arc::new(HostPark))
        .qdisc(Box::new(Fifo::new(FifoLimit::Packets(8))))
        .lane_frames(4)
        .small_queues(None)
        .build()?;
    let (began, stop) = (Instant::now(), AtomicBool::new(false));
    // The time of the thread's last wake-up, and the number of wake-ups.
    let (bare_awake, sender_awake) = (Awake::default(), Awake::default());
    let (mut bare, mut waits) = (Vec::new(), Vec::new());
    let cpus = processors();
    let [ours, theirs] = [cpus.first(), cpus.last()].map(|cpu| cpu.copied().unwrap_or(0));
    pin(ours)?;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let _ = pin(theirs);
            while !stop.load(SeqCst) {
                std::thread::park();
                bare_awake.note(began);
            }
        });
        let sender = queue.sender("waits")?;
        let counters = sender.counters().clone();
        let sends = scope.spawn(|| {
            pin(theirs)?;
            send_on(sender, &stop, &sender_awake, began)
        });
        let mut owner = queue.dedicate()?;
        for wake in 1..=WAKES {
            std::thread::sleep(ASLEEP);
            let from_ns = now_ns(began);
            sleeper.thread().unpark();
            bare.push(bare_awake.after(wake).saturating_sub(from_ns));
            // The queue fills, and its sender sleeps.
            while counters.waits.get() < wake as u64 {
                owner.poll();
            }
            std::thread::sleep(ASLEEP);
            let from_ns = now_ns(began);
            open.store(true, SeqCst);
            while sender_awake.count.load(SeqCst) < wake {
                owner.poll();
            }
            open.store(false, SeqCst);
            waits.push(sender_awake.after(wake).saturating_sub(from_ns));
        }
        stop.store(true, SeqCst);
        open.store(true, SeqCst);
        sleeper.thread().unpark();
        while !sends.is_finished() {
            owner.poll();
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    })?;
    queue.shutdown(Duration::ZERO);
    Ok((bare, waits))
}

#[derive(Default)]
struct Awake {
    at_ns: AtomicU64,
    count: AtomicUsize,
}

impl Awake {
    fn note(&self, began: Instant) {
        self.at_ns.store(now_ns(began), SeqCst);
        self.count.fetch_add(1, SeqCst);
    }

    /// Returns the time of the n-th wake-up.
    fn after(&self, count: usize) -> u64 {
        while self.count.load(SeqCst) < count {
            std::hint::spin_loop();
        }
        self.at_ns.load(SeqCst)
    }
}

/// Sends packet after packet, and notes the return of each send that had to wait.
fn send_on(mut sender: Sender, stop: &AtomicBool, awake: &Awake, began: Instant) -> Outcome<()> {
    let counters = sender.counters().clone();
    while !stop.load(SeqCst) {
        let Ok(packet) = sender.packet(64, Wait::Never) else { continue };
        let before = counters.waits.get();
        _ = sender.send_packet(packet, Wait::Forever)?;
        if counters.waits.get() > before {
            awake.note(began);
        }
    }
    Ok(())
}

/// One active sender of a queue, and others that are registered and idle.
struct Path {
    active: Sender,
    _idle: Vec<Sender>,
}

impl Path {
    fn new(idle: usize) -> Outcome<Self> {
        let pool = PagePool::builder().frames(1 << 16).build()?;
        let queue =
            TxQueue::builder(&pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark));
        let queue = queue.build()?;
        let active = queue.sender("active")?;
        let idle = (0..idle).map(|n| queue.sender(&format!("idle {n}"))).collect::<Result<_, _>>()?;
        Ok(Self { active, _idle: idle })
    }

    fn send(&mut self, packets: usize, burst_packets: usize) -> Outcome<()> {
        let mut burst = self.active.burst(burst_packets);
        for _ in 0..packets / burst_packets {
            while burst.len() < burst_packets {
                let missing = burst_packets - burst.len();
                self.active.fill(&mut burst, missing, 64, Wait::Never)?;
            }
            _ = self.active.send(&mut burst, Wait::Forever)?;
        }
        Ok(())
    }

    fn ns_per_packet(&mut self, burst_packets: usize) -> Outcome<f64> {
        let began = Instant::now();
        self.send(ROUND_PACKETS, burst_packets)?;
        Ok(began.elapsed().as_nanos() as f64 / ROUND_PACKETS as f64)
    }
}

/// Returns medians: alone, beside idle senders, and of the ratios of rounds.
fn idle(burst_packets: usize) -> Outcome<[f64; 3]> {
    let (mut alone, mut beside) = (Path::new(0)?, Path::new(IDLE)?);
    let mut columns = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let (one, other) = (alone.ns_per_packet(burst_packets)?, beside.ns_per_packet(burst_packets)?);
        for (column, figure) in columns.iter_mut().zip([one, other, other / one]) {
            column.push(figure);
        }
    }
    Ok(columns.map(|mut column| {
        column.sort_by(f64::total_cmp);
        column[ROUNDS / 2]
    }))
}
