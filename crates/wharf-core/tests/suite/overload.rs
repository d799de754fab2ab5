//! A poller that forwards more than it can transmit, in virtual time: receiving and transmitting each packet
//! take time, and the receive ring is short. The discipline, not the ring, says what is lost.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use wharf_core::device::{
    AnyDevice, Completions, Device, DeviceError, Notify, Passes, RxDevice, THIN_FLOWS, Transmitted, TxDevice,
    TxInfo, thin_bucket,
};
use wharf_core::host::{Clock, PollerWait, Wake};
use wharf_core::poller::{Poller, Settings};
use wharf_core::pool::{Burst, Cache};
use wharf_core::qdisc::contract::write_packet;
use wharf_core::qdisc::{FqCodel, FqCodelOptions, Prio, Qdisc, WhenFull};
use wharf_core::queue::{Claimants, TxQueue};
use wharf_core::rx::{Receiver, Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_mem::{Batch, Frame, Region};
use wharf_packet::flow_hash;
use wharf_testkit::threads::{NoWake, TestClock, TestPark};
use wharf_testkit::{assert_conserved, pool};

const MS: u64 = 1_000_000;
const END_NS: u64 = 500 * MS;
/// Time between two packets of the sparse flow: more than 64 flows take for a turn of 1514 bytes each.
const SPARSE_NS: u64 = 45 * MS;
/// When it begins: the flood has been noticed.
const SPARSE_FROM_NS: u64 = 150 * MS;
const RING_FRAMES: usize = 2048;
/// The sparse flow's number, and its TOS.
const SPARSE: u16 = 0;
const EF: u8 = 0xb8;
const PACKET_BYTES: u32 = 100;

/// What comes, and what it costs.
#[derive(Debug, Clone, Copy)]
struct Load {
    flows: u16,
    /// The number of the first one.
    first: u16,
    /// Time between two packets of all other flows together.
    apart_ns: u64,
    receive_ns: u64,
    transmit_ns: u64,
    /// Packets after which it pauses, and for how long.
    burst: u64,
    pause_ns: u64,
    /// The other side waits while the ring is full.
    holds_back: bool,
    /// The device thins what comes, if it is told to.
    thins: bool,
}

/// 1.25 million packets a second, of which 25,000 can leave.
const FLOOD: Load = Load {
    flows: 1,
    first: 1,
    apart_ns: 800,
    receive_ns: 100,
    transmit_ns: 40_000,
    burst: u64::MAX,
    pause_ns: 100 * MS,
    holds_back: false,
    thins: false,
};

#[derive(Debug, Default)]
struct Seen {
    /// By flow.
    sent: Vec<u64>,
    ring_drops: Vec<u64>,
    thinned: Vec<u64>,
    is_thinning: bool,
    sparse_ns: Vec<u64>,
}

/// The packets that come, the receive ring that they lie in, and what has left.
#[derive(Debug)]
struct Line {
    clock: Arc<TestClock>,
    load: Load,
    /// Time of the next packet of the flood and of the sparse flow.
    next_ns: [u64; 2],
    count: u64,
    ring: VecDeque<(u64, u16)>,
    passes: Option<Passes>,
    seen: Seen,
}

/// Returns the bucket of a flow's packets.
fn bucket_of(flow: u16) -> usize {
    let mut bytes = [0; PACKET_BYTES as usize];
    write_packet(&mut bytes, flow, if flow == SPARSE { EF } else { 0 }, 0);
    thin_bucket(&bytes)
}

impl Line {
    fn new(clock: &Arc<TestClock>, load: Load) -> Arc<Mutex<Self>> {
        let flows = usize::from(load.first + load.flows);
        let [sent, ring_drops, thinned] = [(); 3].map(|()| vec![0; flows]);
        let seen = Seen { sent, ring_drops, thinned, ..Seen::default() };
        let (next_ns, count, ring) = ([load.apart_ns, SPARSE_FROM_NS], 0, VecDeque::new());
        Arc::new(Mutex::new(Self { clock: clock.clone(), load, next_ns, count, ring, passes: None, seen }))
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
            match is_full {
                _ if self.passes.as_ref().is_some_and(|passes| chance > passes[bucket_of(flow)]) => {
                    seen.thinned[usize::from(flow)] += 1;
                }
                false => self.ring.push_back((at_ns, flow)),
                true => seen.ring_drops[usize::from(flow)] += 1,
            }
        }
    }
}

