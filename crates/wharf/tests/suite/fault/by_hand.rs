//! Each fault by itself, call by call, with a clock of the test's own.

use std::sync::Arc;
use wharf::testing::{Fault, FaultCounts, FaultSpec};
use wharf_core::device::{Completions, Device, LOST, Notify, RxDevice, Transmitted, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::null::Null;
use wharf_devices::wire::{WireSpec, wire};
use wharf_mem::{Batch, Frame};
use wharf_testkit::ends::Ends;
use wharf_testkit::pool;
use wharf_testkit::threads::TestClock;

/// A faulty device, frames for it, and the frames that came back.
pub struct Rig {
    pub device: Fault<Box<dyn TxDevice>>,
    pub clock: Arc<TestClock>,
    pub counts: Arc<FaultCounts>,
    pool: PagePool,
    cache: Cache,
    pub batch: Batch,
    done: Completions,
    next: u32,
}

pub fn spec(text: &str) -> FaultSpec {
    FaultSpec::parse(text).unwrap()
}

impl Rig {
    pub fn new(faults: &str) -> Self {
        Self::over(Box::new(Null::default()), faults)
    }

    fn over(device: Box<dyn TxDevice>, faults: &str) -> Self {
        let clock = Arc::new(TestClock::default());
        let mut device = Fault::new(device, &spec(faults)).clock(clock.clone());
        let (pool, counts) = (pool(2048), device.counts());
        device.attach(pool.region().clone()).unwrap();
        let cache = pool.cache("rig").unwrap();
        Self {
            device,
            clock,
            counts,
            pool,
            cache,
            batch: Batch::new(64),
            done: Completions::new(256),
            next: 0,
        }
    }

    /// Adds `count` numbered frames to the batch: their lengths are the numbers.
    pub fn offer(&mut self, count: u32) {
        for number in self.next..self.next + count {
            self.cache.take(&mut self.batch, 1, number).unwrap();
        }
        self.next += count;
    }

    pub fn transmit(&mut self, more: bool) -> Transmitted {
        self.device.transmit(&mut self.batch, more)
    }

    /// Numbers sent and failed.
    pub fn reap(&mut self) -> (Vec<u32>, Vec<u32>) {
        self.device.reap(256, false, &mut self.done).unwrap();
        let sent = self.done.sent.frames().iter().map(Frame::len_bytes).collect();
        let is_lasting = |reason| reason == LOST && self.counts.of("never") > 0;
        assert!(
            self.done.failed.iter().all(|&(_, reason)| reason == FaultSpec::INJECTED || is_lasting(reason))
        );
        let failed = self.done.failed.iter().map(|(frame, _)| frame.len_bytes()).collect();
        self.cache.give(&mut self.done.sent).unwrap();
        self.done.failed.drain(..).for_each(|(frame, _)| self.cache.give_one(frame).unwrap());
        (sent, failed)
    }

    pub fn assert_home(mut self) {
        self.cache.give(&mut self.batch).unwrap();
        assert_eq!((self.device.outstanding(), self.pool.audit().out()), (0, 0));
    }
}

#[test]
fn injected_failures_come_back_with_the_reason_and_other_frames_leave() {
    let mut rig = Rig::new("error=1/4");
    rig.offer(10);
    assert_eq!(rig.transmit(false), Transmitted { doorbell: true, stopped: false });
    assert_eq!(rig.device.outstanding(), 10);
    let mut seen = 0;
    rig.device.visit(&mut |_| seen += 1);
    assert_eq!(seen, 10, "all are in a table");
    assert_eq!(rig.reap(), (vec![0, 1, 2, 4, 5, 6, 8, 9], vec![3, 7]));
    assert_eq!((rig.counts.of("error"), rig.counts.total()), (2, 2));
    // A frame that fails has its doorbell as well, in its call or when it is asked for.
    rig.offer(2);
    assert!(!rig.transmit(true).doorbell);
    assert!(rig.device.flush() && !rig.device.flush());
    assert_eq!(rig.reap(), (vec![10], vec![11]));
    rig.assert_home();
}

/// The numbers of the frames that fail, offered in groups of `group` over a ring of `ring`.
fn failing(faults: &str, group: u32, ring: u32) -> Vec<u32> {
    let (near, mut far) = wire(&WireSpec::default().ring(ring).unwrap());
    let mut rig = Rig::over(Box::new(near), faults);
    let far_pool = pool(256);
    let (mut far_cache, mut received) = (far_pool.cache("far").unwrap(), Batch::new(256));
    let mut failed = Vec::new();
    while rig.next < 1500 || !rig.batch.is_empty() || rig.device.outstanding() > 0 {
        let room = (rig.batch.room() as u32).min(1500 - rig.next);
        rig.offer(group.min(room));
        rig.transmit(false);
        far.receive(&mut far_cache, &mut received, 256).unwrap();
        far_cache.give(&mut received).unwrap();
        failed.extend(rig.reap().1);
    }
    rig.assert_home();
    failed
}

#[test]
fn same_seed_fails_the_same_frames_by_any_calls() {
    let expected = failing("seed=3,error=2%", 1, 64);
    assert!((10..60).contains(&expected.len()), "{expected:?}");
    for (group, ring) in [(64, 64), (7, 4), (64, 2)] {
        assert_eq!(failing("seed=3,error=2%", group, ring), expected, "in groups of {group}, ring of {ring}");
        assert_eq!(failing("seed=3,error=2%,short=30%,reorder=20%,lost=10%", group, ring), expected);
    }
    assert_ne!(failing("seed=4,error=2%", 1, 64), expected);
}

/// Numbers that went and that failed, over a device that itself leaves frames over, in groups of ten.
fn over_a_short_device(inner: &str, faults: &str) -> (Vec<u32>, Vec<u32>) {
    let short = Fault::new(Box::new(Null::default()), &spec(inner));
    let mut rig = Rig::over(Box::new(short), faults);
    let (mut sent, mut failed) = (Vec::new(), Vec::new());
    while rig.next < 1000 || !rig.batch.is_empty() || rig.device.outstanding() > 0 {
        let room = (rig.batch.room() as u32).min(1000 - rig.next);
        rig.offer(room.min(10));
        rig.transmit(false);
        let (more_sent, more_failed) = rig.reap();
        sent.extend(more_sent);
        failed.extend(more_failed);
    }
    rig.assert_home();
    (sent, failed)
}

#[test]
fn leftovers_of_the_device_go_first_next_time_without_a_new_draw() {
    let (_, expected) = over_a_short_device("error=1/100000", "seed=3,error=5%");
    for inner in ["short=50%", "short=1/2", "seed=9,short=90%"] {
        let (sent, failed) = over_a_short_device(inner, "seed=3,error=5%,short=40%");
        assert!(sent.is_sorted(), "in order");
        assert_eq!((sent.len() + failed.len(), &failed), (1000, &expected), "{inner}");
    }
}

#[test]
fn a_short_call_takes_a_part_in_order_and_rings() {
    let mut rig = Rig::new("short=100%");
    rig.offer(20);
    let (mut sent, mut calls) = (Vec::new(), 0);
    while !rig.batch.is_empty() {
        let before = rig.batch.len();
        let done = rig.transmit(true);
        assert!(rig.batch.len() < before, "something goes with every call");
        // It stopped, so the call that was to follow may not come.
        assert!(rig.batch.is_empty() || done == Transmitted { doorbell: true, stopped: true });
        sent.extend(rig.reap().0);
        calls += 1;
    }
    rig.device.flush();
    sent.extend(rig.reap().0);
    assert!(sent.into_iter().eq(0..20) && calls > 1, "{calls} calls");
    assert_eq!(rig.counts.of("short"), calls - 1, "a single frame cannot be halved");
    rig.assert_home();
}

#[test]
fn a_stall_takes_completes_and_receives_nothing_until_its_time_is_over() {
    let mut rig = Rig::new("stall=1/2:1ms");
    rig.offer(1);
    assert!(!rig.transmit(true).stopped, "the first call goes");
    rig.offer(1);
    let stopped = rig.transmit(false);
    assert_eq!(stopped, Transmitted { doorbell: true, stopped: true }, "and rings for the frames before");
    assert_eq!((rig.batch.len(), rig.reap()), (1, (vec![], vec![])));
    assert!(rig.device.arm(), "nothing is due");
    rig.clock.set(999_999);
    assert_eq!((rig.device.next_completion_ns(), rig.transmit(false).stopped), (Some(1), true));
    rig.clock.set(1_000_000);
    assert_eq!((rig.device.next_completion_ns(), rig.reap()), (None, (vec![0], vec![])));
    assert_eq!(rig.transmit(false), Transmitted { doorbell: true, stopped: false });
    assert_eq!(rig.reap().0, [1]);
    assert_eq!(rig.counts.of("stall"), 1);
    rig.assert_home();
}

#[test]
fn a_device_that_always_stalls_still_sends() {
    let mut rig = Rig::new("stall=100%:10us");
    rig.offer(5);
    for step in 0..10 {
        rig.clock.set(step * 10_000);
        let took = !rig.transmit(false).stopped;
        assert_eq!(took, step % 2 == 1, "step {step}");
        if took {
            assert!(!rig.reap().0.is_empty());
            rig.offer(1);
        }
    }
    rig.assert_home();
}

#[test]
fn a_lost_notification_hides_completions_until_the_next_look() {
    let mut rig = Rig::new("lost=1/2");
    rig.offer(1);
    rig.transmit(false);
    assert_eq!(rig.reap().0, [0], "the first is told");
    rig.offer(1);
    rig.transmit(false);
    assert_eq!(rig.reap().0, [0u32; 0], "the second is not");
    assert_eq!((rig.device.next_completion_ns(), rig.device.arm()), (Some(u64::MAX), true));
    assert_eq!((rig.device.outstanding(), rig.counts.of("lost")), (1, 1));
    assert_eq!(rig.reap().0, [1]);
    rig.assert_home();
    let mut always = Rig::new("lost=100%");
    for number in 0..50 {
        always.offer(1);
        always.transmit(false);
        assert_eq!(always.reap().0.len() as u32, number % 2 * 2, "every second look finds two");
    }
    assert_eq!(always.reap().0, [0u32; 0]);
    always.assert_home();
}

#[test]
fn a_late_completion_holds_up_those_behind_it() {
    let mut rig = Rig::new("late=1/3:50us");
    rig.offer(5);
    rig.transmit(false);
    assert_eq!(rig.reap().0, [0, 1]);
    assert_eq!((rig.device.outstanding(), rig.device.next_completion_ns()), (3, Some(50_000)));
    rig.clock.set(49_999);
    assert_eq!(rig.reap().0, [0u32; 0]);
    rig.clock.set(50_000);
    assert!(!rig.device.arm(), "due");
    assert_eq!(rig.reap().0, [2, 3, 4]);
    assert_eq!(rig.counts.of("late"), 1);
    rig.assert_home();
}

#[test]
fn a_completion_is_overtaken_by_at_most_eight_calls_or_completions() {
    let mut rig = Rig::new("seed=5,reorder=30%");
    let mut order = Vec::new();
    for _ in 0..20 {
        rig.offer(10);
        rig.transmit(false);
        order.extend(rig.reap().0);
    }
    for _ in 0..8 {
        order.extend(rig.reap().0);
    }
    let displaced = order.iter().enumerate().filter(|&(place, &number)| place as u32 != number).count();
    assert!(displaced > 20, "{displaced} of 200 out of place");
    order.sort_unstable();
    assert!(order.into_iter().eq(0..200));
    rig.assert_home();
}

#[test]
fn a_closed_device_gives_all_back_at_once() {
    let mut rig = Rig::new("late=1/2:1s,reorder=1/3,lost=100%,error=1/5");
    rig.offer(20);
    rig.transmit(false);
    assert_eq!(rig.reap(), (vec![], vec![4, 9, 14, 19]));
    rig.device.close().unwrap();
    assert_eq!(rig.reap().0.len(), 16);
    rig.assert_home();
    let mut stalled = Rig::new("stall=1/2:60s");
    for _ in 0..2 {
        stalled.offer(1);
        stalled.transmit(false);
    }
    assert_eq!(stalled.reap().0, [0u32; 0]);
    stalled.device.close().unwrap();
    assert_eq!(stalled.reap().0, [0]);
    stalled.assert_home();
}

#[test]
fn full_ring_counts_held_back_frames() {
    let (near, _far) = wire(&WireSpec::default().ring(8).unwrap());
    let mut rig = Rig::over(Box::new(near), "error=1/2");
    rig.offer(20);
    assert_eq!(rig.transmit(false), Transmitted { doorbell: true, stopped: true });
    assert_eq!((rig.device.outstanding(), rig.batch.len()), (8, 12));
    assert_eq!(rig.reap().1, [1, 3, 5, 7]);
    rig.transmit(false);
    assert_eq!(rig.device.outstanding(), 8);
    rig.device.close().unwrap();
}

#[test]
fn a_completion_that_never_comes_stays_in_the_device_until_it_closes() {
    let mut rig = Rig::new("never=1/4,late=1/1000000");
    let mut sent = Vec::new();
    for _ in 0..10 {
        rig.offer(4);
        rig.transmit(false);
        sent.extend(rig.reap().0);
    }
    assert!(sent.iter().copied().eq((0..40).filter(|number| number % 4 != 3)), "{sent:?}");
    let mut seen = Vec::new();
    rig.device.visit(&mut |frame| seen.push(frame.len_bytes()));
    let kept: Vec<_> = (0..40).filter(|number| number % 4 == 3).collect();
    assert_eq!((rig.device.outstanding(), rig.counts.of("never"), &seen), (10, 10, &kept));
    rig.clock.set(u64::MAX / 2);
    assert_eq!((rig.reap(), rig.device.next_completion_ns()), ((vec![], vec![]), None), "not by waiting");
    rig.device.close().unwrap();
    assert_eq!(rig.reap(), (vec![], kept), "and then it is lost");
    rig.assert_home();
}

#[test]
fn memory_is_refused_to_receivers_and_senders() {
    let mut ends = Ends::new(&WireSpec::default());
    let far = ends.far.take().unwrap();
    let mut far = Fault::new(Box::new(far), &spec("alloc=1/10"));
    ends.send(35);
    let mut received = Vec::new();
    for _ in 0..10 {
        received.push(far.receive(&mut ends.to, &mut ends.received, 64).unwrap());
    }
    assert_eq!(received[..9], [9, 0, 9, 0, 9, 0, 8, 0, 0], "nothing is lost, only later");
    assert_eq!(far.counts().of("alloc"), 3);
    ends.to.give(&mut ends.received).unwrap();
    ends.reap();
    ends.assert_all_home();

    let counts = Arc::new(FaultCounts::default());
    let fails = |sender| {
        let mut fails = spec("alloc=10%").failing_takes(sender, &counts);
        (0..1000).filter(|_| fails()).collect::<Vec<_>>()
    };
    let (first, second) = (fails(0), fails(1));
    assert!(first != second && (50..200).contains(&first.len()), "each sender has its own");
    assert_eq!(counts.of("alloc") as usize, first.len() + second.len());
    let mut never = FaultSpec::default().failing_takes(0, &counts);
    assert!((0..1000).all(|_| !never()));
}
