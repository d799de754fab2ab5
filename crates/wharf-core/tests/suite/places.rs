//! Places of senders that come and go.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use wharf_core::host::{NoClock, Park, Wake};
use wharf_core::queue::TxQueue;
use wharf_testkit::gate::Gate;
use wharf_testkit::pool;
use wharf_testkit::threads::{TestPark, within_a_minute};

/// Sleeps for as long as the owner is at work, the first time.
#[derive(Debug)]
struct WaitsForOwner {
    naps: AtomicUsize,
    meets: Barrier,
}

impl Park for WaitsForOwner {
    fn waker(&self) -> Arc<dyn Wake> {
        TestPark.waker()
    }

    fn park(&self, _timeout_ns: u64) {
        if self.naps.fetch_add(1, SeqCst) == 0 {
            self.meets.wait();
            self.meets.wait();
        }
    }
}

/// The owner gives the places of senders that are gone back. It is slow, and all places are used until it comes.
#[test]
fn a_sender_gets_a_place_that_the_owner_gives_back_late() {
    within_a_minute(|| {
        let park = Arc::new(WaitsForOwner { naps: AtomicUsize::new(0), meets: Barrier::new(2) });
        let builder = TxQueue::builder(&pool(64), Box::new(Gate::open(8).0), Arc::new(NoClock), park.clone());
        let queue = builder.lane_frames(2).build().unwrap();
        let mut run = queue.claim(0).expect("no owner");
        for number in 0..4096 {
            drop(queue.sender("short").unwrap_or_else(|error| panic!("{number}: {error}")));
        }
        std::thread::scope(|scope| {
            let late = scope.spawn(|| queue.sender("late").map(drop));
            park.meets.wait();
            while run.step(0) {}
            park.meets.wait();
            late.join().unwrap().unwrap();
        });
    });
}
