//! `Load`: four threads and four tasks that send bursts of 32, each call with a deadline.

use std::cell::RefCell;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wharf::queue::{Canceller, QueueError};
use wharf::{Burst, Port, SendError, Sender, net};

pub const SENDERS: usize = 8;
/// The time that each call has.
pub const TIME: Duration = Duration::from_millis(50);
const BURST: usize = 32;
const FRAME_BYTES: u32 = 100;

#[derive(Default)]
pub struct Shared {
    stop: AtomicBool,
    /// Senders leave and come.
    pub churns: AtomicBool,
    pub accepted: AtomicU64,
    /// Errors of each sender.
    errors: [AtomicU64; SENDERS],
    /// An error has ended the sender for good.
    over: [AtomicBool; SENDERS],
    pub cancellers: Mutex<Vec<Canceller>>,
    /// Errors that no disturbance excuses.
    pub strange: Mutex<Vec<String>>,
    /// The longest time beyond a deadline, without time for which the sender's thread had no processor, ns.
    late_ns: AtomicU64,
    /// Time for which the process is stopped, ns.
    pub excused_ns: AtomicU64,
}

pub struct Load {
    pub shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(path: &Port, seed: u64) -> Self {
        let shared = Arc::<Shared>::default();
        // Half of the senders pause between bursts.
        let pause = move |at: usize| {
            Duration::from_micros(if at.is_multiple_of(2) { 100 + (seed + at as u64) % 900 } else { 0 })
        };
        let mut threads: Vec<_> = (0..SENDERS / 2)
            .map(|at| {
                let (shared, path) = (shared.clone(), path.clone());
                std::thread::spawn(move || send(&shared, &path, at, pause(at)))
            })
            .collect();
        let (tasks, path) = (shared.clone(), path.clone());
        threads.push(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let tasks = (SENDERS / 2..SENDERS)
                .map(|at| runtime.spawn(send_as_task(tasks.clone(), path.clone(), at, pause(at))));
            let tasks: Vec<_> = tasks.collect();
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        }));
        Self { shared, threads }
    }

    pub fn late(&self) -> Duration {
        Duration::from_nanos(self.shared.late_ns.load(SeqCst))
    }

    /// Errors of each sender so far.
    pub fn errors(&self) -> [u64; SENDERS] {
        std::array::from_fn(|at| self.shared.errors[at].load(SeqCst))
    }

    pub fn is_over(&self, at: usize) -> bool {
        self.shared.over[at].load(SeqCst)
    }

    /// Ends the senders. Returns the packets that were accepted.
    pub fn end(&mut self) -> u64 {
        self.shared.stop.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().expect("no sender panics"));
        self.shared.accepted.load(SeqCst)
    }
}

impl Shared {
    fn sender(&self, path: &Port, at: usize) -> Result<Sender, QueueError> {
        let mut sender = path.sender(&format!("sender {at}"))?;
        let mut cancellers = self.cancellers.lock().unwrap();
        // Those of senders that have left cancel nothing.
        if cancellers.len() > 4 * SENDERS {
            cancellers.drain(..SENDERS);
        }
        cancellers.push(sender.canceller());
        Ok(sender)
    }

    /// Notes the end of a call: true if it was done in time. Returns true if the sender may go on.
    fn note(&self, at: usize, ended: Result<bool, SendError>) -> bool {
        if matches!(ended, Ok(true)) {
            return true;
        }
        self.errors[at].fetch_add(1, SeqCst);
        let Err(error) = ended else { return true };
        let goes_on = matches!(error, SendError::Cancelled);
        self.over[at].store(!goes_on, SeqCst);
        if !goes_on && !matches!(error, SendError::Closed | SendError::Ended { .. }) {
            self.strange.lock().unwrap().push(error.to_string());
        }
        goes_on
    }

    /// Notes that the path gives no sender any more.
    fn note_end(&self, at: usize, error: &QueueError) {
        self.errors[at].fetch_add(1, SeqCst);
        self.over[at].store(true, SeqCst);
        if !matches!(error, QueueError::Closed | QueueError::Ended { .. }) {
            self.strange.lock().unwrap().push(error.to_string());
        }
    }

