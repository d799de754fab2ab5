//! The line, its two ends, and the forwarder between them.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use wharf_core::bql::Bounds;
use wharf_core::device::{
    AnyDevice, CompletionMode, Completions, Device, DeviceError, Notify, Passes, RxDevice, THIN_ROWS,
    Transmitted, TxDevice, TxInfo, thin_buckets,
};
use wharf_core::host::{Clock, PollerWait, Wake};
use wharf_core::poller::{Poller, Settings};
use wharf_core::pool::{Burst, Cache};
use wharf_core::qdisc::Qdisc;
use wharf_core::qdisc::contract::write_packet;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_mem::{Batch, Frame, Region};
use wharf_testkit::threads::{NoWake, TestClock, TestPark};
use wharf_testkit::{assert_conserved, pool};

pub(super) const MS: u64 = 1_000_000;
pub(super) const END_NS: u64 = 500 * MS;
/// Time between two packets of the sparse flow: more than 64 flows take for a turn of 1514 bytes each.
pub(super) const SPARSE_NS: u64 = 45 * MS;
/// When it begins: the flood has been noticed.
pub(super) const SPARSE_FROM_NS: u64 = 150 * MS;
const RING_FRAMES: usize = 2048;
const TX_RING_FRAMES: usize = 1024;
/// The sparse flow's number, and its TOS.
pub(super) const SPARSE: u16 = 0;
pub(super) const EF: u8 = 0xb8;
pub(super) const PACKET_BYTES: u32 = 100;

/// What comes, and what it costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) flows: u16,
    /// The number of the first one.
    pub(super) first: u16,
    pub(super) sparse_tos: u8,
    /// Time between two packets of all other flows together.
    pub(super) apart_ns: u64,
    pub(super) receive_ns: u64,
    pub(super) transmit_ns: u64,
    /// Packets after which it pauses, and for how long.
    pub(super) burst: u64,
    pub(super) pause_ns: u64,
    /// The other side waits while the ring is full.
    pub(super) holds_back: bool,
    /// The device thins what comes, if it is told to.
    pub(super) thins: bool,
    /// Time in which a reader who sleeps takes a packet out of the transmit ring; 0: it is gone at once.
    pub(super) read_ns: u64,
    pub(super) byte_limits: Bounds,
}

/// 1.25 million packets a second, of which 25,000 can leave.
pub(super) const FLOOD: Load = Load {
    flows: 1,
    first: 1,
    sparse_tos: EF,
    apart_ns: 800,
    receive_ns: 100,
    transmit_ns: 40_000,
    burst: u64::MAX,
    pause_ns: 100 * MS,
    holds_back: false,
    thins: false,
    read_ns: 0,
    byte_limits: Bounds::LEARN,
};

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By flow.
    pub(super) sent: Vec<u64>,
    pub(super) ring_drops: Vec<u64>,
    pub(super) thinned: Vec<u64>,
    pub(super) is_thinning: bool,
    pub(super) sparse_ns: Vec<u64>,
}

/// The packets that come, the receive ring that they lie in, and what has left.
#[derive(Debug)]
pub(super) struct Line {
    clock: Arc<TestClock>,
    load: Load,
    /// Time of the next packet of the flood and of the sparse flow.
    next_ns: [u64; 2],
    count: u64,
    ring: VecDeque<(u64, u16)>,
    passes: Option<Passes>,
    /// The time at which the reader has taken the last packet of the transmit ring.
    read_until_ns: u64,
    pub(super) seen: Seen,
}

/// Returns the buckets of a flow's packets.
pub(super) fn buckets_of(flow: u16, tos: u8) -> [usize; THIN_ROWS] {
    let mut bytes = [0; PACKET_BYTES as usize];
    write_packet(&mut bytes, flow, tos, 0);
    thin_buckets(&bytes)
}

impl Line {
    pub(super) fn new(clock: &Arc<TestClock>, load: Load) -> Arc<Mutex<Self>> {
        let flows = usize::from(load.first + load.flows);
        let [sent, ring_drops, thinned] = [(); 3].map(|()| vec![0; flows]);
        let seen = Seen { sent, ring_drops, thinned, ..Seen::default() };
        let (next_ns, count, ring) = ([load.apart_ns, SPARSE_FROM_NS], 0, VecDeque::new());
        Arc::new(Mutex::new(Self {
            clock: clock.clone(),
            load,
            next_ns,
            count,
            ring,
            passes: None,
            read_until_ns: 0,
            seen,
        }))
    }

