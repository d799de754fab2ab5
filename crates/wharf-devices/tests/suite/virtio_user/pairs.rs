//! Three pairs over rings whose other side is taken from by hand, with copies of frames and in place.

use std::collections::VecDeque;
use std::sync::Arc;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use wharf_core::device::{Completions, Transmitted};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::iface::TxBook;
use wharf_devices::virtio::split::{SplitDevice, SplitDriver};
use wharf_devices::virtio::{Chain, DeviceRing, DriverRing, Layout, Memory, MemoryRegion, Options, Place};
use wharf_devices::virtio_user::HEADER_BYTES;
use wharf_devices::virtio_user::buffers::{Buffers, POOL_AT};
use wharf_devices::virtio_user::pairs::Pairs;
use wharf_devices::virtio_user::session::Queue;
use wharf_mem::Batch;
use wharf_packet::QueueMap;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::Area;

const PAIRS: usize = 3;
const SIZE: u16 = 8;

fn ring() -> (SplitDriver, SplitDevice) {
    let area = Arc::new(Area::new(Mapping::shared_small_pages(4096).unwrap()));
    let place = Place::within(&area, 0, Layout::Split, SIZE.into()).unwrap();
    let driver = SplitDriver::new(place.clone(), Options::default()).unwrap();
    (driver, SplitDevice::new(place, Options::default(), 0).unwrap())
}

fn queue() -> (Queue<SplitDriver>, SplitDevice) {
    let (driver, device) = ring();
    (Queue::start(driver, std::sync::Arc::new(EventFd::new(EFD_NONBLOCK).unwrap())), device)
}

struct Bench {
    pairs: Pairs<SplitDriver>,
    /// The device's end of each pair, where frames leave.
    wire: Vec<SplitDevice>,
    memory: Memory,
    pool: PagePool,
    cache: Cache,
    /// Frames that cannot be sent: none.
    book: TxBook,
    /// Flow and number of frames sent by each pair and not seen to leave.
    expected: Vec<VecDeque<[u8; 2]>>,
}

impl Bench {
    fn new(copies: bool) -> Self {
        let pool = PagePool::builder().frames(256).build().unwrap();
        let region = pool.region().clone();
        let (mut queues, mut wire) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let ((receive, _), (transmit, device)) = (queue(), queue());
            queues.push([receive, transmit]);
            wire.push(device);
        }
        let buffers = Buffers::new(&region, copies).unwrap();
        let (file, len_bytes) = (buffers.mapping().fd().unwrap(), buffers.mapping().len_bytes() as u64);
        let area = Arc::new(Area::of_peer(file, len_bytes).unwrap());
        let shared = MemoryRegion::new(POOL_AT, POOL_AT, &area, 0, len_bytes);
        let memory = Memory::new(shared.into_iter().collect()).unwrap();
        let (pairs, cache) = (Pairs::new(queues, buffers, 0), pool.cache("test").unwrap());
        let book = TxBook::new(0);
        Self { pairs, wire, memory, pool, cache, book, expected: vec![VecDeque::new(); PAIRS] }
    }

    /// Frames of these flows, with numbers from 0 on.
    fn frames(&mut self, flows: impl Iterator<Item = u8>) -> Batch {
        let (mut batch, flows) = (Batch::new(64), flows.collect::<Vec<_>>());
        self.cache.take(&mut batch, flows.len(), 60).unwrap();
        let all = self.pool.region().each_bytes_mut(&mut batch);
        for (number, (bytes, &flow)) in all.zip(&flows).enumerate() {
            bytes.fill(0);
            (bytes[11], bytes[20], bytes[21]) = (flow, flow, number as u8);
            self.expected[QueueMap::new(PAIRS as u32).queue_of(bytes)].push_back([flow, number as u8]);
        }
        batch
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let transmitted = self.pairs.transmit(batch, more, &mut self.book);
        assert!(self.book.is_empty());
        transmitted
    }

    /// Takes up to `most` frames that have left by `pair`, and checks that each was due. Returns their number.
    fn leave(&mut self, pair: usize, most: usize) -> usize {
        let (ring, mut chain) = (&mut self.wire[pair], Chain::new());
        for count in 0..most {
            if !ring.pop(&self.memory, &mut chain).unwrap() {
                return count;
            }
            let mut bytes = [0; 60];
            assert_eq!(chain.copy_out(&self.memory, HEADER_BYTES as u32, &mut bytes), 60);
            assert_eq!(self.expected[pair].pop_front(), Some([bytes[20], bytes[21]]), "by pair {pair}");
            ring.put_used(chain.token(), 0);
            ring.publish();
        }
        most
    }

    /// Frames that come back.
    fn reap(&mut self, budget: usize) -> usize {
        let mut done = Completions::new(64);
        self.pairs.reap(budget, &mut done).unwrap();
        let count = done.len();
        self.cache.give(&mut done.sent).unwrap();
        count
    }
}

