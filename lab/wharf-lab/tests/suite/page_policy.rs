//! Page policies: no page is handed out twice, none is lost, and the ledger shows 0 in the end; and the
//! counts of each.

use proptest::prelude::*;
use std::collections::BTreeSet;
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_lab::comparators::page_policy::{
    Allocator, AnyCache, Halves, OnBusy, Origin, Place, Policy, Recycle, SenderCache, Wanted,
};
use wharf_mem::{Batch, Frame};

const FRAMES: u32 = 2048;
const FIFO: usize = 16;

fn pool_of(frames: u32) -> PagePool {
    PagePool::builder().frames(frames).frame_bytes(128).huge_pages(false).build().unwrap()
}

fn wanted(sender: u16) -> Wanted {
    Wanted { sender, len_bytes: 60 }
}

fn batch(frames: impl IntoIterator<Item = Frame>) -> Batch {
    let mut batch = Batch::new(256);
    frames.into_iter().for_each(|frame| batch.push(frame).unwrap());
    batch
}

/// Takes `count` frames one by one.
fn take(cache: &mut AnyCache, count: usize, sender: u16) -> Vec<Frame> {
    let mut taken = Batch::new(count.max(1));
    (0..count).for_each(|_| assert_eq!(cache.take(&mut taken, 1, wanted(sender)).unwrap(), 1));
    std::iter::from_fn(|| taken.pop()).collect()
}

fn give(cache: &mut AnyCache, frames: impl IntoIterator<Item = Frame>) {
    frames.into_iter().for_each(|frame| cache.give(&mut batch([frame])).unwrap());
}

/// Runs a macro's test for every policy.
macro_rules! for_every_policy {
    ($test:ident($($arg:expr),*)) => {{
        $test(|pool| Allocator::new(pool), $($arg),*);
        $test(|pool| Origin::new(pool), $($arg),*);
        $test(|pool| Halves::new(pool), $($arg),*);
        $test(|pool| SenderCache::new(pool), $($arg),*);
        $test(|pool| Recycle::new(pool, OnBusy::Stop, FIFO), $($arg),*);
        $test(|pool| Recycle::new(pool, OnBusy::Release, FIFO), $($arg),*);
        $test(|pool| Recycle::new(pool, OnBusy::Rotate, FIFO), $($arg),*);
        $test(|pool| Recycle::new(pool, OnBusy::Scan, FIFO), $($arg),*);
    }};
}

