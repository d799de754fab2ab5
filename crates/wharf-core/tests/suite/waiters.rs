//! Waiting senders are served in order of arrival, as many as there is space for, whatever other waiters do.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::engine::Batching;
use wharf_core::qdisc::{Fifo, FifoLimit, Prio, Qdisc};
use wharf_core::queue::TxQueue;
use wharf_core::random::SplitMix64;
use wharf_core::sender::{Sender, Watch};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{Log, Logs};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

/// Senders that wait at a queue before a device that completes on demand.
struct Rig {
    queue: TxQueue,
    control: Arc<Control>,
    log: Log,
    waiting: Vec<Option<(Sender, Watch)>>,
}

/// Frames that each waiter wants room for.
const FRAMES: usize = 4;

impl Rig {
    fn new(qdisc: impl Qdisc + 'static) -> Self {
        let (gate, control) = Gate::new(1);
        let pool = pool(2048);
        let queue = builder(&pool, gate).qdisc(Box::new(qdisc)).lane_frames(8);
        // One at a time, so that a test knows their number.
        let queue = queue.batching(Batching::Off).build().unwrap();
        Self { queue, control, log: Log::default(), waiting: Vec::new() }
    }

    /// Makes a full FIFO of 16.
    fn full() -> Self {
        let rig = Self::new(Fifo::new(FifoLimit::Packets(16)));
        let mut sender = rig.queue.sender("fills").unwrap();
        let mut burst = numbered(&mut sender, 1_000_000, 40, 64);
        while sender.send(&mut burst, Wait::Never).unwrap().accepted > 0 {}
        rig
    }

    /// Adds a waiter.
    fn wait(&mut self, band: u8, frames: usize) -> usize {
        let who = self.waiting.len();
        let mut sender = self.queue.sender(&format!("waits {who}")).unwrap();
        let mut watch = sender.watch(band, frames, Arc::new(Logs(who, self.log.clone())));
        assert!(sender.look(&mut watch).is_none(), "{who}: it is full");
        self.waiting.push(Some((sender, watch)));
        who
    }

    fn wait_many(&mut self, count: usize) {
        for _ in 0..count {
            self.wait(1, FRAMES);
        }
    }

    fn complete(&self, frames: usize) {
        for _ in 0..frames {
            self.control.allowed.fetch_add(1, SeqCst);
            self.queue.poll();
        }
    }

    /// Completes frames until a waiter is woken.
    fn complete_until_woken(&self) {
        let before = self.log().len();
        let mut rounds = 0;
        while self.log().len() == before {
            self.complete(1);
            rounds += 1;
            assert!(rounds < 1000, "no waiter was woken");
        }
    }

    fn log(&self) -> Vec<usize> {
        self.log.lock().unwrap().clone()
    }

    /// Lets a woken sender look and send. Returns true if its turn had come.
    fn comes(&mut self, who: usize) -> bool {
        let (sender, watch) = self.waiting[who].as_mut().unwrap();
        let Some(seen) = sender.look(watch) else { return false };
        seen.unwrap();
        let mut burst = numbered(sender, (who * FRAMES) as u64, FRAMES, 64);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, FRAMES, "{who} was served");
        self.waiting[who] = None;
        true
    }

    fn end(mut self) -> Vec<u64> {
        self.control.allowed.store(usize::MAX / 2, SeqCst);
        self.waiting.clear();
        assert!(self.queue.drain(Duration::MAX));
        assert_eq!(self.queue.shutdown(Duration::MAX).out(), 0);
        assert_conserved(&self.queue);
        self.control.sent().into_iter().filter(|&n| n < 1_000_000).collect()
    }
}

#[test]
fn freed_space_serves_as_many_senders_as_fit_in_order_of_arrival() {
    let mut rig = Rig::full();
    rig.wait_many(8);
    rig.complete_until_woken();
    // Half of 16 is free: two of four frames each. Looking again gives nothing away a second time.
    assert_eq!(rig.log(), [0, 1]);
    (0..20).for_each(|_| rig.queue.poll());
    assert_eq!(rig.log(), [0, 1], "no herd");
    // Both come, the later one first; as those before them leave, the next two are due.
    assert!(rig.comes(1) && rig.comes(0));
    for round in 1..4 {
        rig.complete_until_woken();
        let next = [2 * round, 2 * round + 1];
        assert_eq!(rig.log()[2 * round..], next);
        assert!(rig.comes(next[0]) && rig.comes(next[1]));
    }
    assert_eq!(rig.end().len(), 8 * FRAMES);
}

#[test]
fn served_sender_that_leaves_passes_its_space_on() {
    let mut rig = Rig::full();
    rig.wait_many(4);
    rig.complete_until_woken();
    assert_eq!(rig.log(), [0, 1]);
    rig.waiting[0] = None;
    assert_eq!(rig.log(), [0, 1, 2], "the next one, without anything completing");
    // And a waiter that was not served: no other is woken.
    rig.waiting[3] = None;
    assert_eq!(rig.log(), [0, 1, 2]);
    assert!(rig.comes(1) && rig.comes(2));
    rig.end();
}

