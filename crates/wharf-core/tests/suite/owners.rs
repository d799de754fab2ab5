//! Owners and their bounds: no run exceeds its quota, each hand-over is taken, and observed runs add up.

use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::model::QdiscRun;
use wharf_core::model::{ObservedRun, RunObserver};
use wharf_core::owner::{Action, Policy};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_testkit::gate::Gate;
use wharf_testkit::{assert_conserved, numbered, pool};

/// A sender on a modelled processor: its packets sent, and its present run.
struct Cpu<'q> {
    sender: Sender,
    sent: u64,
    run: Option<QdiscRun<'q>>,
}

impl<'q> Cpu<'q> {
    fn new(queue: &'q TxQueue, who: usize) -> Self {
        Self { sender: queue.sender(&format!("cpu{who}")).unwrap(), sent: 0, run: None }
    }

    /// Does one step as owner, or else sends a burst of `count`.
    fn act(&mut self, queue: &'q TxQueue, who: usize, count: usize) {
        match &mut self.run {
            Some(run) => {
                if !run.step_bulk(0) {
                    self.run = None;
                }
            }
            None => {
                let mut burst = numbered(&mut self.sender, (who as u64) << 32 | self.sent, count, 64);
                let bit = self.sender.stage(&mut burst).unwrap();
                self.sent += (count - burst.len()) as u64;
                self.run = queue.claim(bit);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any order of steps of three processors, then each to its end in any order, leaves no frame behind, although
    /// any of them may have stopped while standing by for the others.
    #[test]
    fn any_order_of_steps_strands_no_frame(
        steps in prop::collection::vec((0..3usize, 1..9usize), 1..400),
        quota in 1..20u32,
        last in Just([0, 1, 2]).prop_shuffle(),
    ) {
        let pool = pool(4096);
        let (gate, control) = Gate::open(64);
        let queue = wharf_testkit::builder(&pool, gate).policy(Policy::quota(quota)).build().unwrap();
        let mut cpus: Vec<_> = (0..3).map(|who| Cpu::new(&queue, who)).collect();
        for (who, count) in steps {
            cpus[who].act(&queue, who, count);
            let owners = cpus.iter().filter_map(|cpu| cpu.run.as_ref());
            prop_assert!(owners.filter(|run| run.next() != Action::StandBy).count() <= 1);
        }
        for who in last {
            while cpus[who].run.is_some() {
                cpus[who].act(&queue, who, 0);
            }
        }
        let sent: u64 = cpus.iter().map(|cpu| cpu.sent).sum();
        prop_assert_eq!(queue.counters().sent.get(), sent);
        for who in 0..3u64 {
            let mine = control.sent().into_iter().filter(|seq| seq >> 32 == who).map(|seq| seq & 0xffff_ffff);
            prop_assert!(mine.eq(0..cpus[who as usize].sent), "order of {}", who);
        }
        prop_assert!(control.calls.lock().unwrap().iter().all(|call| call.len() <= quota as usize));
        drop(cpus);
        assert_conserved(&queue);
    }
}

/// Two processors that always have more to send: each drains about half.
#[test]
fn eager_senders_take_turns_at_draining() {
    let pool = pool(4096);
    let (gate, _) = Gate::open(64);
    let queue = wharf_testkit::builder(&pool, gate).policy(Policy::quota(16)).build().unwrap();
    let mut cpus: Vec<_> = (0..2).map(|who| Cpu::new(&queue, who)).collect();
    let mut steps = [0u32; 2];
    for _ in 0..2000 {
        for who in 0..2 {
            steps[who] += u32::from(cpus[who].run.as_ref().is_some_and(|run| run.next() != Action::StandBy));
            cpus[who].act(&queue, who, 8);
        }
    }
    for (who, cpu) in cpus.iter_mut().enumerate() {
        while cpu.run.is_some() {
            cpu.act(&queue, who, 0);
        }
    }
    assert!(steps.iter().all(|&steps| steps > 700), "{steps:?}");
    drop(cpus);
    assert_conserved(&queue);
}

/// Keeps the runs that it observes.
#[derive(Debug, Default)]
struct Runs(Mutex<Vec<(u16, ObservedRun)>>);

impl Runs {
    fn taken(&self) -> Vec<(u16, ObservedRun)> {
        self.0.lock().unwrap().clone()
    }
}

impl RunObserver for Runs {
    fn run_began(&self, _: u16) {}

    fn run_ended(&self, place: u16, run: &ObservedRun) {
        self.0.lock().unwrap().push((place, *run));
    }
}

#[test]
fn observed_runs_add_up() {
    let (gate, control) = Gate::open(256);
    let pool = pool(4096);
    let runs = Arc::new(Runs::default());
    let queue = wharf_testkit::builder(&pool, gate)
        .policy(Policy::quota(7))
        .observe_runs(runs.clone())
        .build()
        .unwrap();
    // Adding a sender runs the queue, so all are added before the first sends.
    let senders: Vec<_> = (0..3).map(|who| (who, queue.sender(&format!("sender {who}")).unwrap())).collect();
    std::thread::scope(|scope| {
        let send = |(who, mut sender): (u64, Sender)| {
            scope.spawn(move || {
                for n in 0..500 {
                    let mut burst = numbered(&mut sender, who << 32 | (n * 6), 6, 64);
                    _ = sender.send(&mut burst, Wait::Forever).unwrap();
                }
                sender
            })
        };
        let threads: Vec<_> = senders.into_iter().map(send).collect();
        // A sender that leaves runs the queue once more, unobserved: not before all are done.
        let gone: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        drop(gone);
    });
    assert!(queue.drain(Duration::MAX));
    let senders = queue.senders();
    assert_eq!(control.sent().len(), 9000);
    let runs = runs.taken();
    assert!(runs.iter().all(|(_, run)| run.longest_packets <= 7));
    let packets: u64 = runs.iter().map(|(_, run)| run.packets).sum();
    let drained: u64 = senders.iter().map(|sender| sender.drained_packets.get()).sum();
    assert_eq!(packets, drained);
    assert_eq!(packets, 9000, "no poller, and nothing was left for the end");
    assert!(runs.iter().map(|(_, run)| run.for_others).sum::<u64>() <= packets);
    assert_conserved(&queue);
}

/// A single sender of an observed queue becomes its owner for each burst, and drains its own frames only.
#[test]
fn observed_sender_alone_drains_its_own_frames() {
    let (gate, _) = Gate::open(256);
    let pool = pool(256);
    let runs = Arc::new(Runs::default());
    let queue = wharf_testkit::builder(&pool, gate).observe_runs(runs.clone()).build().unwrap();
    let mut sender = queue.sender("alone").unwrap();
    for n in 0..100 {
        let mut burst = numbered(&mut sender, n, 1, 64);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    let run = ObservedRun { packets: 1, for_others: 0, longest_packets: 1 };
    assert_eq!(runs.taken(), vec![(0, run); 100]);
    drop(sender);
    assert_conserved(&queue);
}

/// An observer that announces another sender's lane at the beginning of a run, once, and counts runs.
#[derive(Debug, Default)]
struct Announces(Mutex<Option<(TxQueue, u64)>>, AtomicUsize);

impl RunObserver for Announces {
    fn run_began(&self, _: u16) {
        let announced = self.0.lock().unwrap().take();
        assert!(announced.is_none_or(|(queue, bit)| queue.claim(bit).is_none()), "it is owned");
    }

    fn run_ended(&self, _: u16, _: &ObservedRun) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn sender_ahead_of_its_balance_offers_the_queue_after_its_part() {
    let observer = Arc::new(Announces::default());
    let pool = pool(4096);
    let (gate, _) = Gate::open(64);
    let queue = wharf_testkit::builder(&pool, gate).observe_runs(observer.clone()).build().unwrap();
    let mut other = queue.sender("other").unwrap();
    let mut runs_of = |sender: &mut Sender, others: usize| {
        let (mut theirs, mut own) = (numbered(&mut other, 0, others, 64), numbered(sender, 0, 1, 64));
        let bit = other.stage(&mut theirs).unwrap();
        observer.0.lock().unwrap().replace((queue.clone(), bit));
        let before = observer.1.load(SeqCst);
        _ = sender.send(&mut own, Wait::Forever).unwrap();
        observer.1.load(SeqCst) - before
    };
    let mut sender = queue.sender("sender").unwrap();
    assert_eq!(runs_of(&mut sender, 64), 1);
    assert_eq!(runs_of(&mut sender, 64), 1, "not ahead by more than a quota yet");
    assert_eq!(runs_of(&mut sender, 64), 1);
    assert_eq!(
        runs_of(&mut sender, 64),
        2,
        "one of a packet, and, since no other sender came, one of all the rest"
    );
    let mut newcomer = queue.sender("newcomer").unwrap();
    assert_eq!(runs_of(&mut newcomer, 64), 1);
    drop((sender, newcomer, other));
    assert_eq!(queue.counters().sent.get(), 5 * 65);
    assert_conserved(&queue);
}
