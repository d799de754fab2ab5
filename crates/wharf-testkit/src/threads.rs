//! Clocks, and threads whose sleeps and wake-ups are counted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
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
    ends_within(Duration::from_secs(60), body);
}

/// Runs `body`, and fails if it takes ten minutes: for threads that hand over to each other some thousand
/// times, each time after all others on a busy machine have run.
pub fn within_ten_minutes(body: impl FnOnce() + Send + 'static) {
    ends_within(Duration::from_secs(600), body);
}

fn ends_within(bound: Duration, body: impl FnOnce() + Send + 'static) {
    let (done, waits) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        // The receiver is gone only if the test has failed already.
        let _ = done.send(());
    });
    match waits.recv_timeout(bound) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Waits until `is_so`, and fails if that takes longer than `bound`.
#[track_caller]
pub fn eventually(bound: Duration, is_so: impl FnMut() -> bool) {
    assert!(within(bound, is_so), "not within {bound:?}");
}

/// Waits until `is_so`, for at most `bound`. Returns true if it is.
pub fn within(bound: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + bound;
    loop {
        // Asked once behind the end: the thread may have had no processor for long.
        let is_over = Instant::now() >= end;
        if is_so() {
            return true;
        } else if is_over {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread whose sleep a test waits for.
#[derive(Debug, Clone)]
pub struct ThreadState(PathBuf);

impl ThreadState {
    /// Returns that of the calling thread.
    pub fn current() -> Self {
        Self(Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap()).join("stat"))
    }

    /// Waits until the thread sleeps (proc_pid_stat), or has ended.
    pub fn await_asleep(&self) {
        let is_awake = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with('S'));
        eventually(Duration::from_secs(60), || !std::fs::read_to_string(&self.0).is_ok_and(is_awake));
    }
}

/// Starts a thread that is to wait. Returns once it does.
pub fn spawn_waiting<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (tells, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        tells.send(ThreadState::current()).unwrap();
        body()
    });
    told.recv().unwrap().await_asleep();
    thread
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
