//! Capabilities of all threads: `capset(2)` changes the calling thread alone, so each thread is made to call it by a signal, as the C
//! library does for `setresuid(2)` and libpsx for capabilities.
//!
//! The handler takes its orders from atomics, makes two system calls, and neither allocates nor waits. Its effect is read in
//! `/proc/self/task`: a thread that has not made the call yet, or has begun meanwhile, gets the signal again.

use crate::call::check;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most threads that keep capabilities.
const KEEPERS_MAX: usize = 8;
/// Time in which all threads are to have made the call.
const BOUND: Duration = Duration::from_secs(5);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Threads that keep [`KEPT`]; 0 for none.
static KEEPERS: [AtomicI32; KEEPERS_MAX] = [const { AtomicI32::new(0) }; KEEPERS_MAX];
/// Capabilities that they keep, a bit each.
static KEPT: AtomicU64 = AtomicU64::new(0);
/// Held while the signal has its handler.
static SENDER: Mutex<()> = Mutex::new(());

/// Takes all capabilities from every thread of this process. Threads called `name` keep those in `kept`, a bit for each capability,
/// as far as they have them, and can use them at once.
///
/// Calls that threads wait in may end with `EINTR`.
///
/// # Errors
/// `Unsupported` if more than 8 threads are called `name`; `TimedOut` if a thread has not made the call in 5 s, such as one that blocks
/// all signals; those of reading `/proc/self/task`.
pub fn restrict_capabilities(name: &str, kept: u64) -> io::Result<()> {
    let _sender = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    let signal = libc::SIGRTMIN() + 7;
    KEPT.store(kept, Relaxed);
    let before = handle(signal)?;
    let done = restrict_all(name, kept, signal);
    // SAFETY: the action that was in place before, which lives as long as the call.
    let restored = check(unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) });
    done.and(restored.map(drop))
}

/// Puts the handler in place, and returns the action before.
fn handle(signal: libc::c_int) -> io::Result<libc::sigaction> {
    // SAFETY: an action is plain numbers, and an empty set of signals zeroes.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: both actions live as long as the call. `on_signal` calls only what a handler may call.
    check(unsafe { libc::sigaction(signal, &raw const action, &raw mut before) })?;
    Ok(before)
}

fn restrict_all(name: &str, kept: u64, signal: libc::c_int) -> io::Result<()> {
    let until = Instant::now() + BOUND;
    loop {
        let threads = threads()?;
        let keepers: Vec<&Thread> = threads.iter().filter(|thread| thread.name == name).collect();
        if keepers.len() > KEEPERS_MAX {
            let what = format!("{} threads are called {name}, more than {KEEPERS_MAX}", keepers.len());
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let ids = keepers.iter().map(|thread| thread.id).chain(std::iter::repeat(0));
        KEEPERS.iter().zip(ids).for_each(|(keeper, id)| keeper.store(id, Relaxed));
        let is_keeper = |thread: &Thread| thread.name == name;
        let wrong =
            threads.iter().filter(|thread| !thread.is_within(if is_keeper(thread) { kept } else { 0 }));
        let sent: Vec<&Thread> = wrong.inspect(|thread| send(thread.id, signal)).collect();
        match sent.first() {
            None => return Ok(()),
            Some(thread) if Instant::now() >= until => {
                let what = format!("thread {} keeps its capabilities", thread.name);
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Some(_) => std::thread::sleep(LOOK),
        }
    }
}

/// A thread of this process.
#[derive(Debug)]
struct Thread {
    id: libc::pid_t,
    name: String,
    permitted: u64,
    effective: u64,
}

impl Thread {
    /// True if it has no capability but those of `kept`, and can use all that it has.
    fn is_within(&self, kept: u64) -> bool {
        self.permitted & !kept == 0 && self.effective == self.permitted
    }

    /// Reads `proc_pid_status(5)`.
    fn read(status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let set = |name| u64::from_str_radix(field(name)?, 16).ok();
        let (permitted, effective) = (set("CapPrm:")?, set("CapEff:")?);
        Some(Self { id: field("Pid:")?.parse().ok()?, name: field("Name:")?.into(), permitted, effective })
    }
}

/// Returns the threads of this process. One that ends meanwhile has no status.
fn threads() -> io::Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let status = std::fs::read_to_string(entry?.path().join("status")).unwrap_or_default();
        threads.extend(Thread::read(&status));
    }
    Ok(threads)
}

/// Sends the signal to a thread, which may have ended.
fn send(thread: libc::pid_t, signal: libc::c_int) {
    // SAFETY: plain numbers. The thread is named together with its process: no other process can be meant.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
}

/// The handler: restricts the calling thread.
extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: errno's place is the thread's own, and gettid(2) takes nothing.
    let (errno, thread) =
        unsafe { (libc::__errno_location(), libc::syscall(libc::SYS_gettid) as libc::pid_t) };
    // SAFETY: as above. The thread may be between a system call and its look at errno.
    let saved = unsafe { *errno };
    let keeps = KEEPERS.iter().any(|keeper| keeper.load(Relaxed) == thread);
    restrict_own(if keeps { KEPT.load(Relaxed) } else { 0 });
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Takes from the calling thread all capabilities but those of `kept`. The look at its status shows a failure.
fn restrict_own(kept: u64) {
    let Ok(sets) = capabilities(None) else { return };
    let left = sets.permitted & CapabilitySet::from_bits_retain(kept);
    let left = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    let _ = set_capabilities(None, left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_the_capabilities_of_a_thread() {
        let status = |name: &str, permitted: &str, effective: &str| {
            Thread::read(&format!(
                "Name:\t{name}\nPid:\t7\nCapInh:\t0\nCapPrm:\t{permitted}\nCapEff:\t{effective}\n"
            ))
        };
        let thread = status("wharf-reopen", "0000000000003000", "0000000000003000").unwrap();
        assert_eq!((thread.id, thread.name.as_str()), (7, "wharf-reopen"));
        assert!(thread.is_within(0x3000) && thread.is_within(0x8000003000) && !thread.is_within(0x1000));
        let unusable = status("x", "0000000000001000", "0000000000000000").unwrap();
        assert!(!unusable.is_within(0x1000), "a change of the user has made it so");
        assert!(status("x", "none", "0").is_none() && Thread::read("").is_none());
    }
}