#[test]
fn each_flow_leaves_by_one_pair_in_order_and_all_are_used() {
    for copies in [true, false] {
        each_flow_leaves_in_order(Bench::new(copies));
    }
}

fn each_flow_leaves_in_order(mut bench: Bench) {
    let mut used = [0; PAIRS];
    for _ in 0..20 {
        let mut batch = bench.frames((0..12).map(|at| at * 7 % 12));
        while !batch.is_empty() || bench.pairs.sending() > 0 {
            bench.transmit(&mut batch, false);
            (0..PAIRS).for_each(|pair| used[pair] += bench.leave(pair, usize::MAX));
            bench.reap(64);
        }
        assert!(bench.expected.iter().all(VecDeque::is_empty));
    }
    assert_eq!(used.iter().sum::<usize>(), 240);
    assert!(used.iter().all(|&count| count > 0), "{used:?}");
    drop(bench.cache);
    assert_eq!(bench.pool.audit().out(), 0);
}

#[test]
fn a_full_pair_holds_up_what_is_behind_its_frame_and_nothing_is_lost() {
    let mut bench = Bench::new(true);
    // One flow sends one frame more than its ring has room for; then all flows send.
    let flows = std::iter::repeat_n(0, usize::from(SIZE) + 1).chain(0..12);
    let mut batch = bench.frames(flows);
    let full = bench.expected.iter().position(|due| due.front() == Some(&[0, 0])).unwrap();
    let done = bench.transmit(&mut batch, true);
    assert!(done.stopped && bench.pairs.is_full());
    assert_eq!((batch.len(), bench.pairs.sending()), (13, SIZE.into()));
    // Completions of any pair are no use but those.
    assert_eq!(bench.reap(64), 0);
    assert!(bench.transmit(&mut batch, false).stopped);
    assert_eq!(bench.leave(full, 2), 2);
    assert_eq!(bench.reap(1), 1);
    bench.transmit(&mut batch, false);
    assert!(batch.len() < 13);
    while !batch.is_empty() || bench.pairs.sending() > 0 {
        bench.transmit(&mut batch, false);
        (0..PAIRS).for_each(|pair| assert!(bench.leave(pair, 1) <= 1));
        // One at a time: no pair is left out.
        bench.reap(1);
    }
    assert!(bench.expected.iter().all(VecDeque::is_empty));
}

#[test]
fn memory_waits_in_all_pairs_and_all_of_it_comes_back() {
    let mut bench = Bench::new(true);
    let mut arrived = Batch::new(64);
    let received = bench.pairs.receive(&mut bench.cache, &mut arrived, 64).unwrap().unwrap();
    assert_eq!((received, bench.pairs.held()), (0, PAIRS * usize::from(SIZE)));
    let mut batch = bench.frames(0..6);
    bench.transmit(&mut batch, false);
    assert_eq!(bench.pairs.sending(), 6);
    let Bench { pairs, mut cache, pool, .. } = bench;
    let (mut waited, mut unsent) = (Vec::new(), Vec::new());
    pairs.end(|frame| waited.push(frame), |frame| unsent.push(frame));
    assert_eq!((waited.len(), unsent.len()), (PAIRS * usize::from(SIZE), 6));
    for frame in waited.into_iter().chain(unsent) {
        cache.give_one(frame).unwrap();
    }
    drop(cache);
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn a_back_end_that_writes_anywhere_changes_no_frame_that_it_got_a_copy_of() {
    let mut bench = Bench::new(true);
    let mut batch = bench.frames(0..6);
    bench.transmit(&mut batch, false);
    assert_eq!((0..PAIRS).map(|pair| bench.leave(pair, usize::MAX)).sum::<usize>(), 6);
    let mut done = Completions::new(64);
    bench.pairs.reap(64, &mut done).unwrap();
    let all = &bench.memory.regions()[0].view;
    let nonsense = vec![0xee; all.len_bytes()];
    assert!(all.copy_in(0, &nonsense));
    let region = bench.pool.region();
    for frame in done.sent.frames() {
        assert_eq!(region.bytes(frame).unwrap()[22..], [0; 38], "as it was sent");
    }
    assert_eq!(done.sent.len(), 6);
    bench.cache.give(&mut done.sent).unwrap();
}
