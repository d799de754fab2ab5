//! Senders of one queue that wait for memory, a step at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::sender::{Sender, Watch};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{Log, Logs, TestClock};
use wharf_testkit::{assert_conserved, builder, numbered};

/// Senders of one queue before a device that completes on demand.
pub struct Starved {
    /// Their pool.
    pub pool: PagePool,
    /// The pool's clock.
    pub clock: Arc<TestClock>,
    /// Their queue.
    pub queue: TxQueue,
    /// Their device.
    pub control: Arc<Control>,
    /// Wake-ups in order.
    pub log: Log,
    /// The senders, by number.
    pub senders: Vec<One>,
    /// Watches of senders that never look again.
    pub limbo: Vec<Watch>,
}

/// One of the senders.
pub struct One {
    /// The sender.
    pub sender: Sender,
    /// Its watch while it waits.
    pub watch: Option<Watch>,
    /// Frames that it has sent.
    pub sent: u64,
}

impl Starved {
    /// Makes a queue with `senders`, over a pool of `frames`.
    pub fn new(frames: u32, senders: usize) -> Self {
        let (gate, control) = Gate::new(1024);
        let clock = Arc::new(TestClock::default());
        let pool = PagePool::builder().frames(frames).huge_pages(false).clock(clock.clone()).build().unwrap();
        let queue = builder(&pool, gate).build().unwrap();
        queue.apply(|run| run.set_bql(None));
        let mut rig =
            Self { pool, clock, queue, control, log: Log::default(), senders: Vec::new(), limbo: Vec::new() };
        (0..senders).for_each(|_| _ = rig.join());
        rig
    }

    /// Adds a sender.
    pub fn join(&mut self) -> usize {
        let who = self.senders.len();
        let sender = self.queue.sender(&format!("sender {who}")).unwrap();
        self.senders.push(One { sender, watch: None, sent: 0 });
        who
    }

    /// Makes a sender that has sent all frames of the pool to the device, and senders that wait.
    pub fn waiting(frames: u32, waiting: usize) -> Self {
        let mut rig = Self::new(frames, waiting + 1);
        let holder = &mut rig.senders[waiting].sender;
        let mut burst = numbered(holder, 0, frames as usize, 64);
        _ = holder.send(&mut burst, Wait::Forever).unwrap();
        (0..waiting).for_each(|who| assert!(rig.waits(who), "{who}: there is none"));
        rig
    }

    /// Begins to wait. Returns false if there was no need.
    pub fn waits(&mut self, who: usize) -> bool {
        self.waits_as(who, who)
    }

    /// Works like [`Starved::waits`], logged as `name`.
    pub fn waits_as(&mut self, who: usize, name: usize) -> bool {
        let One { sender, watch, .. } = &mut self.senders[who];
        let mut begun = sender.watch_memory(Arc::new(Logs(name, self.log.clone())));
        let waits = sender.look(&mut begun).is_none();
        *watch = waits.then_some(begun);
        waits
    }

    /// True if its turn has come.
    pub fn looks(&mut self, who: usize) -> bool {
        let One { sender, watch, .. } = &mut self.senders[who];
        let Some(seen) = sender.look(watch.as_mut().unwrap()) else { return false };
        seen.unwrap();
        *watch = None;
        true
    }

    /// Takes and sends one frame, if one is free for it.
    pub fn sends(&mut self, who: usize) -> bool {
        let One { sender, sent, .. } = &mut self.senders[who];
        let mut burst = sender.burst(1);
        if sender.fill(&mut burst, 1, 64, Wait::Never).unwrap() == 0 {
            return false;
        }
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
        *sent += 1;
        true
    }

    /// Completes `frames`, and polls.
    pub fn complete(&self, frames: usize) {
        self.control.allowed.fetch_add(frames, SeqCst);
        self.queue.poll();
    }

    /// Returns the wake-ups so far.
    pub fn log(&self) -> Vec<usize> {
        self.log.lock().unwrap().clone()
    }

    /// Completes all, and checks that nothing is lost.
    pub fn end(mut self) {
        self.control.allowed.store(usize::MAX / 2, SeqCst);
        self.senders.clear();
        self.limbo.clear();
        assert!(self.queue.drain(Duration::MAX));
        assert_conserved(&self.queue);
        assert_eq!(self.pool.free(), self.pool.frames() as usize);
    }

    /// Fills all places where a sender alone on the pool keeps frames: it sends all frames, and all complete.
    pub fn has_its_fill(&mut self, who: usize) {
        for _ in 0..4 {
            let mut bursts = Vec::new();
            let sender = &mut self.senders[who].sender;
            loop {
                let mut burst = sender.burst(64);
                if sender.fill(&mut burst, 64, 64, Wait::Never).unwrap() == 0 {
                    break;
                }
                bursts.push(burst);
            }
            bursts.iter_mut().for_each(|burst| _ = sender.send(burst, Wait::Never).unwrap().accepted);
            drop(bursts);
            (0..64).for_each(|_| self.complete(64));
            // Frames in its return ring move onto its stack.
            self.sends(who);
            self.complete(1);
        }
    }

    /// Waits for a frame and sends it. Returns true if it came in time.
    pub fn comes_by_one(&mut self, who: usize) -> bool {
        for _ in 0..100 {
            let is_due = self.senders[who].watch.is_none() || self.looks(who);
            if is_due && self.sends(who) {
                return true;
            }
            if self.senders[who].watch.is_none() && !self.waits(who) {
                continue;
            }
            self.complete(64);
        }
        false
    }
}
