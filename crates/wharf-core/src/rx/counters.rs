//! `RxCounters`: the counters of a receive queue, and those of its device, which only a poll may ask for.

use super::inbox::RECEIVER_GONE;
use super::whole::TOO_LONG;
use super::{RxQueue, RxShared};
use crate::counters::{self, Counter};
use crate::device::{RxDevice, Signals};
use crate::metrics::{Measured, Row, Walk, table};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use wharf_mem::lock;

table! {
    /// Counters of one receive queue, written by the thread that polls it.
    pub struct RxCounters, "wharf_receiver_" {
        /// Frames received.
        received: Counter "packets",
        /// Bytes of those frames.
        bytes: Counter "bytes",
        /// Polls of the device.
        polls: Counter "polls",
        /// Polls that spent their whole budget: there may be more.
        full_polls: Counter "polls",
        /// Polls that received nothing for want of memory.
        starved_polls: Counter "polls",
        /// Polls after which the handler or the receiver held packets that it had no room for.
        held_polls: Counter "polls",
    }
    beside {
        device: FromDevice,
        /// Frames dropped since they are chains, which the handler does not take.
        too_long: Counter,
        /// Frames that the handler or the receiver had left when the queue was closed.
        left: Counter,
    }
}

const DROPS: Row = Row::counter(
    "wharf_device_drops",
    "packets",
    "Frames dropped before they could be received, by reason, at the first poll after the last walk.",
);
const INTERRUPTS: Row =
    Row::counter("wharf_device_interrupts", "notifications", "Notifications received by the device.");
const KICKS: Row = Row::counter("wharf_device_kicks", "notifications", "Notifications sent by the device.");

/// Counters of the device as of its last poll that was asked for them: some cost a system call.
#[derive(Debug, Default)]
struct FromDevice {
    /// A walk has come since.
    is_wanted: AtomicBool,
    drops: Mutex<Vec<(&'static str, u64)>>,
    signals: Mutex<Option<Signals>>,
    last: OnceLock<LastCounts>,
}

/// The counts of a device as its queue was closed.
#[derive(Debug, Default)]
pub(super) struct LastCounts {
    /// See [`RxDevice::drops`].
    pub(super) drops: Vec<(&'static str, u64)>,
    /// See [`RxDevice::queue_packets`].
    pub(super) queue_packets: Vec<(u32, u64)>,
}

impl LastCounts {
    pub(super) fn add(&mut self, device: &mut dyn RxDevice) {
        device.drops(&mut |reason, count| self.drops.push((reason, count)));
        device.queue_packets(&mut |queue, packets| self.queue_packets.push((queue, packets)));
    }
}

impl RxCounters {
    /// Counts a poll: whether it spent its budget, its packets were all taken, and it lacked memory.
    pub(super) fn count_poll(&self, is_full: bool, is_through: bool, is_starved: bool) {
        self.polls.add(1);
        self.full_polls.add(u64::from(is_full));
        self.starved_polls.add(u64::from(is_starved));
        self.held_polls.add(u64::from(!is_through));
    }

    /// Counts frames that the device has received, `dropped` of which were too long.
    #[inline]
    pub(super) fn count(&self, received: u64, dropped: u64) {
        self.received.add(received.saturating_sub(dropped));
        if dropped > 0 {
            self.too_long.add(dropped);
        }
    }

    /// Counts frames that are freed as the queue is closed.
    pub(super) fn count_left(&self, count: usize) {
        self.left.add(count as u64);
    }

    /// Adds the frames dropped here to those that a device has dropped.
    pub(super) fn add_own_drops(&self, drops: &mut Vec<(&'static str, u64)>) {
        for (reason, count) in [(TOO_LONG, &self.too_long), (RECEIVER_GONE, &self.left)] {
            if count.get() > 0 {
                counters::add(drops, reason, count.get());
            }
        }
    }

    /// Notes the device's counters if a walk has asked for them; for the thread that polls it.
    #[inline]
    pub(super) fn note_device(&self, device: &mut dyn RxDevice) {
        if self.device.is_wanted.load(Relaxed) {
            self.copy_device(device);
        }
    }

    /// Keeps the counts of a device that is about to be closed.
    pub(super) fn keep_last(&self, counts: LastCounts) {
        let _ = self.device.last.set(counts); // the first close was the last look
    }

    /// Returns the counts of the closed device; `None` before.
    pub(super) fn last(&self) -> Option<&LastCounts> {
        self.device.last.get()
    }

    #[cold]
    fn copy_device(&self, device: &mut dyn RxDevice) {
        self.device.is_wanted.store(false, Relaxed);
        let mut drops = Vec::new();
        device.drops(&mut |reason, count| drops.push((reason, count)));
        *lock(&self.device.drops) = drops;
        *lock(&self.device.signals) = device.signals();
    }
}

impl RxQueue {
    /// Shows the number of frames that were lost before a receiver or handler had them, by reason: those of
    /// the device (see [`RxDevice::drops`]), those that were too long, those without room in an inbox, and
    /// those that were left at the end.
    /// After [`RxQueue::close`] it shows the numbers of then. Waits for the end of a poll.
    pub fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        let mut all = self.device_drops();
        self.add_own_drops(&mut all);
        all.into_iter().for_each(|(reason, count)| see(reason, count));
    }

