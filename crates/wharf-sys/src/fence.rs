//! An asymmetric fence: `light` costs nearly nothing, `heavy` makes a system call on the rare side.
//!
//! A sender publishes a packet and then checks whether the owner sleeps. Between the two it needs a full fence,
//! or sender and owner may miss each other. At 20 cycles a packet that fence is the sender's largest single cost.
//! The owner falls asleep rarely, so it pays for both sides: `membarrier(2)` runs a fence on every processor
//! that executes a thread of the process (`MEMBARRIER_CMD_PRIVATE_EXPEDITED`).
//!
//! The process is in one of three modes, and goes through them in this order only:
//! 1. *Symmetric*: both sides execute an ordinary full fence. The process starts here, and stays here where the
//!    kernel refuses to register it.
//! 2. *Asymmetric*: `light` is a compiler fence, `heavy` calls `membarrier`.
//! 3. *Falling back*: `membarrier` has failed (`ENOMEM`, or a seccomp filter that was installed later). From here
//!    on `light` is a full fence again. A `light` that was executed before may still have been a compiler fence;
//!    each `heavy` therefore makes every processor pass the scheduler, until one has done so. Then the process is
//!    symmetric for good.

use crate::affinity;
use rustix::thread::MembarrierCommand::{self, Global, PrivateExpedited, RegisterPrivateExpedited};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};
use std::time::Duration;

/// Symmetric, and not registered yet.
const UNREGISTERED: u8 = 0;
const ASYMMETRIC: u8 = 1;
const FALLING_BACK: u8 = 2;
/// Symmetric for good.
const SYMMETRIC: u8 = 3;

/// Longer than a store stays in a processor's store buffer: the processor takes a timer interrupt meanwhile.
const DRAIN_TIME: Duration = Duration::from_millis(20);

/// The process's mode, and the system calls that it rests on: tests replace them.
struct Fence {
    mode: AtomicU8,
    membarrier: fn(MembarrierCommand) -> bool,
    visit_processors: fn() -> bool,
}

static PROCESS: Fence = Fence { mode: AtomicU8::new(UNREGISTERED), membarrier, visit_processors };

/// Orders the caller's earlier stores before its later loads, as seen by a thread that calls [`heavy`].
#[inline(always)]
pub fn light() {
    PROCESS.light();
}

/// Orders the caller's earlier stores before its later loads, as seen by threads that call [`light`]. Takes a few
/// microseconds; up to tens of milliseconds once, where `membarrier` begins to fail.
pub fn heavy() {
    PROCESS.heavy();
}

/// Registers the process for the asymmetric form, and returns true if the kernel has it. Until this is called,
/// [`light`] is a full fence. Further calls do nothing.
pub fn expedited() -> bool {
    PROCESS.register()
}

