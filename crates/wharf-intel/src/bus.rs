//! `Bus`: the way to an adapter.

use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;
use wharf_sys::clock::monotonic_ns;
use wharf_sys::mapping::Mapping;

/// Registers of an adapter, memory for it, and its interrupts.
pub trait Bus: Debug + Send + Sync + 'static {
    /// Reads the register at byte `at`: all ones if the adapter is gone.
    fn read(&self, at: u32) -> u32;
    /// Writes the register at byte `at`, after all earlier writes to memory.
    fn write(&self, at: u32, value: u32);
    /// Lets the adapter read `mapping` and, if it `is_writable`, write there. Returns its address for the adapter.
    ///
    /// # Errors
    /// `ENOMEM` if the kernel pins no more memory, `ENOSPC` if the adapter has no addresses left for it.
    fn map(&self, mapping: &Mapping, is_writable: bool) -> io::Result<u64>;
    /// Lets the adapter read and write memory, or stops that.
    fn set_bus_master(&self, is_on: bool);
    /// The descriptor that interrupt `vector` makes readable.
    fn wait_fd(&self, vector: u32) -> Option<RawFd>;
    /// Makes that descriptor unreadable. Returns true if it was readable.
    fn take(&self, vector: u32) -> bool;
    /// Lets an interrupt line notify again that has notified.
    fn unmask(&self);
    /// True if the kernel wants the adapter back, or has wanted it: it is to be removed.
    fn is_requested(&self) -> bool;
    /// Returns the time, ns.
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }
    /// Waits while the adapter resets, or ends what it does.
    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