    /// Returns those of the device, ever since it was opened; `None` while a poll has a device that belongs to no
    /// transmit queue.
    #[doc(hidden)]
    pub fn try_device_drops(&self) -> Option<Vec<(&'static str, u64)>> {
        let is_free = self.shared.of.is_some() || self.shared.state.try_lock().is_ok();
        is_free.then(|| self.device_drops())
    }

    fn device_drops(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        match self.shared.counters.last() {
            Some(last) => all.extend_from_slice(&last.drops),
            None => {
                self.look_at_device(|device| device.drops(&mut |reason, count| all.push((reason, count))))
            }
        }
        all
    }

    /// Returns the frames received, those of them that wait for receivers, and those that were dropped since,
    /// by reason: a reason may come more than once.
    #[doc(hidden)]
    pub fn received_waiting_dropped(&self) -> (u64, u64, Vec<(&'static str, u64)>) {
        let (mut taken, mut drops) = (0, vec![(RECEIVER_GONE, self.shared.counters.left.get())]);
        let inboxes = self.shared.inboxes.get();
        for inbox in inboxes.into_iter().flatten() {
            let inbox = lock(inbox);
            taken += inbox.taken();
            inbox.drops(&mut |reason, count| drops.push((reason, count)));
        }
        let dropped: u64 = drops.iter().map(|(_, count)| count).sum();
        // In this order: what comes meanwhile waits. A handler does not say what it has taken.
        let received = self.received();
        let waiting = inboxes.map_or(0, |_| received.saturating_sub(taken + dropped));
        (received, waiting, drops)
    }

    /// Returns the frames that were dropped before they counted as received, as too long.
    #[doc(hidden)]
    pub fn too_long(&self) -> u64 {
        self.shared.counters.too_long.get()
    }

    /// True if its counts change no more: no receiver that lives has packets to take.
    #[doc(hidden)]
    pub fn is_settled(&self) -> bool {
        self.has_ended()
            && self.shared.inboxes.get().into_iter().flatten().all(|inbox| lock(inbox).is_closed())
    }

    fn add_own_drops(&self, all: &mut Vec<(&'static str, u64)>) {
        self.shared.counters.add_own_drops(all);
        for inbox in self.shared.inboxes.get().into_iter().flatten() {
            lock(inbox).drops(&mut |reason, count| counters::add(all, reason, count));
        }
    }

    /// Shows the packets that came by each receive queue of the interface, by the queue's number: see
    /// [`RxDevice::queue_packets`]. After [`RxQueue::close`] it shows the numbers of then. Waits for the end
    /// of a poll.
    pub fn queue_packets(&self, see: &mut dyn FnMut(u32, u64)) {
        match self.shared.counters.last() {
            Some(last) => last.queue_packets.iter().for_each(|&(queue, packets)| see(queue, packets)),
            None => self.look_at_device(|device| device.queue_packets(see)),
        }
    }
}

impl Measured for RxShared {
    fn measure(&self, walk: &mut Walk<'_>) {
        let mut drops = self.measure_device(walk);
        self.counters.add_own_drops(&mut drops);
        self.measure_own(&drops, walk);
    }
}

impl RxQueue {
    /// Shows the metrics of the queue, without those of its device, which may outlive it.
    #[doc(hidden)]
    pub fn measure_own(&self, walk: &mut Walk<'_>) {
        let mut drops = Vec::new();
        self.shared.counters.add_own_drops(&mut drops);
        self.shared.measure_own(&drops, walk);
    }

    /// Shows those of its device.
    #[doc(hidden)]
    pub fn measure_device(&self, walk: &mut Walk<'_>) {
        let drops = self.shared.measure_device(walk);
        walk.with("queue", &self.shared.device.name).by_reason(DROPS, &drops);
    }
}

impl RxShared {
    /// Shows the notifications of the device. Returns its drops.
    fn measure_device(&self, walk: &mut Walk<'_>) -> Vec<(&'static str, u64)> {
        let walk = &mut walk.with("queue", &self.device.name);
        let FromDevice { is_wanted, drops, signals, last } = &self.counters.device;
        is_wanted.store(true, Relaxed);
        // A walk calls the program, which may use the queue: no lock is held.
        let signals = *lock(signals);
        if let Some(Signals { interrupts, kicks }) = signals {
            walk.show(INTERRUPTS, interrupts);
            walk.show(KICKS, kicks);
        }
        last.get().map_or_else(|| lock(drops).clone(), |last| last.drops.clone())
    }

    fn measure_own(&self, drops: &[(&'static str, u64)], walk: &mut Walk<'_>) {
        let walk = &mut walk.with("queue", &self.device.name);
        self.counters.each(walk);
        walk.by_reason(DROPS, drops);
        for (number, inbox) in self.inboxes.get().into_iter().flatten().enumerate() {
            let show = lock(inbox).measured();
            show(&mut walk.with("receiver", &number.to_string()));
        }
    }
}