    /// Notes the end of a call that began then, with the delay of its thread by then.
    fn note_time(&self, began: Instant, delayed_ns: u64) {
        let late_ns = began.elapsed().saturating_sub(TIME).as_nanos() as u64;
        if late_ns > 0 {
            let excused_ns = run_delay_ns() - delayed_ns + self.excused_ns.load(SeqCst);
            self.late_ns.fetch_max(late_ns.saturating_sub(excused_ns), SeqCst);
        }
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let (began, delayed_ns) = (Instant::now(), run_delay_ns());
        let result = call();
        self.note_time(began, delayed_ns);
        result
    }

    async fn limited<T>(&self, call: impl Future<Output = Result<T, SendError>>) -> Result<bool, SendError> {
        let (began, delayed_ns) = (Instant::now(), run_delay_ns());
        let result = tokio::time::timeout(TIME, call).await;
        self.note_time(began, delayed_ns);
        result.map_or(Ok(false), |result| result.map(|_| true))
    }

    fn count(&self, before: usize, burst: &mut Burst) {
        self.accepted.fetch_add((before - burst.len()) as u64, SeqCst);
        burst.clear();
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(SeqCst)
    }
}

/// Returns the time for which this thread has been ready to run and had no processor, where the kernel says so.
fn run_delay_ns() -> u64 {
    thread_local! {
        static FILE: RefCell<Option<std::fs::File>> = RefCell::new(std::fs::File::open("/proc/thread-self/schedstat").ok());
    }
    FILE.with_borrow(|file| {
        let mut text = [0; 96];
        let count = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&text[..count]).unwrap_or("");
        text.split_whitespace().nth(1).and_then(|delay| delay.parse().ok()).unwrap_or(0)
    })
}

/// Writes a UDP datagram over IPv4.
fn write(bytes: &mut [u8]) {
    bytes.fill(0);
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    bytes[14..24].copy_from_slice(&[0x45, 0, 0, 86, 0, 0, 0, 0, 64, net::UDP]);
    bytes[26..34].copy_from_slice(&[10, 9, 0, 1, 10, 9, 0, 2]);
    bytes[34..38].copy_from_slice(&[0, 9, 0, 9]);
    bytes[38..40].copy_from_slice(&66u16.to_be_bytes());
}

/// A sender that is a thread, until the end or an error that is for good.
fn send(shared: &Shared, path: &Port, at: usize, pause: Duration) {
    let mut burst = path.burst(BURST);
    while shared.goes_on() {
        let mut sender = match shared.sender(path, at) {
            Ok(sender) => sender,
            Err(error) => {
                shared.note_end(at, &error);
                return;
            }
        };
        loop {
            let filled = shared.timed(|| sender.fill(&mut burst, BURST, FRAME_BYTES, TIME));
            let sent = filled.and_then(|filled| {
                burst.iter_mut().for_each(write);
                let before = burst.len();
                let sent = shared.timed(|| sender.send(&mut burst, TIME));
                shared.count(before, &mut burst);
                sent.map(|sent| filled > 0 && sent.left == 0)
            });
            if !shared.note(at, sent) {
                return;
            }
            std::thread::sleep(pause);
            if !shared.goes_on() || shared.churns.load(SeqCst) {
                break;
            }
        }
    }
}

/// The same as a task.
async fn send_as_task(shared: Arc<Shared>, path: Port, at: usize, pause: Duration) {
    let mut burst = path.burst(BURST);
    while shared.goes_on() {
        let mut sender = match shared.sender(&path, at) {
            Ok(sender) => sender,
            Err(error) => {
                shared.note_end(at, &error);
                return;
            }
        };
        loop {
            let mut sent = shared.limited(sender.fill_async(&mut burst, BURST, FRAME_BYTES)).await;
            if matches!(sent, Ok(true)) {
                burst.iter_mut().for_each(write);
                let before = burst.len();
                sent = shared.limited(sender.send_async(&mut burst)).await;
                shared.count(before, &mut burst);
            }
            if !shared.note(at, sent) {
                return;
            }
            rest(pause).await;
            if !shared.goes_on() || shared.churns.load(SeqCst) {
                break;
            }
        }
    }
}

/// Lets the other tasks run.
async fn rest(pause: Duration) {
    if pause.is_zero() { tokio::task::yield_now().await } else { tokio::time::sleep(pause).await }
}
