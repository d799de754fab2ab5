//! Receivers of one queue, and handlers that leave packets. Pollers sleep without a bound: a lost call hangs.

use crate::source::{Arrivals, Source};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use wharf_core::device::{Device, DeviceError, Notify, RxDevice};
use wharf_core::host::{NoClock, Park, PollerWait, Wake};
use wharf_core::metrics::Walk;
use wharf_core::poller::{ActivePoller, Mode, Poller, Settings};
use wharf_core::pool::{Burst, Cache, PagePool};
use wharf_core::queue::QueueError;
use wharf_core::rx::{Receiver, Rest, RxQueue};
use wharf_core::sg_writer::SgWriter;
use wharf_core::wait::Wait;
use wharf_mem::{Batch, Frame, Meta, Region};
use wharf_testkit::pool;
use wharf_testkit::threads::{TestPark, within_ten_minutes};

/// Sleeps until woken, whatever the time.
#[derive(Debug)]
struct Untimed;

impl PollerWait for Untimed {
    fn waker(&self) -> Arc<dyn Wake> {
        TestPark.waker()
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn watch(&mut self, _at: usize, _fd: i32) -> bool {
        false
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, timeout_ns: u64, _told: &mut dyn FnMut(usize)) {
        if timeout_ns > 0 {
            std::thread::park();
        }
    }
}

fn poller(mode: Mode, queue: &RxQueue) -> Poller {
    let mut poller = Poller::new(Box::new(Untimed), Settings { mode, ..Settings::default() });
    poller.add_receiver(queue);
    poller
}

/// The number in front of a packet; its upper half is the flow.
fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

fn numbers(burst: &Burst) -> Vec<u64> {
    let region = burst.pool().region();
    burst.frames().iter().map(|frame| number(region.bytes(frame).unwrap())).collect()
}

fn receivers(pool: &PagePool, device: impl RxDevice + 'static, count: usize) -> Vec<Receiver> {
    let by = |bytes: &[u8]| number(bytes) >> 32;
    Receiver::several_behind_poller(pool, Arc::new(NoClock), Arc::new(TestPark), count, by, |handler| {
        Ok(RxQueue::new(Box::new(device), pool, &[], handler)?.takes_chains(true))
    })
    .unwrap()
}

/// Counters of receivers: by name, number of the receiver, and reason.
fn counters(queue: &RxQueue) -> BTreeMap<(String, String), u64> {
    let mut all = BTreeMap::new();
    queue.measured().upgrade().unwrap().measure(&mut Walk::new(&mut |metric| {
        let label = |wanted| metric.labels.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        if let Some(receiver) = label("receiver") {
            let name = label("reason").unwrap_or(metric.name).to_string();
            assert!(all.insert((name, receiver.to_string()), metric.value).is_none(), "{metric:?}");
        }
    }));
    all
}

/// What one receiver must have.
#[derive(Default)]
struct Model {
    inbox: VecDeque<u64>,
    is_gone: bool,
    taken: u64,
    full_drops: u64,
    gone_drops: u64,
}

impl Model {
    fn arrives(&mut self, number: u64, capacity: usize) {
        match self.inbox.len() < capacity {
            _ if self.is_gone => self.gone_drops += 1,
            true => self.inbox.push_back(number),
            false => self.full_drops += 1,
        }
    }
}

/// Receivers whose poller is stepped by hand, beside their model.
struct Rig {
    pool: PagePool,
    arrivals: Arc<Arrivals>,
    poller: ActivePoller,
    queue: RxQueue,
    receivers: Vec<Option<Receiver>>,
    model: Vec<Model>,
    capacity: usize,
    sent: u64,
}

impl Rig {
    fn new(frames: u32, count: usize) -> Self {
        let (pool, arrivals) = (pool(frames), Arc::new(Arrivals::default()));
        let receivers = receivers(&pool, Source(arrivals.clone()), count);
        let queue = receivers[0].queue().clone();
        let poller = poller(Mode::Busy, &queue).begin();
        let (receivers, model) = receivers.into_iter().map(|one| (Some(one), Model::default())).unzip();
        let capacity = (frames as usize / (2 * count)).clamp(1, 256);
        Self { pool, arrivals, poller, queue, receivers, model, capacity, sent: 0 }
    }

    fn arrive(&mut self, flow: usize, packets: usize) {
        let mut waiting = self.arrivals.waiting.lock().unwrap();
        for _ in 0..packets {
            waiting.push_back((flow as u64) << 32 | self.sent);
            self.sent += 1;
        }
    }

