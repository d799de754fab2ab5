//! Tasks and threads that wait, time out, are cancelled and give up at random on one queue: no packet is lost, no memory stays
//! out, and no wait goes on much beyond its deadline.
//!
//! Half a second by default; `WHARF_SOAK_SECONDS=600` makes it ten minutes, and `WHARF_SEED` repeats a run.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wharf_core::host::{Clock, Park, Wake};
use wharf_core::pool::{Burst, PagePool};
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::random::SplitMix64;
use wharf_core::sender::{Canceller, Sender};
use wharf_core::sender::{SendError, Sent};
use wharf_core::wait::Wait;
use wharf_testkit::assert_conserved;
use wharf_testkit::gate::Gate;
use wharf_testkit::stalls::{Late, Stalls, run_delay};
use wharf_testkit::threads::TestPark;

const THREADS: u64 = 16;
const TASKS: u64 = 100;
/// Threads that poll the tasks.
const WORKERS: u64 = 2;
/// A sender asks for no sleep that ends this long after its deadline. How late the machine lets its thread run again is printed.
const LATE: Duration = Duration::from_millis(10);

thread_local! {
    /// The longest wait of the call that this thread makes, and the times at which it asked the clock first and last, ns.
    static CALL: Cell<Option<(u64, u64, u64)>> = const { Cell::new(None) };
}

/// Real time. Only deadlines ask for it exactly.
#[derive(Debug)]
struct RealClock(Instant);

impl Clock for RealClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn exact_ns(&self) -> u64 {
        let now_ns = self.now_ns();
        let noted = |(max_ns, first_ns, _)| (max_ns, if first_ns == 0 { now_ns } else { first_ns }, now_ns);
        CALL.set(CALL.get().map(noted));
        now_ns
    }
}

/// Sleeps of real threads, none of which is to end late.
#[derive(Debug)]
struct PunctualPark;

impl Park for PunctualPark {
    fn waker(&self) -> Arc<dyn Wake> {
        TestPark.waker()
    }

    fn park(&self, timeout_ns: u64) {
        if let Some((max_ns, first_ns, last_ns)) = CALL.get() {
            let late_ns = last_ns.saturating_add(timeout_ns).saturating_sub(first_ns + max_ns);
            assert!(late_ns <= LATE.as_nanos() as u64, "a sleep would end {late_ns} ns after its deadline");
        }
        TestPark.park(timeout_ns);
    }
}

/// Returns chance whose seed is not 0, and far from those of the neighbours of `seed`.
fn chance(seed: u64) -> SplitMix64 {
    SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
}

fn micros(random: &mut SplitMix64, end: u64) -> Duration {
    Duration::from_micros(random.below(end))
}

/// The shared state of a run.
struct Rig {
    queue: TxQueue,
    stop: AtomicBool,
    /// Packets given to a call, and those that a call gave back or dropped.
    offered: AtomicU64,
    kept: AtomicU64,
    /// Calls that ended by time, by a canceller, by a dropped future, and with all packets sent.
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    given_up: AtomicU64,
    done: AtomicU64,
    late: Mutex<Late>,
}

