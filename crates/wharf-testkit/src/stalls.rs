//! Times at which the machine stood still. A hypervisor that stops its guest makes sleeps end late, so a test of deadlines
//! tells this lateness from its own.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wharf_sys::affinity;

/// How long a watcher sleeps.
const NAP: Duration = Duration::from_micros(500);
/// A nap that ends this much late is a stall.
const LATE: Duration = Duration::from_micros(300);

/// Returns the time that the calling thread has been ready to run and had no processor: the second word of
/// `/proc/thread-self/schedstat`, or 0 where the kernel has no such file.
pub fn run_delay() -> Duration {
    thread_local! {
        static SCHEDSTAT: OnceCell<Option<File>> = const { OnceCell::new() };
    }
    SCHEDSTAT.with(|file| {
        let file = file.get_or_init(|| File::open("/proc/thread-self/schedstat").ok());
        let mut text = [0; 96];
        let count = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&text[..count]).unwrap_or("");
        let delay = text.split_whitespace().nth(1).and_then(|delay| delay.parse().ok());
        Duration::from_nanos(delay.unwrap_or(0))
    })
}

/// Threads, one on each processor that the caller may run on, that sleep briefly again and again and note the sleeps that
/// end late.
#[derive(Debug)]
pub struct Stalls {
    stop: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<Vec<Stall>>>,
}

/// The begin and the end of a stall.
type Stall = (Instant, Instant);

impl Stalls {
    /// Begins to watch. As root the watchers run before every other thread (`SCHED_FIFO`); without, they see less, since
    /// a watcher cannot tell a busy processor from one that stands still.
    pub fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = |cpu| {
            let stop = stop.clone();
            std::thread::spawn(move || watch(cpu, &stop))
        };
        Self { watchers: affinity::allowed().into_iter().map(watcher).collect(), stop }
    }

    /// Ends the watch, and returns what it saw.
    pub fn end(self) -> Seen {
        self.stop.store(true, Relaxed);
        let watchers = self.watchers.into_iter();
        let mut stalls: Vec<Stall> = watchers.flat_map(|watcher| watcher.join().unwrap()).collect();
        stalls.sort_unstable();
        let mut seen = Seen(Vec::new());
        stalls.into_iter().for_each(|stall| seen.join(stall));
        seen
    }
}

fn watch(cpu: usize, stop: &AtomicBool) -> Vec<Stall> {
    let param = libc::sched_param { sched_priority: 99 };
    // SAFETY: a plain call, which reads `param`. It fails without the privilege, which `watch` documents.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    affinity::pin(cpu).unwrap();
    let mut stalls = Vec::new();
    while !stop.load(Relaxed) {
        let (due, delay) = (Instant::now() + NAP, run_delay());
        std::thread::sleep(NAP);
        let late = due.elapsed().saturating_sub(run_delay() - delay);
        if late >= LATE {
            stalls.push((due, due + late));
        }
    }
    stalls
}

/// Stalls in order, none of which touches the next: a time in which any processor stood still is in one of them.
#[derive(Debug)]
pub struct Seen(Vec<Stall>);

impl Seen {
    /// Adds a stall that begins no earlier than those before it.
    fn join(&mut self, (begin, end): Stall) {
        match self.0.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => self.0.push((begin, end)),
        }
    }

    /// Returns the time of stalls between two instants.
    pub fn within(&self, begin: Instant, end: Instant) -> Duration {
        let first = self.0.partition_point(|stall| stall.1 <= begin);
        let stalls = self.0[first..].iter().take_while(|stall| stall.0 < end);
        stalls.map(|stall| stall.1.min(end).saturating_duration_since(stall.0.max(begin))).sum()
    }

    /// Returns the longest stall.
    pub fn longest(&self) -> Duration {
        self.0.iter().map(|stall| stall.1 - stall.0).max().unwrap_or(Duration::ZERO)
    }
}

/// Calls that ended after their deadlines.
#[derive(Debug, Default)]
pub struct Late {
    longest: Duration,
    /// The longest without the time in which the thread was ready to run and had no processor.
    longest_own: Duration,
    /// The deadline, the end, and the lateness without waits for a processor.
    calls: Vec<(Instant, Instant, Duration)>,
}

impl Late {
    /// Notes that a call with `deadline` ended now, in which the thread's [`run_delay`] has grown by `delay`.
    pub fn note(&mut self, deadline: Instant, delay: Duration) {
        let end = Instant::now();
        let late = end.saturating_duration_since(deadline);
        if late > Duration::ZERO {
            let own = late.saturating_sub(delay);
            self.longest = self.longest.max(late);
            self.longest_own = self.longest_own.max(own);
            self.calls.push((deadline, end, own));
        }
    }

    /// Prints the longest lateness. Returns what is left of it without waits for a processor and without the stalls that
    /// were `seen`. A wait within a stall is taken off twice.
    pub fn rest(&self, seen: &Seen) -> Duration {
        let rest = |&(deadline, end, own): &(Instant, Instant, Duration)| {
            own.saturating_sub(seen.within(deadline, end))
        };
        let rest = self.calls.iter().map(rest).max().unwrap_or_default();
        let (longest, own, stall) = (self.longest, self.longest_own, seen.longest());
        eprintln!(
            "late {longest:?}; without waits for a processor {own:?}; nor stalls (up to {stall:?}) {rest:?}"
        );
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_without_stalls_and_waits() {
        let (mut late, ms) = (Late::default(), Duration::from_millis);
        let now = Instant::now();
        late.note(now - ms(30), ms(4));
        late.note(now + ms(60_000), ms(0));
        let seen = Seen(vec![(now - ms(60), now - ms(20)), (now - ms(15), now - ms(14))]);
        let rest = late.rest(&seen);
        assert!(rest >= ms(30 - 4 - 10 - 1) && rest <= ms(15) + now.elapsed(), "{rest:?}");
    }

    #[test]
    fn stalls_that_overlap_count_once() {
        let (zero, ms) = (Instant::now(), Duration::from_millis);
        let mut seen = Seen(Vec::new());
        for (begin, end) in [(0, 4), (2, 3), (3, 6), (10, 12)] {
            seen.join((zero + ms(begin), zero + ms(end)));
        }
        assert_eq!(seen.longest(), ms(6));
        for (begin, end, stalled) in [(0, 20, 8), (5, 11, 2), (6, 10, 0), (7, 9, 0), (11, 30, 1), (1, 2, 1)] {
            assert_eq!(seen.within(zero + ms(begin), zero + ms(end)), ms(stalled), "{begin} to {end}");
        }
    }
}