    /// Polls until all is received: no receiver keeps the memory from the others.
    fn poll(&mut self) {
        let arrived: Vec<u64> = self.arrivals.waiting.lock().unwrap().iter().copied().collect();
        for number in arrived {
            let receiver = (number >> 32) as usize % self.model.len();
            self.model[receiver].arrives(number, self.capacity);
        }
        let polls = 10 + 10 * self.sent;
        let is_through = |_| {
            self.poller.step(0);
            self.arrivals.waiting.lock().unwrap().is_empty()
        };
        assert!((0..polls).any(is_through), "{} packets wait", self.arrivals.waiting.lock().unwrap().len());
        // The last packets may just have been received: the next poll hands over what is left.
        (0..4).for_each(|_| _ = self.poller.step(0));
    }

    fn take(&mut self, from: usize, packets: usize) {
        let Some(receiver) = &mut self.receivers[from] else { return };
        let mut burst = self.pool.burst(packets);
        let count = receiver.recv(&mut burst, Wait::Never).unwrap();
        let model = &mut self.model[from];
        let wanted: Vec<u64> = model.inbox.drain(..packets.min(model.inbox.len())).collect();
        model.taken += count as u64;
        assert_eq!(numbers(&burst), wanted, "receiver {from}");
    }

    fn leave(&mut self, who: usize) {
        self.receivers[who] = None;
        let model = &mut self.model[who];
        model.gone_drops += std::mem::take(&mut model.inbox).len() as u64;
        model.is_gone = true;
    }