/// An end of the line: it transmits at the cost of the caller's time.
struct End {
    line: Arc<Mutex<Line>>,
    region: Option<Arc<Region>>,
    done: VecDeque<Frame>,
}

impl End {
    fn new(line: &Arc<Mutex<Line>>) -> Self {
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
        self.done.iter().for_each(see);
    }
}

impl TxDevice for End {
    fn info(&self) -> TxInfo {
        TxInfo::default()
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        let (mut line, region) = (self.line.lock().unwrap(), self.region.as_ref().unwrap());
        while let Some(frame) = batch.pop() {
            let now_ns = line.clock.0.fetch_add(line.load.transmit_ns, SeqCst) + line.load.transmit_ns;
            let bytes = region.bytes(&frame).unwrap();
            let flow = u16::from_be_bytes([bytes[34], bytes[35]]);
            let at_ns = u64::from_be_bytes(bytes[42..50].try_into().unwrap());
            line.seen.sent[usize::from(flow)] += 1;
            if flow == SPARSE {
                line.seen.sparse_ns.push(now_ns - at_ns);
            }
            self.done.push_back(frame);
        }
        Transmitted { doorbell: true, stopped: false }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let count = budget.min(self.done.len());
        self.done.drain(..count).for_each(|frame| into.sent.push(frame).unwrap());
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
            let tos = if flow == SPARSE { EF } else { 0 };
            write_packet(cache.pool().region().bytes_mut(frame).unwrap(), flow, tos, at_ns);
        }
        line.clock.0.fetch_add(line.load.receive_ns * taken as u64, SeqCst);
        Ok(taken)
    }
}

