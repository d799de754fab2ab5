//! Two modelled processors share one queue in virtual time: the same `Owner`, `TxEngine` and owner word as in the
//! real world, without a thread. Every step takes modelled time, so that their steps interleave.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use wharf_core::model::QdiscRun;
use wharf_core::owner::Action;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_testkit::assert_conserved;
use wharf_testkit::gate::Gate;
use wharf_testkit::threads::TestClock;

/// Costs of the model, in nanoseconds: publishing a burst, one step of an owner.
const PUBLISH_NS: u64 = 70;
const STEP_NS: u64 = 110;

struct Cpu<'q> {
    sender: Sender,
    next: u64,
    left: usize,
    run: Option<QdiscRun<'q>>,
    owned_steps: usize,
    /// One call to the device in a step, or all of a transmit.
    by_bulk: bool,
}

impl<'q> Cpu<'q> {
    /// Does one step. Returns the time until the next, ns; `None` at the end.
    fn act(&mut self, queue: &'q TxQueue, now_ns: u64) -> Option<u64> {
        if let Some(run) = &mut self.run {
            self.owned_steps += 1;
            let more = if self.by_bulk { run.step_bulk(now_ns) } else { run.step(now_ns) };
            if !more {
                self.run = None;
            }
            return Some(STEP_NS);
        }
        if self.left == 0 {
            return None;
        }
        let count = self.left.min(5);
        let mut burst: Burst = wharf_testkit::numbered(&mut self.sender, self.next, count, 100);
        let bit = self.sender.stage(&mut burst).unwrap();
        let staged = count - burst.len();
        (self.next, self.left) = (self.next + staged as u64, self.left - staged);
        self.run = queue.claim(bit);
        Some(PUBLISH_NS)
    }
}

/// Runs the model. Returns the frames that the device took, by call and time, and the owner's steps of each
/// processor.
fn run(bursts_apart_ns: u64, by_bulk: bool) -> (Vec<Vec<u64>>, u64, Vec<usize>) {
    let clock = Arc::new(TestClock::default());
    let pool = PagePool::builder().frames(512).huge_pages(false).clock(clock.clone()).build().unwrap();
    let (gate, control) = Gate::open(64);
    let queue =
        TxQueue::builder(&pool, Box::new(gate), clock.clone(), Arc::new(wharf_testkit::threads::TestPark))
            .build()
            .unwrap();
    let cpu = |n: u64| {
        let sender = queue.sender(&format!("cpu{n}")).unwrap();
        Cpu { sender, next: n << 32, left: 100, run: None, owned_steps: 0, by_bulk }
    };
    let mut cpus = [cpu(0), cpu(1)];
    // (time, processor), earliest first; equal times in order of number.
    let mut due: BinaryHeap<_> = (0..2).map(|n| std::cmp::Reverse((n as u64, n))).collect();
    let mut now_ns = 0;
    while let Some(std::cmp::Reverse((at_ns, n))) = due.pop() {
        now_ns = at_ns;
        clock.0.store(now_ns, SeqCst);
        let owns = |cpu: &&Cpu<'_>| cpu.run.as_ref().is_some_and(|run| run.next() != Action::StandBy);
        let owners = cpus.iter().filter(owns).count();
        assert!(owners <= 1, "one owner at a time");
        if let Some(delay_ns) = cpus[n].act(&queue, now_ns) {
            due.push(std::cmp::Reverse((now_ns + delay_ns + n as u64 * bursts_apart_ns, n)));
        }
    }
    let steps = cpus.iter().map(|cpu| cpu.owned_steps).collect();
    drop(cpus);
    assert_conserved(&queue);
    assert_eq!(queue.counters().sent.get(), 200, "an idle path with packets inside does not exist");
    (control.calls.lock().unwrap().clone(), now_ns, steps)
}

#[test]
fn two_processors_hand_over_a_queue_and_strand_no_frame() {
    let mut owned_steps = [0; 2];
    for (bursts_apart_ns, by_bulk) in
        [0, 1, 13, 40, 95, 300, 1000].into_iter().flat_map(|ns| [(ns, false), (ns, true)])
    {
        let (calls, end_ns, steps) = run(bursts_apart_ns, by_bulk);
        for cpu in 0..2u64 {
            let mine: Vec<u64> = calls.concat().into_iter().filter(|seq| seq >> 32 == cpu).collect();
            let wanted: Vec<u64> = (0..100).map(|n| cpu << 32 | n).collect();
            assert_eq!(mine, wanted, "order of processor {cpu}, {bursts_apart_ns} ns apart");
        }
        owned_steps.iter_mut().zip(&steps).for_each(|(sum, steps)| *sum += steps);
        assert!(calls.len() < 200, "packets that came while the other owned the queue left in bulk");
        assert_eq!(run(bursts_apart_ns, by_bulk), (calls, end_ns, steps), "same parameters, same result");
    }
    assert!(owned_steps.iter().all(|&steps| steps > 0), "both have owned the queue: {owned_steps:?}");
}