    /// Received packets are taken, dropped by reason, or wait; and so it is counted.
    fn check(&self) {
        let counters = counters(&self.queue);
        let mut sum = 0;
        for (number, model) in self.model.iter().enumerate() {
            let counter = |name: &str| counters[&(name.to_string(), number.to_string())];
            assert_eq!(counter("wharf_receiver_taken"), model.taken);
            assert_eq!(counter("wharf_receiver_backlog_packets"), model.inbox.len() as u64);
            assert_eq!(counter("inbox-full"), model.full_drops);
            assert_eq!(counter("receiver-gone"), model.gone_drops);
            sum += model.taken + model.inbox.len() as u64 + model.full_drops + model.gone_drops;
        }
        assert_eq!((self.queue.received(), sum), (self.sent, self.sent));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn received_packets_are_taken_in_order_or_dropped_by_reason(
        ops in prop::collection::vec((0..9, 0..40usize, 1..300usize), 1..60),
        count in 1..9usize,
        frames in prop::sample::select(vec![64, 100, 512, 4096]),
    ) {
        let mut rig = Rig::new(frames, count);
        for (op, flow, packets) in ops {
            match op {
                0..4 => rig.arrive(flow, packets),
                4 | 5 => rig.poll(),
                6 | 7 => rig.take(flow % count, packets),
                _ if flow < 8 => rig.leave(flow % count),
                _ => {}
            }
        }
        rig.poll();
        rig.check();
        let Rig { pool, poller, queue, receivers, .. } = rig;
        drop((poller, receivers));
        queue.close().unwrap();
        drop(queue);
        prop_assert_eq!(pool.audit().out(), 0, "{}", pool.audit());
    }
}

/// Receives super-packets of 12 buffers each, of flow 0.
#[derive(Default)]
struct Supers {
    left: usize,
    writer: SgWriter,
}

impl Notify for Supers {}

impl Device for Supers {
    fn name(&self) -> String {
        "supers".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Supers {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, _budget: usize) -> Result<usize, DeviceError> {
        if self.left == 0 {
            return Ok(0);
        }
        let bytes = vec![0; 12 * cache.pool().region().data_bytes_max() as usize];
        let (before, chunks) = (to.len(), std::iter::once(&bytes[..]));
        self.writer.place(cache, to, chunks, bytes.len() as u32, &Meta::default()).unwrap();
        self.left -= to.len() - before;
        Ok(to.len() - before)
    }

    fn ended(&self) -> bool {
        false
    }
}

#[test]
fn a_walk_over_metrics_may_use_the_queue() {
    let mut rig = Rig::new(64, 2);
    let (queue, mut received, mut shown) = (rig.queue.clone(), rig.pool.burst(64), 0);
    rig.arrive(0, 1);
    rig.poll();
    queue.measured().upgrade().unwrap().measure(&mut Walk::new(&mut |_| {
        shown += 1;
        rig.poller.step(0);
        let receivers = rig.receivers.iter_mut().flatten();
        receivers.for_each(|one| _ = one.recv(&mut received, Wait::Never));
    }));
    assert!(shown > 0 && received.len() == 1);
}

#[test]
fn super_packets_of_a_slow_receiver_leave_half_of_the_pool() {
    // A share of 32 buffers holds 2 of them; one of 8 holds none.
    for (count, held) in [(1, 2), (4, 0)] {
        let pool = pool(64);
        let receivers = receivers(&pool, Supers { left: 100, ..Supers::default() }, count);
        let mut poller = poller(Mode::Busy, receivers[0].queue()).begin();
        assert!((0..10_000).any(|_| poller.step(0) && receivers[0].queue().received() == 100));
        (0..4).for_each(|_| _ = poller.step(0));
        let counters = counters(receivers[0].queue());
        let counter = |name: &str| counters[&(name.to_string(), "0".to_string())];
        assert_eq!((counter("wharf_receiver_backlog_packets"), counter("inbox-full")), (held, 100 - held));
    }
}

/// Counts its calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl std::task::Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn packets_that_the_poller_held_wake_the_receiver() {
    let (pool, arrivals) = (pool(1024), Arc::new(Arrivals::default()));
    let open = |handler| RxQueue::new(Box::new(Source(arrivals.clone())), &pool, &[], handler);
    let (clock, park) = (Arc::new(NoClock), Arc::new(TestPark));
    let mut receiver = Receiver::behind_poller(&pool, clock, park, open).unwrap();
    let mut poller = poller(Mode::Busy, receiver.queue()).begin();
    arrivals.waiting.lock().unwrap().extend(0..300);
    (0..40).for_each(|_| _ = poller.step(0));
    let mut burst = pool.burst(256);
    assert_eq!(receiver.recv(&mut burst, Wait::Never).unwrap(), 256, "the poller holds the others");
    burst.clear();
    let calls = Arc::new(Calls::default());
    let waker = Waker::from(calls.clone());
    let mut context = Context::from_waker(&waker);
    let mut receiving = pin!(receiver.recv_async(&mut burst));
    assert!(receiving.as_mut().poll(&mut context).is_pending());
    (0..4).for_each(|_| _ = poller.step(0));
    assert_eq!(calls.0.load(SeqCst), 1, "they have come");
    assert!(matches!(receiving.as_mut().poll(&mut context), Poll::Ready(Ok(1..))));
}

#[test]
fn receivers_are_at_least_one_and_have_memory() {
    for (count, frames) in [(0, 16), (9, 16), (257, 4096)] {
        let (pool, by) = (pool(frames), |_: &[u8]| 0);
        let (clock, park) = (Arc::new(NoClock), Arc::new(TestPark));
        let error = Receiver::several_behind_poller(&pool, clock, park, count, by, |_| unreachable!());
        assert!(matches!(error, Err(QueueError::Setting { setting: "receivers", .. })));
    }
}

/// Packets that a handler has taken, and whether it has left some.
#[derive(Default)]
struct Room {
    packets: VecDeque<u64>,
    is_full: bool,
}

#[test]
fn handler_that_leaves_packets_runs_again_when_it_is_resumed() {
    const PACKETS: u64 = 2000;
    within_ten_minutes(|| {
        let (pool, arrivals) = (pool(1024), Arc::new(Arrivals::default()));
        arrivals.waiting.lock().unwrap().extend(0..PACKETS);
        let room = Arc::new(Mutex::new(Room::default()));
        let ours = room.clone();
        let handler = Box::new(move |burst: &mut Burst| {
            let mut room = ours.lock().unwrap();
            while room.packets.len() < 10
                && let Some(packet) = burst.pop()
            {
                room.packets.push_back(number(packet.bytes()));
            }
            room.is_full = !burst.is_empty();
            drop(room);
            std::thread::yield_now();
            Rest::Again
        });
        let queue = RxQueue::new(Box::new(Source(arrivals)), &pool, &[], handler).unwrap();
        let poller = poller(Mode::Sleeping, &queue);
        let stop = poller.stopper();
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            let mut taken = 0;
            while taken < PACKETS {
                let mut room = room.lock().unwrap();
                for number in std::mem::take(&mut room.packets) {
                    assert_eq!(number, taken, "in order");
                    taken += 1;
                }
                let was_full = std::mem::take(&mut room.is_full);
                drop(room);
                match was_full {
                    true => queue.resume(),
                    false => std::thread::yield_now(),
                }
            }
            stop.stop();
        });
        queue.close().unwrap();
        drop(queue);
        assert_eq!(pool.audit().out(), 0, "{}", pool.audit());
    });
}