    /// Moves what has come by now into the ring, as far as it has room.
    fn arrive(&mut self) {
        loop {
            let is_sparse = self.next_ns[1] < self.next_ns[0];
            let at_ns = self.next_ns[usize::from(is_sparse)];
            let is_full = self.ring.len() == RING_FRAMES;
            if at_ns > self.clock.now_ns() || is_full && self.load.holds_back {
                return;
            }
            self.count += 1;
            let flow = if is_sparse {
                SPARSE
            } else {
                self.load.first + (self.count % u64::from(self.load.flows)) as u16
            };
            let pause_ns = if self.count.is_multiple_of(self.load.burst) { self.load.pause_ns } else { 0 };
            let apart_ns = if is_sparse { SPARSE_NS } else { self.load.apart_ns + pause_ns };
            self.next_ns[usize::from(is_sparse)] += apart_ns;
            let chance = (self.count as u32).wrapping_mul(0x9e37_79b1);
            let seen = &mut self.seen;
            let tos = if is_sparse { self.load.sparse_tos } else { 0 };
            let passes = |passes: &Passes| buckets_of(flow, tos).iter().any(|&at| chance <= passes[at]);
            match is_full {
                _ if self.passes.as_ref().is_some_and(|all| !passes(all)) => {
                    seen.thinned[usize::from(flow)] += 1;
                }
                false => self.ring.push_back((at_ns, flow)),
                true => seen.ring_drops[usize::from(flow)] += 1,
            }
        }
    }
}

/// An end of the line: it transmits at the cost of the caller's time.
pub(super) struct End {
    line: Arc<Mutex<Line>>,
    region: Option<Arc<Region>>,
    /// Frames sent, and the time at which they have left.
    done: VecDeque<(u64, Frame)>,
}

impl End {
    pub(super) fn new(line: &Arc<Mutex<Line>>) -> Self {
        Self { line: line.clone(), region: None, done: VecDeque::new() }
    }
}

impl Notify for End {}

impl Device for End {
    fn name(&self) -> String {
        "end".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.done.iter().for_each(|(_, frame)| see(frame));
    }
}

impl TxDevice for End {
    fn info(&self) -> TxInfo {
        let is_read = self.line.lock().unwrap().load.read_ns > 0;
        let completions = if is_read { CompletionMode::Real } else { CompletionMode::None };
        TxInfo { completions, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        let (mut line, region) = (self.line.lock().unwrap(), self.region.as_ref().unwrap());
        while self.done.len() < TX_RING_FRAMES || line.load.read_ns == 0 {
            let Some(frame) = batch.pop() else { break };
            let now_ns = line.clock.0.fetch_add(line.load.transmit_ns, SeqCst) + line.load.transmit_ns;
            line.read_until_ns = line.read_until_ns.max(now_ns) + line.load.read_ns;
            let left_ns = line.read_until_ns;
            let bytes = region.bytes(&frame).unwrap();
            let flow = u16::from_be_bytes([bytes[34], bytes[35]]);
            let at_ns = u64::from_be_bytes(bytes[42..50].try_into().unwrap());
            line.seen.sent[usize::from(flow)] += u64::from(left_ns <= END_NS || line.load.read_ns == 0);
            if flow == SPARSE {
                line.seen.sparse_ns.push(left_ns - at_ns);
            }
            self.done.push_back((left_ns, frame));
        }
        Transmitted { doorbell: true, stopped: !batch.is_empty() }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let now_ns = self.line.lock().unwrap().clock.now_ns();
        let count = self
            .done
            .iter()
            .take(budget)
            .take_while(|(left_ns, _)| *left_ns <= now_ns || now_ns >= END_NS)
            .count();
        self.done.drain(..count).for_each(|(_, frame)| into.sent.push(frame).unwrap());
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.done.len()
    }
}

impl RxDevice for End {
    fn holds_back(&self) -> bool {
        self.line.lock().unwrap().load.holds_back
    }

