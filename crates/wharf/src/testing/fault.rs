//! `fault`: a wrapper around any device that makes it fail, seeded: the same seed, the same faults.
//!
//! Each fault happens by chance or at every n-th event ([`FaultSpec`]):
//!
//! | key | what happens | of |
//! |---|---|---|
//! | `error` | the frame comes back as failed, `injected`, and never reaches the device | frames taken |
//! | `short` | a call takes a part of its batch only, at least one frame | calls with two frames or more |
//! | `stall` | the device takes, completes and receives nothing for a while | calls with frames; receptions |
//! | `lost` | completions come without a notification: the call that fetched them gives none, and the device says that it need not be looked at again | calls that fetched any |
//! | `late` | a completion comes later, and those behind it with it | completions |
//! | `reorder` | up to eight later completions overtake one | completions |
//! | `alloc` | memory for a frame is refused | frames received; in the command, takes of a sender |
//! | `never` | a completion does not come: the frame stays in the device until that is closed, and fails as `lost` | completions |
//! | `freeze` | the device does nothing for a while, and does not say when it goes on | calls that took, completed or received any |
//! | `half` | a first part of the completions, or arrivals, comes at once; the device says nothing of the rest, which the next call finds | calls that fetched two or more |
//!
//! Each kind has a SplitMix64 generator of its own, and its n-th event always has the same fate. Which frames fail does not depend
//! on how they are grouped into calls, nor on other faults.
//!
//! A sender's allocation is not a call of the device: [`FaultSpec::failing_takes`] decides on it, where frames are taken.
//!
//! A stall is refusal: the device has notifications as ever, and says when it goes on. A freeze is silence: it begins after a call, with
//! that call's frames inside, and a watch over the device sees one that completes nothing.
//!
//! No frame is lost, doubled or reordered by a fault, and doorbells are rung as ever. Stalls and freezes end by time, and the call
//! after a stall is spared. [`Device::close`] ends all faults; [`Fault::reset`] ends those that last.

mod counts;
mod half;
mod later;
mod memory;
mod pause;
mod reset;
mod roll;
mod spec;

pub use counts::FaultCounts;
pub use spec::{Chance, FaultSpec};

use counts::Kind;
use half::HalfReceptions;
use later::{Later, nanoseconds};
use pause::Pause;
use reset::Reset;
use roll::Roll;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use wharf_core::delegate;
use wharf_core::device::{Completions, Device, DeviceError, LOST, Notify, RxDevice, Transmitted, TxDevice};
use wharf_core::host::Clock;
use wharf_core::pool::Cache;
use wharf_devices::host::ExactClock;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};

/// Distinguishes the stream of receptions that are cut from that of completions, and from those of senders.
const STREAM_OF_RECEPTIONS: u64 = 1 << 33;

/// A wrapper that makes a device fail as its specification says.
pub struct Fault<D> {
    inner: D,
    error: Roll,
    short: Roll,
    stall: Pause,
    freeze: Pause,
    alloc: Roll,
    half: HalfReceptions,
    later: Later,
    /// Leftover frames at the front of the next batch, whose fate is drawn already.
    spared: usize,
    /// Frames on their way to the device, which may take a part of them.
    part: Batch,
    rest: Batch,
    failed: VecDeque<(Frame, &'static str)>,
    /// Frames failed in a call with `more`: their doorbell is still to be rung.
    owes_doorbell: bool,
    /// Completions of the device.
    done: Completions,
    closed: bool,
    reset: Reset,
    counts: Arc<FaultCounts>,
}

impl<D: Device> std::fmt::Debug for Fault<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fault({}, {} injected)", self.inner.name(), self.counts.total())
    }
}