impl Rig {
    fn is_over(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Notes the end of a call that was given a burst of `offered` packets. The rest goes back to the pool.
    fn account(&self, offered: usize, burst: &mut Burst, ended: Result<Sent, SendError>) {
        self.offered.fetch_add(offered as u64, SeqCst);
        let dropped = ended.as_ref().map_or(0, |sent| sent.dropped);
        self.kept.fetch_add((burst.len() + dropped) as u64, SeqCst);
        let count = match ended {
            Ok(sent) if sent.left > 0 => &self.timed_out,
            Ok(_) => &self.done,
            Err(SendError::Cancelled) => &self.cancelled,
            Err(SendError::Closed) => return burst.clear(),
            Err(error) => panic!("{error}"),
        };
        count.fetch_add(1, SeqCst);
        burst.clear();
    }

    /// One call of a thread.
    fn thread_step(&self, sender: &mut Sender, burst: &mut Burst, random: &mut SplitMix64) {
        let (count, time) = (1 + random.below(32) as usize, micros(random, 4000));
        match self.timed(time, || sender.fill(burst, count, 64, time)) {
            Ok(0) => _ = self.timed_out.fetch_add(1, SeqCst),
            Ok(_) => {}
            Err(error) => return self.account(0, burst, Err(error)),
        }
        let offered = burst.len();
        let ended = self.timed(time, || match random.below(8) {
            0 => sender.send(burst, Wait::Never),
            1 => sender.send_or_drop(burst, Wait::Never),
            2 | 3 => sender.send_or_drop(burst, time),
            4 if !sender.is_ready() => Ok(Sent::default()),
            4 => sender.send(burst, Wait::Never),
            _ => sender.send(burst, time),
        });
        self.account(offered, burst, ended);
    }

    /// Runs a call that should take `time` at most.
    fn timed<R>(&self, time: Duration, call: impl FnOnce() -> R) -> R {
        let (delay, deadline) = (run_delay(), Instant::now() + time);
        CALL.set(Some((time.as_nanos() as u64, 0, 0)));
        let result = call();
        CALL.set(None);
        self.late.lock().unwrap().note(deadline, run_delay() - delay);
        result
    }

    fn thread(&self, seed: u64) {
        let mut random = chance(seed);
        while !self.is_over() {
            let mut sender = self.queue.sender("thread").unwrap();
            let mut burst = sender.burst(32);
            for _ in 0..random.below(200) {
                self.thread_step(&mut sender, &mut burst, &mut random);
            }
        }
    }

    /// A thread whose waits, without an end, another thread ends.
    fn cancelled_thread(&self, sender: &mut Sender, seed: u64) {
        let mut random = chance(seed);
        let mut burst = sender.burst(32);
        while !self.is_over() {
            let count = 1 + random.below(32) as usize;
            let filled = sender.fill(&mut burst, count, 64, Wait::Forever);
            let offered = burst.len();
            let sent = filled.and_then(|_| sender.send(&mut burst, Wait::Forever));
            self.account(offered, &mut burst, sent);
        }
    }

    /// A task: each call of a sender may be dropped after some polls.
    async fn task(&self, seed: u64) {
        let mut random = chance(seed);
        while !self.is_over() {
            let mut sender = self.queue.sender("task").unwrap();
            let mut burst = sender.burst(32);
            for _ in 0..random.below(50) {
                self.task_step(&mut sender, &mut burst, &mut random).await;
                pause().await;
            }
        }
    }

    async fn task_step(&self, sender: &mut Sender, burst: &mut Burst, random: &mut SplitMix64) {
        let (count, polls) = (1 + random.below(32) as usize, random.below(3));
        match patient(sender.fill_async(burst, count, 64), polls).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return self.account(0, burst, Err(error)),
            None => _ = self.given_up.fetch_add(1, SeqCst),
        }
        let offered = burst.len();
        let ended = match random.below(4) {
            0 => {
                let ready = patient(poll_fn(|context| sender.poll_ready(context)), polls).await;
                ready.map(|ready| ready.and_then(|()| sender.send(burst, Wait::Never)))
            }
            1 => match patient(sender.reserve(count), polls).await {
                Some(Ok(mut permit)) if random.below(4) > 0 => Some(permit.send(burst)),
                Some(reserved) => Some(reserved.map(|_| Sent::default())),
                None => None,
            },
            _ => patient(sender.send_async(burst), polls).await,
        };
        if ended.is_none() {
            self.given_up.fetch_add(1, SeqCst);
        }
        self.account(offered, burst, ended.unwrap_or(Ok(Sent::default())));
    }
}