    fn thin(&mut self, passes: Option<&Passes>) -> bool {
        let mut line = self.line.lock().unwrap();
        line.arrive();
        line.passes = passes.copied().filter(|_| line.load.thins);
        line.seen.is_thinning = line.passes.is_some();
        line.load.thins
    }

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let mut line = self.line.lock().unwrap();
        line.arrive();
        let (before, count) = (to.len(), budget.min(line.ring.len()));
        let taken = if count == 0 { 0 } else { cache.take(to, count, PACKET_BYTES).unwrap_or(0) };
        for frame in &mut to.frames_mut()[before..] {
            let (at_ns, flow) = line.ring.pop_front().unwrap();
            let tos = if flow == SPARSE { line.load.sparse_tos } else { 0 };
            write_packet(cache.pool().region().bytes_mut(frame).unwrap(), flow, tos, at_ns);
        }
        line.clock.0.fetch_add(line.load.receive_ns * taken as u64, SeqCst);
        Ok(taken)
    }
}

pub(super) type Named = Vec<(&'static str, u64)>;

/// Each look at the clock takes 200 ns; a sleep ends in time.
#[derive(Debug)]
pub(super) struct VirtualWait(pub(super) Arc<TestClock>);

impl PollerWait for VirtualWait {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(NoWake)
    }

    fn now_ns(&self) -> u64 {
        self.0.0.fetch_add(200, SeqCst)
    }

    fn watch(&mut self, _at: usize, _fd: RawFd) -> bool {
        false
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, timeout_ns: u64, _told: &mut dyn FnMut(usize)) {
        self.0.0.fetch_add(timeout_ns.min(MS), SeqCst);
    }
}

/// A line whose packets go through a queue.
pub(super) type Path = (Arc<Mutex<Line>>, TxQueue, RxQueue);

/// Makes one, of `load` through `qdisc`. The device that receives also sends if `is_duplex`.
pub(super) fn path(clock: &Arc<TestClock>, load: Load, qdisc: Box<dyn Qdisc>, is_duplex: bool) -> Path {
    let (line, pool) = (Line::new(clock, load), pool(4096));
    let builder = |device| TxQueue::builder_of(&pool, device, clock.clone(), Arc::new(TestPark)).unwrap();
    let queue = builder(AnyDevice::Tx(Box::new(End::new(&line)))).qdisc(qdisc);
    let queue = queue.byte_limits(load.byte_limits).build().unwrap();
    let back = builder(AnyDevice::duplex(End::new(&line))).build().unwrap();
    let mut sender = queue.sender("forwards").unwrap();
    let handler = Box::new(move |burst: &mut Burst| {
        _ = sender.send(burst, Wait::Never).unwrap();
        Rest::Again
    });
    let receiver = match is_duplex {
        true => RxQueue::of(&back, handler).unwrap(),
        false => {
            RxQueue::new(Box::new(End::new(&line)), &pool, std::slice::from_ref(&queue), handler).unwrap()
        }
    };
    (line, queue, receiver)
}

/// Has one poller forward by `paths` until [`END_NS`].
pub(super) fn run(clock: &Arc<TestClock>, paths: &[Path]) {
    let mut poller = Poller::new(Box::new(VirtualWait(clock.clone())), Settings::default());
    for (_, queue, receiver) in paths {
        poller.add_receiver(receiver);
        poller.add(queue);
    }
    let mut poller = poller.begin();
    while clock.now_ns() < END_NS {
        poller.step(u64::MAX);
    }
}

/// Forwards `load` through `qdisc` until [`END_NS`]. Returns what was seen, the drops of the queue by reason,
/// and the discipline's statistics. The device that receives also sends if `is_duplex`.
pub(super) fn forward(load: Load, qdisc: Box<dyn Qdisc>, is_duplex: bool) -> (Seen, Named, Named) {
    let clock = Arc::new(TestClock::default());
    let path = path(&clock, load, qdisc, is_duplex);
    run(&clock, std::slice::from_ref(&path));
    let (line, queue, receiver) = path;
    drop(receiver);
    let (mut drops, stats) = (Vec::new(), queue.qdisc_stats());
    queue.drops(&mut |reason, count| drops.push((reason, count)));
    assert_conserved(&queue);
    let seen = std::mem::take(&mut line.lock().unwrap().seen);
    (seen, drops, stats)
}
