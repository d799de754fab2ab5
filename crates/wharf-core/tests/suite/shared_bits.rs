//! More senders than ready bits: two of them share one, and each wakes the poller by itself.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_core::host::{PollerWait, Wake};
use wharf_core::poller::{Poller, Settings};
use wharf_core::queue::Claimants;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_testkit::gate::Gate;
use wharf_testkit::threads::within_a_minute;
use wharf_testkit::{numbered, pool};

/// A wake-up whose first call does not return: its thread is stopped before it has woken the poller.
#[derive(Debug, Default)]
struct StopsOnce {
    calls: AtomicUsize,
    goes_on: Mutex<()>,
}

impl Wake for StopsOnce {
    fn wake(&self) {
        if self.calls.fetch_add(1, SeqCst) == 0 {
            drop(self.goes_on.lock());
        }
    }
}

/// A poller that is called by a [`StopsOnce`].
#[derive(Debug)]
struct Calls(Arc<StopsOnce>);

impl PollerWait for Calls {
    fn waker(&self) -> Arc<dyn Wake> {
        self.0.clone()
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn watch(&mut self, _at: usize, _fd: i32) -> bool {
        false
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, _timeout_ns: u64, _told: &mut dyn FnMut(usize)) {}
}

fn send(sender: &mut Sender) {
    let mut burst = numbered(sender, 0, 1, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
}

/// The first sender is stopped between its bit and its call. The 33rd has the same bit, and calls for itself.
#[test]
fn a_sender_calls_the_poller_although_another_one_with_its_bit_is_stopped() {
    within_a_minute(|| {
        let pool = pool(64);
        let (gate, _control) = Gate::open(64);
        let queue = wharf_testkit::builder(&pool, gate).build().unwrap();
        let wake = Arc::new(StopsOnce::default());
        let mut poller = Poller::new(Box::new(Calls(wake.clone())), Settings::default());
        poller.add(&queue);
        let mut poller = poller.begin();
        while poller.step(0) {}
        queue.set_claimants(Claimants::Pollers);
        let mut senders: Vec<_> = (0..33).map(|who| queue.sender(&format!("{who}")).unwrap()).collect();
        while poller.step(0) {}
        wake.calls.store(0, SeqCst);
        let stopped = wake.goes_on.lock().unwrap();
        std::thread::scope(|scope| {
            let (first, last) = senders.split_first_mut().unwrap();
            scope.spawn(move || send(first));
            while wake.calls.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            send(&mut last[31]);
            assert_eq!(wake.calls.load(SeqCst), 2, "the last sender's call");
            drop(stopped);
        });
    });
}
