//! The host's clock and threads, for the path.

mod poller;

pub use poller::{HostWait, PollerBuilder, PollerThread};
pub use wharf_core::host::HostClock;

use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;
use wharf_core::host::{Clock, Park, Wake};
use wharf_sys::event::EventFd;

/// CLOCK_MONOTONIC: exact, for 20 ns and more. Counts from the same origin as [`HostClock`].
#[derive(Debug, Default, Clone, Copy)]
pub struct ExactClock;

impl Clock for ExactClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        wharf_sys::clock::monotonic_ns()
    }
}

/// CLOCK_REALTIME: counts from 1970, for time stamps in captures.
#[derive(Debug, Default, Clone, Copy)]
pub struct WallClock;

impl Clock for WallClock {
    fn now_ns(&self) -> u64 {
        wharf_sys::clock::realtime_ns()
    }
}

/// Real threads.
#[derive(Debug, Default, Clone, Copy)]
pub struct HostPark;

#[derive(Debug)]
struct HostThread(Thread);

impl Wake for HostThread {
    fn wake(&self) {
        self.0.unpark();
    }
}

impl Park for HostPark {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(HostThread(thread::current()))
    }

    fn park(&self, timeout_ns: u64) {
        match timeout_ns {
            u64::MAX => thread::park(),
            timeout_ns => thread::park_timeout(Duration::from_nanos(timeout_ns)),
        }
    }

    fn give_way(&self) {
        thread::yield_now();
    }
}

/// A wake-up as a file descriptor that becomes readable, for programs that wait in epoll(7) or a loop of
/// their own: give a clone of the `Arc` to [`wharf_core::sender::Sender::watch`].
#[derive(Debug)]
pub struct WakeFd(EventFd);

impl WakeFd {
    /// Makes one that is not readable yet.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self(EventFd::new()?)))
    }

    /// Waits until it is readable: for a loop that waits for nothing else.
    ///
    /// # Errors
    /// A signal came first.
    pub fn wait(&self) -> std::io::Result<()> {
        self.0.wait()
    }

    /// Makes it unreadable again, before the caller looks for events. Returns true if it was readable.
    pub fn clear(&self) -> bool {
        self.0.clear()
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wake for WakeFd {
    fn wake(&self) {
        self.0.signal();
    }
}

/// Returns the seconds of processor time that this process has used, in user space and in the kernel.
pub fn cpu_seconds() -> (f64, f64) {
    wharf_sys::usage::cpu_seconds()
}

/// Returns the number that is all of the file `path`.
pub(crate) fn number_in<T: FromStr>(path: &str) -> Option<T> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Pins the calling thread to processor `cpu`.
///
/// # Errors
/// There is no such processor for this process.
pub fn pin(cpu: usize) -> std::io::Result<()> {
    wharf_sys::affinity::pin(cpu)
}

/// Returns the processors that the calling thread may run on, in order.
pub fn processors() -> Vec<usize> {
    wharf_sys::affinity::allowed()
}

/// Returns the processor's time stamp counter, in ticks of its own: for profiles of a few nanoseconds.
#[inline]
pub fn ticks() -> u64 {
    wharf_sys::clock::ticks()
}