#[test]
fn served_sender_that_never_returns_does_not_block_the_others() {
    let mut rig = Rig::full();
    // Each is promised more than the limit.
    for _ in 0..6 {
        rig.wait(1, 100);
    }
    rig.complete_until_woken();
    assert_eq!(rig.log(), [0]);
    let mut rounds = 0;
    while rig.log().len() < 6 {
        rig.complete(1);
        rounds += 1;
        assert!(rounds < 1000, "stuck behind a waiter that never comes: {:?}", rig.log());
    }
    assert_eq!(rig.log(), [0, 1, 2, 3, 4, 5]);
    rig.end();
}

/// Room reserved for such a sender is not lost for good.
#[test]
fn sender_served_on_an_empty_queue_takes_over_an_unused_promise() {
    let mut rig = Rig::full();
    rig.wait(1, 100);
    rig.complete_until_woken();
    rig.wait_many(8);
    rig.complete_until_woken();
    assert_eq!(rig.log(), [0, 1, 2, 3, 4], "as many as there is space for");
    rig.end();
}

#[test]
fn discipline_without_bands_has_one_list() {
    let mut rig = Rig::full();
    // Tasks that wait until they are `ready` know no band; senders of classified packets do.
    for band in [1, 0, 7, 1, 0] {
        rig.wait(band, 8);
    }
    rig.complete_until_woken();
    assert_eq!(rig.log(), [0], "the space is for one, and that is the first");
    // A newcomer does not overtake, in any band.
    let mut late = rig.queue.sender("late").unwrap();
    for priority in [0, 6, 2] {
        let mut burst = numbered(&mut late, 0, 1, 64);
        burst.packets_mut().for_each(|mut packet| packet.set_priority(priority));
        assert_eq!(late.send(&mut burst, Wait::Never).unwrap().accepted, 0, "priority {priority}");
    }
    drop(late);
    rig.end();
}

#[test]
fn each_band_has_its_own_list() {
    let mut rig = Rig::new(Prio::new(16));
    let mut sender = rig.queue.sender("fills").unwrap();
    // One for the device, then band 1 full, then band 2.
    for (priority, count) in [(0, 17), (2, 16)] {
        for n in 0..count {
            let mut burst = numbered(&mut sender, 1_000_000 + n, 1, 64);
            burst.packets_mut().for_each(|mut packet| packet.set_priority(priority));
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
    }
    for band in [2, 1, 2, 1] {
        rig.wait(band, 8);
    }
    rig.complete_until_woken();
    assert_eq!(rig.log(), [1], "band 1 drains first, and does not wait for band 2's first waiter");
    assert!(rig.comes(1));
    rig.complete_until_woken();
    assert_eq!(rig.log(), [1, 3]);
    assert!(rig.comes(3));
    rig.complete_until_woken();
    assert_eq!(rig.log(), [1, 3, 0]);
    rig.end();
}

/// Waiters come, are served, come late or leave, and frames complete, in any order: those that stay are woken in
/// order of arrival, at most as many as there is space for, and all in the end.
#[test]
fn any_order_of_events_serves_all_in_order_of_arrival() {
    for seed in 0..200 {
        let (mut rig, mut random) = (Rig::full(), SplitMix64::new(seed));
        let mut away = Vec::new();
        for _ in 0..300 {
            match random.below(10) {
                0..3 if rig.waiting.len() < 40 => {
                    // A sender waits, so newcomers have to.
                    if rig.waiting.iter().flatten().count() > away.len() || rig.waiting.is_empty() {
                        let mut sender = rig.queue.sender("waits").unwrap();
                        let who = rig.waiting.len();
                        let mut watch = sender.watch(1, FRAMES, Arc::new(Logs(who, rig.log.clone())));
                        let seen = sender.look(&mut watch);
                        rig.waiting.push(seen.is_none().then_some((sender, watch)));
                    }
                }
                3..6 => rig.complete(1 + random.below(4) as usize),
                6 if !rig.waiting.is_empty() => {
                    let who = random.below(rig.waiting.len() as u64) as usize;
                    if rig.waiting[who].take().is_some() {
                        away.push(who);
                    }
                }
                _ => {
                    let log = rig.log();
                    let due = log.iter().copied().find(|&who| rig.waiting[who].is_some());
                    if let Some(who) = due {
                        assert!(rig.comes(who), "seed {seed}: {who} was woken");
                    }
                }
            }
            let mut log = rig.log();
            log.dedup();
            assert!(log.is_sorted(), "seed {seed}: {log:?}");
        }
        let mut rounds = 0;
        while rig.waiting.iter().any(Option::is_some) {
            rig.complete(1);
            for who in rig.log() {
                if rig.waiting[who].is_some() {
                    assert!(rig.comes(who), "seed {seed}");
                }
            }
            rounds += 1;
            assert!(rounds < 10_000, "seed {seed}: a sender waits for ever");
        }
        rig.end();
    }
}