type Named = Vec<(&'static str, u64)>;

/// Each look at the clock takes 200 ns; a sleep ends in time.
#[derive(Debug)]
struct VirtualWait(Arc<TestClock>);

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
type Path = (Arc<Mutex<Line>>, TxQueue, RxQueue);

/// Makes one, of `load` through `qdisc`. The device that receives also sends if `is_duplex`.
fn path(clock: &Arc<TestClock>, load: Load, qdisc: Box<dyn Qdisc>, is_duplex: bool) -> Path {
    let (line, pool) = (Line::new(clock, load), pool(4096));
    let builder = |device| TxQueue::builder_of(&pool, device, clock.clone(), Arc::new(TestPark)).unwrap();
    let queue = builder(AnyDevice::Tx(Box::new(End::new(&line)))).qdisc(qdisc).build().unwrap();
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
fn run(clock: &Arc<TestClock>, paths: &[Path]) {
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
fn forward(load: Load, qdisc: Box<dyn Qdisc>, is_duplex: bool) -> (Seen, Named, Named) {
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

fn fq_codel() -> Box<dyn Qdisc> {
    let when_full = WhenFull::DropHead;
    Box::new(FqCodel::new(FqCodelOptions { limit_packets: 500, when_full, ..FqCodelOptions::default() }))
}

fn prio() -> Box<dyn Qdisc> {
    Box::new(Prio::new(500).when_full(WhenFull::DropHead))
}

/// Checks that the sparse flow has lost nothing and waited for at most `most_ns`, and that what leaves is at
/// least `part` of what could without receiving.
fn assert_spared(seen: &Seen, load: Load, most_ns: u64, part: f64) {
    let expected = (END_NS - SPARSE_FROM_NS) / SPARSE_NS;
    assert_eq!(seen.ring_drops[usize::from(SPARSE)], 0, "the ring knows no flows");
    // The last one may still be inside.
    assert!(seen.sent[usize::from(SPARSE)] >= expected - 1, "{load:?}: {:?}", seen.sent);
    assert!(seen.sparse_ns.iter().all(|&ns| ns <= most_ns), "{load:?}: {:?}", seen.sparse_ns.iter().max());
    let (sent, could): (u64, u64) = (seen.sent.iter().sum(), END_NS / load.transmit_ns);
    assert!(sent as f64 >= part * could as f64, "{load:?}: {sent} of {could}");
}

#[test]
fn the_discipline_drops_what_is_too_much_and_a_sparse_flow_loses_nothing() {
    for (is_duplex, flows) in [(false, 1), (false, 8), (false, 64), (true, 64)] {
        let load = Load { flows, ..FLOOD };
        let (seen, drops, _) = forward(load, fq_codel(), is_duplex);
        // A turn of all others, 1514 bytes each: the discipline is so short that they come as new flows, too.
        let turn_ns = u64::from(flows) * u64::from(1514 / PACKET_BYTES + 1) * load.transmit_ns;
        assert_spared(&seen, load, MS + turn_ns, 0.8);
        let overlimit: u64 = drops.iter().filter(|drop| drop.0 == "overlimit").map(|drop| drop.1).sum();
        let ring: u64 = seen.ring_drops.iter().sum();
        assert!(ring < 130_000 && overlimit > 400_000, "{load:?}: {overlimit} and {ring} in the ring");
        assert!(fairness(&seen) > 0.98, "{load:?}: {:?}", seen.sent);
    }
}

/// What the discipline would drop is not even received. Each flow still has its share, and the sparse one
/// all.
#[test]
fn a_device_that_thins_leaves_the_time_to_transmit() {
    for (flows, qdisc) in [(1, fq_codel()), (8, fq_codel()), (64, fq_codel()), (8, prio())] {
        let is_fair = qdisc.name() == "fq_codel";
        let load = Load { flows, thins: true, receive_ns: 400, ..FLOOD };
        let (seen, _, _) = forward(load, qdisc, true);
        let turn_ns = u64::from(flows) * u64::from(1514 / PACKET_BYTES + 1) * load.transmit_ns;
        assert_spared(&seen, load, MS + turn_ns, 0.85);
        let thinned: u64 = seen.thinned.iter().sum();
        assert!(thinned > 300_000 && seen.thinned[usize::from(SPARSE)] == 0, "{load:?}: {:?}", seen.thinned);
        assert!(!is_fair || fairness(&seen) > 0.9, "{load:?}: {:?}", seen.sent);
    }
}

#[test]
fn buckets_cannot_be_told_from_the_flows() {
    let mut bytes = [0; PACKET_BYTES as usize];
    let is_same = |flow: &u16| {
        write_packet(&mut bytes, *flow, 0, 0);
        thin_bucket(&bytes) == (flow_hash(&bytes) >> 54) as usize
    };
    assert!((0..64).filter(is_same).count() < 8, "the hash has a seed");
}

/// Receivers that take all after each poll: no poll receives more than their inboxes hold.
#[test]
fn receivers_that_keep_up_lose_nothing_in_a_flood() {
    let (clock, pool) = (Arc::new(TestClock::default()), pool(4096));
    let line = Line::new(&clock, Load { apart_ns: 50, flows: 8, ..FLOOD });
    let queue = TxQueue::builder_of(
        &pool,
        AnyDevice::Tx(Box::new(End::new(&line))),
        clock.clone(),
        Arc::new(TestPark),
    );
    let queue = queue.unwrap().build().unwrap();
    let open =
        |handler| RxQueue::new(Box::new(End::new(&line)), &pool, std::slice::from_ref(&queue), handler);
    let (by, park) = (|bytes: &[u8]| u64::from(bytes[35]), Arc::new(TestPark));
    let receivers = Receiver::several_behind_poller(&pool, clock.clone(), park, 2, by, open);
    let mut receivers = receivers.unwrap();
    let mut poller = Poller::new(Box::new(VirtualWait(clock.clone())), Settings::default());
    poller.add_receiver(receivers[0].queue());
    let (mut poller, mut taken, mut burst) = (poller.begin(), 0, pool.burst(256));
    while clock.now_ns() < END_NS / 2 {
        poller.step(u64::MAX);
        for receiver in &mut receivers {
            while receiver.recv(&mut burst, Wait::Never).unwrap() > 0 {
                taken += burst.len();
                burst.clear();
            }
        }
    }
    drop(poller);
    let mut drops = 0;
    receivers[0].queue().drops(&mut |_, count| drops += count);
    assert!(drops == 0 && taken > 100_000, "{drops} and {taken}");
}

/// A flood whose flow has the urgent one's hash: the class tells them apart.
#[test]
fn an_urgent_flow_is_not_thinned_with_a_flood_of_its_hash() {
    let flow_of = |flow| bucket_of(flow) % THIN_FLOWS;
    let first = (1..=u16::MAX).find(|&flow| flow_of(flow) == flow_of(SPARSE)).unwrap();
    let load = Load { first, thins: true, receive_ns: 400, ..FLOOD };
    let (seen, _, _) = forward(load, prio(), true);
    assert_spared(&seen, load, 2 * MS, 0.85);
    assert!(seen.thinned[usize::from(first)] > 300_000 && seen.thinned[0] == 0);
}

/// The handler's thread never transmits: the queue's pollers do, and drop.
#[test]
fn a_flood_by_a_queue_that_others_transmit_is_one_too() {
    for flows in [1, 8] {
        let clock = Arc::new(TestClock::default());
        let load = Load { flows, thins: true, receive_ns: 400, ..FLOOD };
        let path = path(&clock, load, fq_codel(), false);
        path.1.set_claimants(Claimants::Pollers);
        run(&clock, std::slice::from_ref(&path));
        let seen = &path.0.lock().unwrap().seen;
        let turn_ns = u64::from(flows) * u64::from(1514 / PACKET_BYTES + 1) * load.transmit_ns;
        assert_spared(seen, load, 2 * MS + turn_ns, 0.8);
        assert!(seen.thinned.iter().sum::<u64>() > 300_000, "{:?}", seen.thinned);
    }
}

/// Two floods on one poller: what one of them drops is not the other's.
#[test]
fn floods_of_two_receive_queues_leave_each_its_half() {
    let clock = Arc::new(TestClock::default());
    let load = Load { thins: true, receive_ns: 400, ..FLOOD };
    let paths = [(); 2].map(|()| path(&clock, load, fq_codel(), false));
    run(&clock, &paths);
    let sent = paths.each_ref().map(|(line, ..)| line.lock().unwrap().seen.sent[1]);
    assert!(10 * sent[0].abs_diff(sent[1]) < sent[0] + sent[1], "{sent:?}");
}

#[test]
fn thinning_ends_with_the_flood() {
    let load = Load { flows: 8, thins: true, burst: 187_500, pause_ns: 300 * MS, ..FLOOD };
    let (seen, _, _) = forward(load, fq_codel(), true);
    let thinned: u64 = seen.thinned.iter().sum();
    assert!(thinned > 10_000 && !seen.is_thinning, "{seen:?}");
}

/// Jain's index of the flows but the sparse one.
fn fairness(seen: &Seen) -> f64 {
    let bulk: Vec<f64> = seen.sent[1..].iter().map(|&sent| sent as f64).collect();
    let (sum, squares) = (bulk.iter().sum::<f64>(), bulk.iter().map(|sent| sent * sent).sum::<f64>());
    sum * sum / squares / bulk.len() as f64
}

#[test]
fn an_urgent_flow_loses_nothing_with_priorities() {
    let (seen, _, _) = forward(FLOOD, prio(), false);
    assert_spared(&seen, FLOOD, 2 * MS, 0.8);
}

#[test]
fn what_cannot_even_be_received_leaves_a_sixth_of_the_time_to_transmit() {
    let load = Load { receive_ns: 1000, ..FLOOD };
    let (seen, _, _) = forward(load, fq_codel(), false);
    let (sent, could): (u64, u64) = (seen.sent.iter().sum(), END_NS / load.transmit_ns);
    assert!(6 * sent > could, "{sent} of {could}");
}

#[test]
fn a_burst_that_the_ring_holds_is_forwarded_whole() {
    // 2000 packets of the flood at once, each tenth of a second: more than the discipline would hold.
    let load = Load { apart_ns: 200, burst: 2000, transmit_ns: 10_000, ..FLOOD };
    let (seen, drops, _) = forward(load, fq_codel(), false);
    assert_eq!((drops, seen.ring_drops.iter().sum::<u64>()), (vec![], 0));
    assert!(seen.sent[1] >= 8000, "{:?}", seen.sent);
}

/// A machine whose driver waits loses nothing, however long it sends more than can leave.
#[test]
fn a_side_that_waits_floods_nothing() {
    let load = Load { holds_back: true, ..FLOOD };
    for is_duplex in [false, true] {
        let (seen, drops, _) = forward(load, fq_codel(), is_duplex);
        assert_eq!((drops, seen.ring_drops.iter().sum::<u64>()), (vec![], 0));
        assert!(seen.sent[1] > 10_000, "{:?}", seen.sent);
    }
}

#[test]
fn a_forwarder_that_keeps_up_has_nothing_in_the_discipline() {
    let load = Load { apart_ns: 20_000, transmit_ns: 10_000, ..FLOOD };
    let (seen, drops, stats) = forward(load, fq_codel(), false);
    assert_spared(&seen, load, MS, 0.5);
    assert_eq!((drops, stats.iter().find(|stat| stat.0 == "new_flows")), (vec![], Some(&("new_flows", 0))));
}