/// Polls `future` up to `polls` times more than once, then drops it. Returns its output.
async fn patient<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(move |context| match (future.as_mut().poll(context), left) {
        (Poll::Ready(output), _) => Poll::Ready(Some(output)),
        (Poll::Pending, 0) => Poll::Ready(None),
        (Poll::Pending, _) => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Lets the other tasks run.
async fn pause() {
    let mut is_first = true;
    poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Polls tasks in turn, woken or not: a wake-up that is lost shows as a wait, and the tasks give up by polls.
fn work(tasks: &Mutex<VecDeque<Task<'_>>>) {
    loop {
        let Some(mut task) = tasks.lock().unwrap().pop_front() else { return };
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tasks.lock().unwrap().push_back(task);
        }
        std::thread::yield_now();
    }
}

fn setting(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Ends waits by cancellers.
fn cancel(seconds: Duration, random: &mut SplitMix64, cancellers: &[Canceller]) {
    let began = Instant::now();
    while began.elapsed() < seconds {
        std::thread::sleep(micros(random, 500));
        cancellers[random.below(cancellers.len() as u64) as usize].cancel();
    }
}

fn run(with_poller: bool) {
    let (seconds, seed) =
        (setting("WHARF_SOAK_SECONDS", 0.5), setting("WHARF_SEED", f64::from(std::process::id())) as u64);
    eprintln!("WHARF_SEED={seed}, {seconds} s");
    let (gate, control) = Gate::new(16);
    let pool = PagePool::builder().frames(1024).huge_pages(false).build().unwrap();
    let clock = Arc::new(RealClock(Instant::now()));
    let builder = TxQueue::builder(&pool, Box::new(gate), clock, Arc::new(PunctualPark)).lane_frames(32);
    let queue = builder.qdisc(Box::new(Fifo::new(FifoLimit::Packets(100)))).build().unwrap();
    let zero = AtomicU64::default;
    let rig = Rig {
        queue: queue.clone(),
        stop: AtomicBool::new(false),
        offered: zero(),
        kept: zero(),
        timed_out: zero(),
        cancelled: zero(),
        given_up: zero(),
        done: zero(),
        late: Mutex::default(),
    };
    let mut cancelled: Vec<Sender> = (0..4).map(|_| queue.sender("cancelled").unwrap()).collect();
    let cancellers: Vec<_> = cancelled.iter_mut().map(Sender::canceller).collect();
    let poller = with_poller.then(|| queue.poller());
    let tasks = (0..TASKS).map(|n| Box::pin(rig.task(seed ^ (n << 32))) as Task<'_>);
    let tasks = Mutex::new(tasks.collect());
    let stalls = Stalls::watch();
    std::thread::scope(|scope| {
        let (polls, stop) = poller.map_or((None, None), |(poller, stop)| (Some(poller), Some(stop)));
        polls.map(|poller| scope.spawn(move || poller.run()));
        let (rig, tasks) = (&rig, &tasks);
        let mut threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(move || work(tasks))).collect();
        threads.extend((0..THREADS - 4).map(|n| scope.spawn(move || rig.thread(seed ^ n))));
        threads.extend(
            cancelled.iter_mut().map(|sender| scope.spawn(move || rig.cancelled_thread(sender, seed))),
        );
        let allow = scope.spawn(|| {
            while !rig.is_over() {
                control.allowed.fetch_add(8, SeqCst);
                // The gate's log of its calls would take gigabytes in ten minutes.
                control.calls.lock().unwrap().clear();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        cancel(Duration::from_secs_f64(seconds), &mut chance(seed), &cancellers);
        rig.stop.store(true, SeqCst);
        allow.join().unwrap();
        control.allowed.store(usize::MAX / 2, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stop.iter().for_each(|stop| stop.stop());
    });
    drop((cancelled, tasks));
    rig.late.lock().unwrap().rest(&stalls.end());
    close(&rig, seconds < 5.0);
}

/// Closes the path and checks the sums.
fn close(rig: &Rig, is_short: bool) {
    assert!(rig.queue.drain(Duration::MAX));
    let of = |count: &AtomicU64| count.load(SeqCst);
    let senders = rig.queue.sender_totals();
    eprintln!(
        "{} accepted of {}, {} done, {} timed out, {} cancelled, {} given up, {} dropped",
        senders.packets.get(),
        of(&rig.offered),
        of(&rig.done),
        of(&rig.timed_out),
        of(&rig.cancelled),
        of(&rig.given_up),
        senders.drops.get(),
    );
    assert_eq!(senders.packets.get() + of(&rig.kept), of(&rig.offered), "accepted or still in the burst");
    assert_eq!(senders.drops.get(), senders.full_drops.get() + senders.deadline_drops.get());
    let rare = if is_short { 0 } else { 1 };
    for (count, what) in [
        (&rig.done, "sent"),
        (&rig.timed_out, "timed out"),
        (&rig.cancelled, "was cancelled"),
        (&rig.given_up, "was dropped"),
    ] {
        assert!(of(count) >= rare, "no call {what}");
    }
    let audit = rig.queue.shutdown(Duration::MAX);
    assert_eq!(audit.out(), 0, "{audit}");
    assert_conserved(&rig.queue);
}

#[test]
fn every_end_of_a_wait_leaves_the_account_even_with_a_poller() {
    run(true);
}

#[test]
fn every_end_of_a_wait_leaves_the_account_even_without_a_poller() {
    run(false);
}