impl Fence {
    #[inline(always)]
    fn light(&self) {
        // `fall_back` relies on the caller's store before this load.
        compiler_fence(Ordering::SeqCst);
        if self.mode.load(Ordering::Relaxed) == ASYMMETRIC {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    fn heavy(&self) {
        fence(Ordering::SeqCst);
        self.register();
        if self.mode.load(Ordering::SeqCst) == ASYMMETRIC && !(self.membarrier)(PrivateExpedited) {
            // Fails where another thread has fallen back already.
            let _ = self.mode.compare_exchange(ASYMMETRIC, FALLING_BACK, Ordering::SeqCst, Ordering::SeqCst);
        }
        if self.mode.load(Ordering::SeqCst) == FALLING_BACK {
            self.fall_back();
        }
    }

    /// Makes every other thread of the process pass a full fence. After that fence a `light` reads the new mode,
    /// and is a full fence itself: the process is symmetric.
    #[cold]
    fn fall_back(&self) {
        fence(Ordering::SeqCst);
        if !(self.membarrier)(Global) && !(self.visit_processors)() {
            // Both refused, by a seccomp filter for example. What remains is an assumption about hardware: see
            // `DRAIN_TIME`.
            std::thread::sleep(DRAIN_TIME);
        }
        fence(Ordering::SeqCst);
        self.mode.store(SYMMETRIC, Ordering::SeqCst);
    }

    fn register(&self) -> bool {
        if self.mode.load(Ordering::Relaxed) == UNREGISTERED {
            let registered = (self.membarrier)(RegisterPrivateExpedited);
            let mode = if registered { ASYMMETRIC } else { SYMMETRIC };
            // Fails where another thread was first.
            let _ = self.mode.compare_exchange(UNREGISTERED, mode, Ordering::SeqCst, Ordering::SeqCst);
        }
        self.mode.load(Ordering::Relaxed) == ASYMMETRIC
    }
}

fn membarrier(command: MembarrierCommand) -> bool {
    // Miri does not know it.
    !cfg!(miri) && rustix::thread::membarrier(command).is_ok()
}

/// Runs a thread on each processor of its cpuset in turn, and returns true if it ran on all of them. The scheduler executes
/// a full barrier when it switches threads (`smp_mb__after_spinlock` in `__schedule`). All threads of the process are
/// taken to be in one cpuset.
///
/// The thread is a new one, so the caller keeps its affinity whatever fails. A processor that goes offline meanwhile hands
/// its threads to others, and one that comes online gets its threads from others: both pass the scheduler.
fn visit_processors() -> bool {
    // The kernel refuses to list more processors than a set has room for; those beyond could not be visited.
    let visit = || affinity::known().is_ok() && can_visit(affinity::pin);
    let visitor = std::thread::Builder::new().name("wharf-fence".into()).spawn(visit);
    visitor.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Moves the calling thread by `pin` to each processor that there is, and returns true if none refused it. Numbers may
/// have gaps, so their count says nothing about the highest.
fn can_visit(pin: impl Fn(usize) -> io::Result<()>) -> bool {
    let mut visited = 0;
    for processor in 0..affinity::PROCESSORS_MAX {
        match pin(processor) {
            Ok(()) => visited += 1,
            // No such processor, or offline, or outside the cpuset: no thread of the process runs there.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(_) => return false,
        }
    }
    visited > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    const ROUNDS: usize = 5_000;

    /// Runs the store-buffer test: each side stores, fences, and loads the other's word. Returns the number of
    /// rounds in which neither saw the other.
    fn rounds_that_miss(fence: &Fence) -> usize {
        let words = [const { AtomicUsize::new(0) }; 2];
        let (seen, start) = ([const { AtomicUsize::new(0) }; 2], Barrier::new(2));
        let mut misses = 0;
        let meet = |round: usize, arrived: &AtomicUsize, other: &AtomicUsize| {
            arrived.store(round, Ordering::SeqCst);
            while other.load(Ordering::SeqCst) < round {
                std::thread::yield_now();
            }
        };
        let arrived = [const { AtomicUsize::new(0) }; 4];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                for round in 1..=ROUNDS {
                    meet(round, &arrived[0], &arrived[1]);
                    words[0].store(round, Ordering::Relaxed);
                    fence.light();
                    seen[0].store(words[1].load(Ordering::Relaxed), Ordering::Relaxed);
                    meet(round, &arrived[2], &arrived[3]);
                }
            });
            start.wait();
            for round in 1..=ROUNDS {
                meet(round, &arrived[1], &arrived[0]);
                words[1].store(round, Ordering::Relaxed);
                fence.heavy();
                let saw = words[0].load(Ordering::Relaxed);
                meet(round, &arrived[3], &arrived[2]);
                misses += usize::from(saw < round && seen[0].load(Ordering::Relaxed) < round);
            }
        });
        misses
    }

    fn fence_with(membarrier: fn(MembarrierCommand) -> bool, visit_processors: fn() -> bool) -> Fence {
        Fence { mode: AtomicU8::new(UNREGISTERED), membarrier, visit_processors }
    }

    #[test]
    fn light_and_heavy_never_miss_each_other() {
        assert_eq!(rounds_that_miss(&PROCESS), 0);
        assert_eq!(expedited(), PROCESS.mode.load(Ordering::Relaxed) == ASYMMETRIC);
    }

    #[test]
    fn a_kernel_that_refuses_registration_gets_full_fences() {
        let fence = fence_with(|_| false, || panic!("no thread has executed a compiler fence"));
        assert_eq!(rounds_that_miss(&fence), 0);
        assert_eq!((fence.mode.load(Ordering::Relaxed), fence.register()), (SYMMETRIC, false));
    }

    #[test]
    fn a_membarrier_that_fails_later_falls_back_to_full_fences() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        // Registration and some fences work; then, as under a new seccomp filter, no command does.
        let fails_later = |command| CALLS.fetch_add(1, Ordering::Relaxed) < ROUNDS / 2 && membarrier(command);
        let fence = fence_with(fails_later, visit_processors);
        let before = affinity::known().unwrap();
        let registered = fence.register();
        assert_eq!(rounds_that_miss(&fence), 0);
        assert_eq!((fence.mode.load(Ordering::Relaxed), fence.register()), (SYMMETRIC, false));
        assert_eq!(affinity::known().unwrap(), before);
        assert!(!registered || CALLS.load(Ordering::Relaxed) > ROUNDS / 2);
    }

    #[test]
    fn a_process_that_may_not_move_waits_once_instead() {
        let fence = fence_with(|command| command == RegisterPrivateExpedited, || false);
        assert!(fence.register());
        let begin = std::time::Instant::now();
        fence.heavy();
        assert!(begin.elapsed() >= DRAIN_TIME && fence.mode.load(Ordering::Relaxed) == SYMMETRIC);
    }

    #[test]
    fn processors_with_gaps_are_all_visited_and_a_refusal_midway_is_seen() {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let last = std::cell::Cell::new(0);
        assert!(can_visit(|processor| {
            last.set(processor);
            if processor % 7 == 0 { Ok(()) } else { refused(libc::EINVAL) }
        }));
        assert_eq!(last.get(), affinity::PROCESSORS_MAX - 1);
        assert!(!can_visit(|processor| if processor < 7 { Ok(()) } else { refused(libc::EPERM) }));
        assert!(!can_visit(|_| refused(libc::EINVAL)), "none was visited");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter has no sched_getcpu")]
    fn a_visit_leaves_the_callers_processors_alone() {
        let first = affinity::known().unwrap()[0];
        std::thread::spawn(move || {
            affinity::pin(first).unwrap();
            assert!(visit_processors());
            assert_eq!((affinity::known().unwrap(), affinity::current()), (vec![first], Some(first)));
        })
        .join()
        .unwrap();
    }
}