impl<D> Fault<D> {
    /// Wraps `inner` with the faults of `spec`.
    pub fn new(inner: D, spec: &FaultSpec) -> Self {
        let roll = |chance, kind| Roll::new(chance, spec.seed, kind as u64);
        let (clock, counts) = (Arc::new(ExactClock), Arc::new(FaultCounts::default()));
        let pause =
            |chance, kind, time| Pause::new(roll(chance, kind), kind, nanoseconds(time), clock.clone());
        Self {
            error: roll(spec.error, Kind::Error),
            short: roll(spec.short, Kind::Short),
            stall: pause(spec.stall, Kind::Stall, spec.stall_time),
            freeze: pause(spec.freeze, Kind::Freeze, spec.freeze_time),
            alloc: roll(spec.alloc, Kind::Alloc),
            half: HalfReceptions::new(Roll::new(spec.half, spec.seed, STREAM_OF_RECEPTIONS)),
            later: Later::new(spec, clock, counts.clone()),
            spared: 0,
            part: Batch::new(BATCH_FRAMES_MAX),
            rest: Batch::new(BATCH_FRAMES_MAX),
            failed: VecDeque::new(),
            owes_doorbell: false,
            done: Completions::new(BATCH_FRAMES_MAX),
            closed: false,
            reset: Reset::default(),
            inner,
            counts,
        }
    }

    /// Sets the clock for stalls, freezes and late completions; the host's exact one by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.stall.set_clock(clock.clone());
        self.freeze.set_clock(clock.clone());
        self.later.set_clock(clock);
        self
    }

    /// Returns the counts of injected faults. They may be read while the path has the device.
    pub fn counts(&self) -> Arc<FaultCounts> {
        self.counts.clone()
    }

    /// Returns the call that says that the device is opened anew: frames whose completion does not come fail as
    /// [`LOST`], and a stall or freeze is over. It happens when completions are next asked for. Any thread may call.
    pub fn reset(&self) -> Arc<dyn Fn() + Send + Sync> {
        let reset = self.reset.clone();
        Arc::new(move || reset.ask())
    }

    /// Ends the faults that last, and loses the frames whose completion does not come.
    fn begin_anew(&mut self) {
        self.stall.end();
        self.freeze.end();
        self.failed.extend(self.later.kept().map(|frame| (frame, LOST)));
    }

    /// True if the device does nothing now.
    fn stands_still(&self) -> bool {
        self.stall.is_on() || self.freeze.is_on()
    }

    fn held(&self) -> usize {
        self.failed.len() + self.later.held()
    }

    /// Returns the most of `offered` frames that this call takes, where there is `room`.
    fn most(&mut self, offered: usize, room: usize) -> usize {
        if offered < 2 || !self.short.is_on() || !self.short.happens() {
            return offered.min(room);
        }
        self.counts.add(Kind::Short, 1);
        room.min(self.short.up_to(offered as u64 - 1) as usize)
    }

    /// Moves up to `most` frames to `part`, except those that fail. Returns the number moved.
    fn sort_out(&mut self, batch: &mut Batch, most: usize) -> usize {
        let mut left = most;
        while left > 0 && !batch.is_empty() {
            // Leftovers of the last call have had their draw.
            let known = self.spared.min(left);
            let clear = if known > 0 { known } else { self.error.clear_of(left as u64) as usize };
            if clear > 0 {
                let moved = self.part.append(batch, clear);
                if known > 0 {
                    self.spared -= moved
                } else {
                    self.error.pass(moved as u64)
                }
                left -= moved;
                continue;
            }
            if self.error.happens()
                && let Some(frame) = batch.pop()
            {
                self.counts.add(Kind::Error, 1);
                self.failed.push_back((frame, FaultSpec::INJECTED));
                self.owes_doorbell = true;
                left -= 1;
            }
        }
        most - left
    }

    /// Puts leftovers of the device back to the front of `batch`.
    fn put_back(&mut self, batch: &mut Batch) {
        self.spared += self.part.len();
        if !self.part.is_empty() {
            self.rest.append(batch, usize::MAX);
            batch.append(&mut self.part, usize::MAX);
            batch.append(&mut self.rest, usize::MAX);
        }
    }

    /// Gives up to `budget` failed frames. Returns their number.
    fn give_failed(&mut self, budget: usize, into: &mut Completions) -> usize {
        let count = self.failed.len().min(budget);
        into.failed.extend(self.failed.drain(..count));
        count
    }
}

