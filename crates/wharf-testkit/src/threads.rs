//! Clocks, and threads whose sleeps and wake-ups are counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use wharf_core::host::{Clock, Park, Wake};

/// A clock that a test moves.
#[derive(Debug, Default)]
pub struct TestClock(pub AtomicU64);

impl TestClock {
    /// Moves the clock to `now_ns`.
    pub fn set(&self, now_ns: u64) {
        self.0.store(now_ns, SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// A clock that must not be read.
#[derive(Debug)]
pub struct UnreadClock;

impl Clock for UnreadClock {
    fn now_ns(&self) -> u64 {
        panic!("a wire without a rate reads no clock");
    }
}

/// Wakes nobody: for a poller that one thread runs in virtual time.
#[derive(Debug)]
pub struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Real threads, so that blocking tests block.
#[derive(Debug)]
pub struct TestPark;

#[derive(Debug)]
struct TestThread(std::thread::Thread);

impl Wake for TestThread {
    fn wake(&self) {
        self.0.unpark();
    }
}

impl Park for TestPark {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(TestThread(std::thread::current()))
    }

    fn park(&self, timeout_ns: u64) {
        std::thread::park_timeout(Duration::from_nanos(timeout_ns.min(1_000_000_000)));
    }
}

/// The log of woken tickets, in order.
pub type Log = Arc<Mutex<Vec<usize>>>;

/// A wake-up that logs its ticket.
#[derive(Debug)]
pub struct Logs(pub usize, pub Log);

impl Wake for Logs {
    fn wake(&self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// Runs `body`, and fails if it takes a minute.
pub fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, waits) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        // The receiver is gone only if the test has failed already.
        let _ = done.send(());
    });
    match waits.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Waits until `is_so`, and fails if that takes longer than `bound`.
#[track_caller]
pub fn eventually(bound: Duration, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < bound, "not within {bound:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number of threads that sleep without a bound; clones share it.
#[derive(Debug, Default, Clone)]
pub struct Sleepers(Arc<AtomicUsize>);

impl Park for Sleepers {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(TestThread(std::thread::current()))
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
