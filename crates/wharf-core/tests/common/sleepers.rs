//! Threads whose unbounded sleeps are counted: a lost wake-up hangs, and fails within a minute.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use wharf_core::host::{Park, Wake};

/// Runs `body`, and fails if it takes a minute.
pub fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, waits) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match waits.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung"),
        _ => thread.join().unwrap(),
    }
}

/// The number of threads that sleep without a bound; clones share it.
#[derive(Debug, Default, Clone)]
pub struct Sleepers(Arc<AtomicUsize>);

impl Park for Sleepers {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(super::TestThread(std::thread::current()))
    }

    fn park(&self, timeout_ns: u64) {
        if timeout_ns < u64::MAX {
            return std::thread::park_timeout(Duration::from_nanos(timeout_ns));
        }
        self.0.fetch_add(1, SeqCst);
        std::thread::park();
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Sleepers {
    /// Waits until that many threads sleep without a bound.
    pub fn await_asleep(&self, count: usize) {
        while self.0.load(SeqCst) != count {
            std::thread::yield_now();
        }
    }
}