impl<D: TxDevice> Fault<D> {
    /// Fetches completions from the device, and gives those that are due.
    fn reap_later(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let fetched = self.inner.reap(BATCH_FRAMES_MAX, urgent, &mut self.done);
        self.failed.extend(self.done.failed.drain(..));
        self.later.take_in(&mut self.done.sent);
        self.later.give(budget, into);
        fetched
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Notify for Fault<D> {
    delegate!(inner: disarm, signals);

    fn arm(&mut self) -> bool {
        let is_quiet = self.inner.arm();
        let has_found_all = is_quiet && self.failed.is_empty() && !self.later.is_ready();
        self.stands_still() || self.half.hides_rest() || has_found_all
    }

    /// Returns none while notifications may be lost: a descriptor that the device makes readable cannot be unset.
    fn wait_fd(&self) -> Option<RawFd> {
        if self.later.is_off() && !self.freeze.can_begin() { self.inner.wait_fd() } else { None }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Device for Fault<D> {
    delegate!(inner: name, mode, mode_reason, facts, set_line, link, attach);

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.inner.visit(see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
        self.later.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        self.begin_anew();
        self.inner.close()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> TxDevice for Fault<D> {
    delegate!(inner: info);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if self.closed {
            return self.inner.transmit(batch, more);
        }
        if self.freeze.is_on() || (!batch.is_empty() && self.stall.begins_with(&self.counts)) {
            return Transmitted { doorbell: self.flush(), stopped: true };
        }
        let ring_frames = self.inner.info().ring_frames.map_or(usize::MAX, |frames| frames as usize);
        let offered = batch.len();
        let most = self.most(offered, ring_frames.saturating_sub(self.outstanding()));
        let is_short = most < offered;
        self.sort_out(batch, most);
        let done = self.inner.transmit(&mut self.part, more && !is_short);
        self.put_back(batch);
        let is_full = self.outstanding() >= ring_frames;
        let stopped = done.stopped || !batch.is_empty() || is_full;
        let doorbell = done.doorbell || ((!more || stopped) && self.flush());
        self.owes_doorbell &= !doorbell;
        if batch.len() < offered {
            self.freeze.begins_after(&self.counts);
        }
        Transmitted { doorbell, stopped }
    }

    fn flush(&mut self) -> bool {
        let owed = std::mem::take(&mut self.owes_doorbell);
        self.inner.flush() || owed
    }

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if self.reset.take() {
            self.begin_anew();
        }
        if self.stands_still() {
            return Ok(());
        }
        let before = into.len();
        let failed = self.give_failed(budget, into);
        let left = budget - failed;
        if self.closed {
            let held = self.later.give_all(left, into);
            return self.inner.reap(left - held, urgent, into);
        }
        let reaped = if self.later.is_off() {
            self.inner.reap(left, urgent, into)
        } else {
            self.reap_later(left, urgent, into)
        };
        if into.len() > before {
            self.freeze.begins_after(&self.counts);
        }
        reaped
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding() + self.held()
    }

    /// Returns `None` while the device is frozen: it does not know.
    fn next_completion_ns(&self) -> Option<u64> {
        if self.reset.is_asked() {
            return Some(0);
        }
        if self.freeze.is_on() {
            return None;
        }
        if let Some(left_ns) = self.stall.left_ns() {
            return Some(left_ns);
        }
        if !self.failed.is_empty() {
            return Some(0);
        }
        match (self.inner.next_completion_ns(), self.later.next_ns()) {
            (Some(inner_ns), Some(ours_ns)) => Some(inner_ns.min(ours_ns)),
            (inner_ns, ours_ns) => inner_ns.or(ours_ns),
        }
    }

    delegate!(inner: set_patience);
}

#[deny(clippy::missing_trait_methods)]
impl<D: RxDevice> RxDevice for Fault<D> {
    delegate!(inner: ended, reclaim, drops, queue_packets, thin);

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if self.stands_still() {
            return Ok(0);
        }
        let clear = self.alloc.clear_of(budget as u64) as usize;
        if clear == 0 && budget > 0 {
            if self.alloc.happens() {
                self.counts.add(Kind::Alloc, 1);
            }
            return Ok(0);
        }
        let most = self.half.most(clear);
        let received = self.inner.receive(cache, to, most)?;
        self.alloc.pass(received as u64);
        if received > 0 {
            self.half.note(received, most, &self.counts);
            self.stall.begins_with(&self.counts);
            self.freeze.begins_after(&self.counts);
        }
        Ok(received)
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        if self.freeze.is_on() || self.half.hides_rest() { None } else { self.inner.next_arrival_ns() }
    }
}
