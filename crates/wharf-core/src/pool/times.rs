//! The times between which a packet is to leave.

use super::{Packet, PacketMut};
use crate::host::HostClock;
use std::time::Instant;
use wharf_mem::{Frame, Meta, Region, Times};

impl Packet {
    /// Sets the earliest time of departure, in nanoseconds of the queue's clock: of a port's,
    /// [`HostClock`](crate::host::HostClock), which is `CLOCK_MONOTONIC`. The discipline
    /// [`Edt`](crate::qdisc::Edt) holds the packet until then; others send it in its turn. 0 is none.
    ///
    /// ```
    /// # mod wharf { pub use wharf_core::{host as queue, pool::PagePool}; }
    /// use std::time::{Duration, Instant};
    /// use wharf::PagePool;
    /// use wharf::queue::{Clock, HostClock};
    ///
    /// let pool = PagePool::builder().frames(16).huge_pages(false).build()?;
    /// let mut packet = pool.packet(60)?;
    /// packet.depart_at_ns(HostClock.exact_ns() + 1_000_000); // in a millisecond
    /// packet.expire_at(Instant::now() + Duration::from_millis(5));
    /// # Ok::<(), wharf_core::pool::PoolError>(())
    /// ```
    pub fn depart_at_ns(&mut self, at_ns: u64) {
        let (pool, frame) = self.parts();
        change(pool.region(), frame, |times| times.depart_ns = at_ns);
    }

    /// Works like [`Packet::depart_at_ns`], for a queue by the host's clock.
    pub fn depart_at(&mut self, at: Instant) {
        self.depart_at_ns(HostClock::ns_of(at));
    }

    /// Works like [`Packet::expire_at_ns`], for a queue by the host's clock.
    pub fn expire_at(&mut self, at: Instant) {
        self.expire_at_ns(HostClock::ns_of(at));
    }

    /// Sets the time from which on the packet is of no use, by the same clock: [`Edt`](crate::qdisc::Edt)
    /// then drops it when its turn comes. 0 is none.
    pub fn expire_at_ns(&mut self, at_ns: u64) {
        let (pool, frame) = self.parts();
        change(pool.region(), frame, |times| times.expire_ns = at_ns);
    }
}

impl PacketMut<'_> {
    /// Sets the earliest time of departure: see [`Packet::depart_at_ns`].
    pub fn depart_at_ns(&mut self, at_ns: u64) {
        change(self.region, self.frame, |times| times.depart_ns = at_ns);
    }

    /// Sets the earliest time of departure: see [`Packet::depart_at`].
    pub fn depart_at(&mut self, at: Instant) {
        self.depart_at_ns(HostClock::ns_of(at));
    }

    /// Sets the time from which on it is of no use: see [`Packet::expire_at`].
    pub fn expire_at(&mut self, at: Instant) {
        self.expire_at_ns(HostClock::ns_of(at));
    }

    /// Sets the time from which on it is of no use: see [`Packet::expire_at_ns`].
    pub fn expire_at_ns(&mut self, at_ns: u64) {
        change(self.region, self.frame, |times| times.expire_ns = at_ns);
    }
}

// A frame of another pool, which only a faulty device puts into a burst, stays as it is.
fn change(region: &Region, frame: &mut Frame, change: impl FnOnce(&mut Times)) {
    let mut times = region.times(frame).unwrap_or_default();
    change(&mut times);
    let _ = region.set_times(frame, times);
}

/// Sets the metadata and keeps the times.
pub(super) fn set_meta(region: &Region, frame: &mut Frame, meta: &Meta) {
    // Fails for a frame of another pool alone.
    let _ = keeping_times(region, frame, |frame| region.set_meta(frame, meta));
}

/// Calls `change`, which may replace the metadata, and keeps the times.
pub(super) fn keeping_times<R>(
    region: &Region, frame: &mut Frame, change: impl FnOnce(&mut Frame) -> R,
) -> R {
    let times = region.times(frame).unwrap_or_default();
    let changed = change(frame);
    if times != Times::default() {
        let _ = region.set_times(frame, times);
    }
    changed
}
