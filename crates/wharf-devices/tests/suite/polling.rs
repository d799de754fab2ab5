//! A poller in a thread of its own, of which a test sees whether it rests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wharf_core::poller::{Mode, Poller, PollerCounters, PollerStop, Settings};
use wharf_core::queue::TxQueue;
use wharf_core::rx::RxQueue;
use wharf_devices::host::HostWait;
use wharf_testkit::threads::eventually;

/// See the module. It ends with the value.
pub struct Polling {
    stop: PollerStop,
    counters: Arc<PollerCounters>,
    /// What the kernel says about the thread.
    folder: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking(), "the poller panicked");
    }
}

impl Polling {
    /// Starts one that looks after `receiver`, and `queue` if there is one.
    pub fn start(mode: Mode, queue: Option<&TxQueue>, receiver: &RxQueue) -> Self {
        let settings = Settings { mode, ..Settings::default() };
        let mut poller = Poller::new(Box::new(HostWait::new().unwrap()), settings);
        queue.into_iter().for_each(|queue| poller.add(queue));
        poller.add_receiver(receiver);
        let (stop, counters) = (poller.stopper(), poller.counters());
        let (tells, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut poller = poller.begin();
            tells.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            poller.run();
        });
        let folder = Path::new("/proc").join(told.recv().unwrap());
        Self { stop, counters, folder, thread: Some(thread) }
    }

    /// Returns the number of sleeps that it has begun.
    pub fn slept(&self) -> u64 {
        self.counters.sleeps.get()
    }

    /// Waits until the poller sleeps: in a fifth of a second it polls next to nothing, of its own will. Most of that time it neither runs
    /// nor waits for a processor. A nap lasts for a millisecond, and a rest for ten.
    pub fn sleeps(&self, what: &str) {
        const TIME: Duration = Duration::from_millis(200);
        let sleeps = || {
            let (polls, awake) = (self.counters.polls.get(), self.awake());
            thread::sleep(TIME);
            let (polls, after) = (self.counters.polls.get() - polls, self.awake());
            let rested = awake.zip(after).is_some_and(|(awake, after)| after - awake < TIME / 2);
            rested && polls <= 4
        };
        assert!((0..100).any(|_| sleeps()), "{what}: it polls on and on");
    }

    /// Waits until the poller naps: it polls a few times between two sleeps.
    pub fn naps(&self, what: &str) {
        let naps = || {
            let (polls, slept) = (self.counters.polls.get(), self.slept());
            eventually(Duration::from_secs(50), || self.slept() >= slept + 50);
            self.counters.polls.get() - polls <= 4 * (self.slept() - slept)
        };
        assert!((0..10).any(|_| naps()), "{what}: it polls on and on");
    }

    /// Returns the time for which the thread has run or waited for a processor (proc_pid_schedstat); `None` if it does so now.
    fn awake(&self) -> Option<Duration> {
        let text = |file| std::fs::read_to_string(self.folder.join(file)).unwrap();
        let is_asleep = text("stat").rsplit(") ").next().unwrap().starts_with('S');
        let ns = text("schedstat").split(' ').take(2).map(|ns| ns.parse::<u64>().unwrap()).sum();
        is_asleep.then_some(Duration::from_nanos(ns))
    }
}