#[derive(Debug, Clone)]
enum Op {
    /// This cache takes so many, for a sender; in steps and visits, or by `take`.
    Take(usize, usize, u16, bool),
    /// This cache gives back so many of those out, from this one on.
    Give(usize, usize, usize, bool),
    /// This cache is dropped, and a new one comes.
    Renew(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let count = prop_oneof![3 => 1..4usize, 1 => 1..200usize];
    prop_oneof![
        8 => (0..4usize, count.clone(), 0..5u16, any::<bool>()).prop_map(|(a, b, c, d)| Op::Take(a, b, c, d)),
        8 => (0..4usize, count, any::<usize>(), any::<bool>()).prop_map(|(a, b, c, d)| Op::Give(a, b, c, d)),
        1 => (0..4usize).prop_map(Op::Renew),
    ]
}

fn step_by_step(cache: &mut AnyCache, to: &mut Batch, count: usize, wanted: Wanted) -> usize {
    let mut taken = 0;
    while taken < count {
        let here = cache.take_here(to, count - taken, wanted).unwrap();
        taken += here;
        let source = cache.source();
        assert!(matches!(source, Place::Depot | Place::Mailbox(0..5)), "{source:?}");
        if here == 0 && cache.fetch(count - taken) == 0 {
            break;
        }
    }
    taken
}

fn obeys_the_rules<P: Policy>(policy: impl Fn(&PagePool) -> P, frames: u32, ops: &[Op]) {
    let pool = pool_of(frames);
    let policy = policy(&pool);
    let mut caches: Vec<AnyCache> = (0..4).map(|n| policy.cache(&format!("cpu{n}")).unwrap()).collect();
    let (mut out, mut indices) = (Vec::new(), BTreeSet::new());
    for op in ops {
        match *op {
            Op::Take(by, count, sender, steps) => {
                let mut taken = Batch::new(count);
                let n = match steps {
                    true => step_by_step(&mut caches[by], &mut taken, count, wanted(sender)),
                    false => match caches[by].take(&mut taken, count, wanted(sender)) {
                        Err(PoolError::Exhausted { .. }) => 0,
                        taken => taken.unwrap(),
                    },
                };
                assert_eq!(n, taken.len());
                for frame in std::iter::from_fn(|| taken.pop()) {
                    assert!(indices.insert(frame.index()), "{frame:?} is out already");
                    assert_eq!(frame.sender(), sender);
                    out.push(frame);
                }
            }
            Op::Give(by, count, from, steps) => {
                let count = count.min(out.len());
                let from = if out.len() > count { from % (out.len() - count) } else { 0 };
                let mut given = batch(out.drain(from..from + count));
                given.frames().iter().for_each(|frame| assert!(indices.remove(&frame.index())));
                if steps {
                    caches[by].give_here(&mut given).unwrap();
                    while caches[by].surplus().is_some() {
                        caches[by].bring();
                    }
                } else {
                    caches[by].give(&mut given).unwrap();
                }
                assert!(given.is_empty());
            }
            Op::Renew(at) => caches[at] = policy.cache("again").unwrap(),
        }
        let held: BTreeSet<u32> = pool.audit().held.iter().map(|held| held.index).collect();
        assert!(indices.is_subset(&held), "the ledger knows of all that are out");
    }
    let mut rest = out.into_iter().peekable();
    while rest.peek().is_some() {
        caches[0].give(&mut batch(rest.by_ref().take(200))).unwrap();
    }
    let name = format!("{policy:?}");
    drop((caches, policy));
    assert_eq!((pool.free(), pool.audit().out()), (frames as usize, 0), "all are back: {name}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_page_is_handed_out_twice_and_none_is_lost(
        frames in prop::sample::select(vec![16u32, 301, 2048]),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        for_every_policy!(obeys_the_rules(frames, &ops));
    }
}

/// Two threads take, two free; each frees the pages that it gets.
fn survives_threads<P: Policy>(policy: impl Fn(&PagePool) -> P) {
    const PACKETS: usize = 20_000;
    let pool = pool_of(FRAMES);
    let policy = policy(&pool);
    let (counters, out) = std::thread::scope(|scope| {
        let (to, from): (Vec<_>, Vec<_>) = (0..2).map(|_| std::sync::mpsc::sync_channel(64)).unzip();
        let takers: Vec<_> = (0..2u16)
            .map(|sender| {
                let (mut cache, to) = (policy.cache("taker").unwrap(), to.clone());
                scope.spawn(move || {
                    for number in 0..PACKETS {
                        let mut taken = Batch::new(4);
                        while cache.take(&mut taken, 1 + number % 4, wanted(sender)).is_err() {
                            std::thread::yield_now();
                        }
                        if to[number % 2].send(taken).is_err() {
                            break;
                        }
                    }
                    cache.counters()
                })
            })
            .collect();
        drop(to);
        let freers: Vec<_> = from
            .into_iter()
            .map(|from| {
                let mut cache = policy.cache("freer").unwrap();
                scope.spawn(move || {
                    from.into_iter().for_each(|mut batch| cache.give(&mut batch).unwrap());
                    cache.counters()
                })
            })
            .collect();
        let mut sum = PageCounters::default();
        takers.into_iter().chain(freers).for_each(|thread| sum.add(&thread.join().unwrap()));
        (sum, pool.audit().out())
    });
    assert_eq!((counters.allocations, counters.frees, out), (2 * 50_000, 2 * 50_000, 0), "{policy:?}");
    assert!(counters.locks.taken >= counters.slow_paths.min(1));
    drop(policy);
    assert_eq!(pool.free(), FRAMES as usize);
}

#[test]
fn threads_take_and_free_and_nothing_is_lost() {
    for_every_policy!(survives_threads());
}

#[test]
fn the_allocator_takes_its_lock_twice_per_batch_of_63() {
    let pool = pool_of(FRAMES);
    let policy = Allocator::new(&pool);
    let (mut taker, mut freer) = (policy.cache("a").unwrap(), policy.cache("b").unwrap());
    for _ in 0..63 {
        give(&mut freer, take(&mut taker, 63, 0));
    }
    let (taken, freed) = (taker.counters(), freer.counters());
    assert_eq!((taken.allocations, taken.slow_paths, taken.locks.taken), (63 * 63, 63, 63));
    // Six batches stay with the freeing thread.
    assert_eq!((freed.frees, freed.locks.taken, freed.remote_returns), (63 * 63, 57, 0));
    // A list alone needs no lock.
    for _ in 0..63 {
        let frames = take(&mut taker, 63, 0);
        give(&mut taker, frames);
    }
    assert_eq!(taker.counters().locks.taken, 64);
}

#[test]
fn origin_returns_pages_in_bulk_without_the_depot() {
    let pool = pool_of(FRAMES);
    let policy = Origin::new(&pool);
    let (mut taker, mut freer) = (policy.cache("a").unwrap(), policy.cache("b").unwrap());
    for _ in 0..64 {
        give(&mut freer, take(&mut taker, 64, 0));
    }
    let (taken, freed) = (taker.counters(), freer.counters());
    assert_eq!((freed.frees, freed.remote_returns), (64 * 64, 64 * 64));
    assert!(freed.locks.taken <= 65, "a mailbox once per bulk, the list of them once: {freed:?}");
    // Six more while its request grows to a bulk.
    assert!((taken.slow_paths, taken.locks.taken) == (70, 70) && taken.recycled == 63 * 64, "{taken:?}");
}

#[test]
fn pages_of_several_origins_take_one_lock_per_origin() {
    let pool = pool_of(FRAMES);
    let policy = Origin::new(&pool);
    let mut takers: Vec<_> = (0..4).map(|n| policy.cache(&format!("{n}")).unwrap()).collect();
    let mut freer = policy.cache("freer").unwrap();
    for n in 0..64 {
        give(&mut freer, take(&mut takers[n % 4], 1, 0));
    }
    assert_eq!((freer.counters().remote_returns, freer.counters().locks.taken), (64, 5));
}

fn recycle(on_busy: OnBusy) -> (PagePool, Recycle) {
    let pool = pool_of(FRAMES);
    let policy = Recycle::new(&pool, on_busy, 4);
    (pool, policy)
}

/// A page that stays in use at the head: the number of the three free pages behind it that each variant gets.
#[test]
fn busy_head_blocks_only_policies_that_look_at_the_head() {
    for (on_busy, recycled, blocked, head_is_waited_for) in [
        (OnBusy::Stop, 0, 3, true),
        (OnBusy::Release, 3, 1, false),
        (OnBusy::Rotate, 3, 1, true),
        (OnBusy::Scan, 3, 3, true),
    ] {
        let (pool, policy) = recycle(on_busy);
        let (mut taker, mut freer) = (policy.cache("a").unwrap(), policy.cache("b").unwrap());
        let mut taken = Batch::new(4);
        taker.take(&mut taken, 4, wanted(0)).unwrap();
        let mut frames = std::iter::from_fn(|| taken.pop());
        let head = frames.next().unwrap();
        give(&mut freer, frames);
        let again = take(&mut taker, 3, 0);
        let counters = taker.counters();
        assert_eq!((counters.recycled, counters.head_blocked), (recycled, blocked), "{on_busy:?}");
        give(&mut freer, [head]);
        assert_eq!(freer.counters().remote_returns, 3 + u64::from(head_is_waited_for), "{on_busy:?}");
        give(&mut freer, again);
        drop((taker, freer, policy));
        assert_eq!((pool.free(), pool.audit().out()), (FRAMES as usize, 0));
    }
}

#[test]
fn a_full_fifo_leaves_pages_to_the_allocator() {
    let (_pool, policy) = recycle(OnBusy::Stop);
    let (mut taker, mut freer) = (policy.cache("a").unwrap(), policy.cache("b").unwrap());
    let frames = take(&mut taker, 10, 0);
    give(&mut freer, frames);
    assert_eq!((freer.counters().remote_returns, freer.counters().frees), (4, 10));
    let frames = take(&mut taker, 10, 0);
    assert_eq!(taker.counters().recycled, 4);
    give(&mut freer, frames);
    assert_eq!(freer.counters().remote_returns, 8, "the same again");
}

#[test]
fn halves_need_half_the_pages_and_wait_for_each_other() {
    let (whole, halves) = (Allocator::new(&pool_of(FRAMES)), Halves::new(&pool_of(FRAMES)));
    let (mut one, mut two) = (whole.cache("whole").unwrap(), halves.cache("halves").unwrap());
    let (ones, twos) = (take(&mut one, 126, 0), take(&mut two, 126, 0));
    assert_eq!((one.counters().slow_paths, two.counters().slow_paths), (2, 1));
    let pages: BTreeSet<u32> = twos.iter().map(|frame| frame.index() / 2).collect();
    assert_eq!(pages.len(), 63, "both halves of each");
    // First halves alone free no page.
    let (first, second): (Vec<_>, Vec<_>) = twos.into_iter().partition(|frame| frame.index() % 2 == 0);
    give(&mut two, first);
    assert_eq!(two.take_here(&mut Batch::new(1), 1, wanted(0)).unwrap(), 0);
    give(&mut two, second);
    assert_eq!(two.take_here(&mut Batch::new(1), 0, wanted(0)).unwrap(), 0);
    let again = take(&mut two, 126, 0);
    assert_eq!(two.counters().slow_paths, 1, "all 63 pages are here again");
    give(&mut two, again);
    give(&mut one, ones);
}

#[test]
fn a_sender_gets_the_one_buffer_kept_for_it() {
    let pool = pool_of(FRAMES);
    let policy = SenderCache::new(&pool);
    let (mut taker, mut freer) = (policy.cache("a").unwrap(), policy.cache("b").unwrap());
    let frames = take(&mut taker, 3, 7);
    give(&mut freer, frames);
    assert_eq!(freer.counters().remote_returns, 1, "one is kept, whatever comes");
    let other = take(&mut taker, 1, 8);
    assert_eq!(taker.counters().recycled, 0, "not for another");
    let own = take(&mut taker, 2, 7);
    assert_eq!(taker.counters().recycled, 1);
    give(&mut freer, own.into_iter().chain(other));
    assert_eq!(freer.counters().remote_returns, 3, "one each");
    drop((taker, freer, policy));
    assert_eq!((pool.free(), pool.audit().out()), (FRAMES as usize, 0));
}

#[test]
fn wrong_calls_are_errors_and_lose_nothing() {
    fn refuses<P: Policy>(policy: impl Fn(&PagePool) -> P) {
        let (pool, other) = (pool_of(64), pool_of(64));
        let policy = policy(&pool);
        let mut cache = policy.cache("one").unwrap();
        let long = Wanted { sender: 0, len_bytes: 4000 };
        let mut taken = Batch::new(64);
        assert!(matches!(cache.take(&mut taken, 4, long), Err(PoolError::Memory(_))));
        assert_eq!(cache.take(&mut taken, 100, wanted(0)).unwrap(), 64, "as many as there are");
        assert!(matches!(
            cache.take(&mut Batch::new(1), 1, wanted(0)),
            Err(PoolError::Exhausted { frames: 64 })
        ));
        let foreign = take(&mut Allocator::new(&other).cache("other").unwrap(), 1, 0);
        let mut foreign = batch(foreign);
        assert!(matches!(cache.give(&mut foreign), Err(PoolError::Memory(_))));
        assert_eq!(foreign.len(), 1, "it stays");
        other.give_back(&mut foreign).unwrap();
        cache.give(&mut taken).unwrap();
        drop((cache, policy));
        assert_eq!((pool.free(), other.free()), (64, 64));
    }
    for_every_policy!(refuses());
}

/// 50 packets are always in flight and each comes back: only the first 50 pages are the allocator's.
#[test]
fn pages_returned_in_order_are_all_recycled() {
    for (on_busy, recycled) in [(OnBusy::Stop, 4949), (OnBusy::Release, 4949), (OnBusy::Scan, 4949)] {
        let pool = pool_of(FRAMES);
        let policy = Recycle::new(&pool, on_busy, 256);
        let (mut taker, mut freer) = (policy.cache("a").unwrap(), policy.cache("b").unwrap());
        let mut out = std::collections::VecDeque::new();
        for _ in 0..5000 {
            out.extend(take(&mut taker, 1, 0));
            if out.len() > 50 {
                give(&mut freer, out.pop_front());
            }
        }
        assert_eq!((taker.counters().recycled, taker.counters().slow_paths), (recycled, 1), "{on_busy:?}");
        give(&mut freer, out);
    }
}
