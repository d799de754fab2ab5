//! A poller in a thread of its own, which says at the end how much processor time it took; and one that is to
//! sleep.

use std::thread::{self, JoinHandle};
use std::time::Duration;
use wharf_core::poller::{Mode, Poller, PollerStop, Settings};
use wharf_core::queue::TxQueue;
use wharf_core::rx::RxQueue;
use wharf_devices::host::{HostWait, PollerThread};
use wharf_sys::usage::thread_cpu_seconds;

/// See the module.
pub struct Polling {
    stop: PollerStop,
    thread: JoinHandle<f64>,
}

impl Polling {
    /// Starts one that looks after `receiver`, and `queue` if there is one.
    pub fn start(mode: Mode, queue: Option<&TxQueue>, receiver: &RxQueue) -> Self {
        let settings = Settings { mode, ..Settings::default() };
        let mut poller = Poller::new(Box::new(HostWait::new().unwrap()), settings);
        queue.into_iter().for_each(|queue| poller.add(queue));
        poller.add_receiver(receiver);
        let stop = poller.stopper();
        let thread = thread::spawn(move || {
            poller.run();
            let (user, system) = thread_cpu_seconds();
            user + system
        });
        Self { stop, thread }
    }

    /// Stops it. Returns its processor time in seconds.
    pub fn stop(self) -> f64 {
        self.stop.stop();
        self.thread.join().unwrap()
    }
}

/// Waits for half a second in which the poller polls next to nothing: a nap lasts for a millisecond, and a
/// rest for ten.
pub fn sleeps(poller: &PollerThread, what: &str) {
    let polls = || poller.counters().polls.get();
    let is_asleep = || {
        let before = polls();
        std::thread::sleep(Duration::from_millis(500));
        polls() - before <= 4
    };
    assert!((0..40).any(|_| is_asleep()), "{what}: it polls on and on");
}
