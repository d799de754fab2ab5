//! Sends a source's frames at a pace.

use super::due::{Between, Due};
use super::{PAUSE_NS, Pace, Pauses, Schedule, Source};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use wharf_core::pool::Burst;
use wharf_core::sender::{SendError, Sender, Spread};
use wharf_core::wait::Wait;
use wharf_sys::clock::monotonic_ns;
use wharf_sys::timer::precise_sleeps;

/// Longest sleep before a frame is due, so that a request to stop is soon seen.
const NAP_NS_MAX: u64 = 20_000_000;
/// A sleep ends this long before a frame is due, if the thread then watches the clock: longer than an idle processor takes to wake up,
/// even in a virtual machine.
const WATCH_NS: u64 = 100_000;

/// After this many injected failures in a row the sender sleeps: no frame that comes back ends an injected failure.
const REFUSALS: u32 = 2;
/// First sleep; each further one is twice as long, up to a bound.
const REFUSED_NAP_NS: u64 = 10_000;
const REFUSED_DOUBLINGS_MAX: u32 = 7;

/// A sender, with its behaviour on a full path.
pub trait Submit: Send {
    /// Returns the sender itself.
    fn sender(&mut self) -> &mut Sender;

    /// Sends the packets of `burst` and empties it.
    ///
    /// # Errors
    /// Those of [`Sender::send`].
    fn submit(&mut self, burst: &mut Burst) -> Result<(), SendError>;

    /// Fills `burst` as [`Sender::fill`] does, without waiting.
    ///
    /// # Errors
    /// Those of [`Sender::fill`].
    #[inline]
    fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, SendError> {
        self.sender().fill(burst, count, len_bytes, Wait::Never)
    }

    /// Waits until there is a free frame.
    ///
    /// # Errors
    /// Those of [`Sender::fill`].
    fn wait_for_memory(&mut self) -> Result<(), SendError> {
        self.sender().wait_for_memory(Wait::Forever).map(drop)
    }

    /// Returns the packets sent.
    fn packets(&mut self) -> u64 {
        self.sender().counters().packets.get()
    }

    /// Returns the number of times that it has waited for room or memory.
    fn waits(&mut self) -> u64 {
        self.sender().counters().waits.get()
    }
}

/// The time of a sending thread.
pub trait Time {
    /// Returns nanoseconds of the clock in which frames are due.
    fn now_ns(&self) -> u64;

    /// Sleeps for so long.
    fn sleep(&self, time: Duration);

    /// Makes timed sleeps precise.
    fn make_precise(&self) {}

    /// Called again and again while the thread watches the clock.
    fn spin(&self) {}
}

/// CLOCK_MONOTONIC, and sleeps of the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostTime;

impl Time for HostTime {
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn make_precise(&self) {
        precise_sleeps();
    }

    #[inline]
    fn spin(&self) {
        std::hint::spin_loop();
    }
}

/// Sends each flow by its queue, and waits where that is full.
impl Submit for Spread {
    fn sender(&mut self) -> &mut Sender {
        self.first()
    }

    fn submit(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        self.send(burst, Wait::Forever).map(drop)
    }

    fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, SendError> {
        Self::fill(self, burst, count, len_bytes, Wait::Never)
    }

    fn wait_for_memory(&mut self) -> Result<(), SendError> {
        Self::wait_for_memory(self, Wait::Forever).map(drop)
    }

    fn packets(&mut self) -> u64 {
        Self::packets(self)
    }

    fn waits(&mut self) -> u64 {
        Self::waits(self)
    }
}

/// Waits when the path is full, or drops packets that do not fit.
impl Submit for Sender {
    fn sender(&mut self) -> &mut Sender {
        self
    }

    #[inline]
    fn submit(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        Self::submit(self, burst, Wait::Forever).map(drop)
    }
}

/// Settings of a sending thread.
#[derive(Debug, Clone, Copy)]
pub struct Drive<'a> {
    /// Rate.
    pub pace: Pace,
    /// Time from which on frames are due, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Most frames handed over at a time.
    pub burst_packets: usize,
    /// True to watch the clock for the last tenth of a millisecond before a frame is due, which takes a whole processor at high rates. Else
    /// the thread sleeps until then, and is as late as the kernel wakes it.
    pub watches_clock: bool,
    /// After a pause, frames that came to be due within this time of its end leave at once, ns. A shorter
    /// time without a frame is no pause. The further ones are due later.
    pub catch_up_ns: u64,
    /// Schedule to note due times in.
    pub schedule: Option<&'a Schedule>,
    /// Ends it before the source does.
    pub stop: &'a AtomicBool,
}

/// The result of a sending thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Driven {
    /// Frames sent.
    pub packets: u64,
    /// Time at which the first was made, nanoseconds of CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Time at which the last had been handed over.
    pub last_ns: u64,
    /// Pauses at a pace.
    pub pauses: Pauses,
}

/// The decision to go on or to end.
#[derive(PartialEq, Eq)]
enum Going {
    On,
    Ended,
}

impl<'a> Drive<'a> {
    /// Sends as fast as the path takes frames.
    pub fn top_speed(burst_packets: usize, stop: &'a AtomicBool) -> Self {
        let (pace, watches_clock, catch_up_ns) = (Pace::Top, false, PAUSE_NS);
        Self { pace, start_ns: 0, burst_packets, watches_clock, catch_up_ns, schedule: None, stop }
    }

    /// Sends the frames of `source` to its end, until `stop`, or until the queue is shut down. Due times count from the start, so that late
    /// frames are caught up with; after a pause, no more than those of `catch_up_ns`. Unless the pace
    /// is top speed, the calling thread's timed sleeps become precise.
    ///
    /// # Errors
    /// [`SendError`]: the device died, or the frames do not fit the pool's.
    pub fn run<S: Source>(&self, by: &mut dyn Submit, source: &mut S) -> Result<Driven, SendError> {
        self.run_failing(by, source, || false)
    }

    /// Works like [`Drive::run`], with injected failures of takes from the pool: those for which `fails` is
    /// true.
    ///
    /// # Errors
    /// Those of [`Drive::run`].
    pub fn run_failing<S: Source>(
        &self, by: &mut dyn Submit, source: &mut S, fails: impl FnMut() -> bool,
    ) -> Result<Driven, SendError> {
        self.run_in(&HostTime, by, source, fails)
    }

    /// Works like [`Drive::run_failing`], in the time of `time`.
    ///
    /// # Errors
    /// Those of [`Drive::run`].
    pub fn run_in<S: Source>(
        &self, time: &impl Time, by: &mut dyn Submit, source: &mut S, mut fails: impl FnMut() -> bool,
    ) -> Result<Driven, SendError> {
        let mut burst = by.sender().burst(self.burst_packets.max(1));
        let mut due = Due::new(self);
        let mut driven = Driven { first_ns: time.now_ns(), ..Driven::default() };
        let mut refusals = 0;
        let is_paced = !self.pace.is_top();
        if is_paced {
            time.make_precise();
        }
        while !self.stop.load(Relaxed) && source.remaining() > 0 {
            let Some((count, now_ns)) = self.next(time, by, source, &mut due) else { continue };
            if driven.packets == 0 {
                driven.first_ns = time.now_ns();
            }
            if fails() {
                if going(by.wait_for_memory())? == Going::Ended {
                    break;
                }
                refusals = u32::saturating_add(refusals, 1);
                await_end_of_refusals(time, refusals);
                continue;
            }
            refusals = 0;
            if self.send(by, source, &mut burst, (count, &due), now_ns)? == Going::Ended {
                break;
            }
            // Frames for which the pool was empty are made in the next round, with the time of then.
            driven.packets = by.packets();
        }
        driven.last_ns = time.now_ns();
        // Of a stream that has ended, or gone quiet, no frame was due.
        if is_paced && !(self.pace.is_captured() && due.waits_for_source()) {
            due.resume(driven.last_ns, || by.waits());
        }
        Ok(Driven { pauses: due.pauses(), ..driven })
    }

    /// Waits for the next frame to be there, and to be due. Returns the number of frames that are due, and
    /// the time; `None` after a part of the wait.
    #[inline]
    fn next(
        &self, time: &impl Time, by: &mut dyn Submit, source: &mut impl Source, due: &mut Due,
    ) -> Option<(usize, u64)> {
        let is_paced = !self.pace.is_top();
        if !source.is_ready() {
            due.wait(Between::Source, if is_paced { time.now_ns() } else { 0 });
            return None;
        }
        let now_ns = if is_paced || source.is_stamped() { time.now_ns() } else { 0 };
        let count = self.look(by, source, due, now_ns);
        if count == 0 {
            due.wait(Between::Process, self.await_due(time, due.next_ns, now_ns));
            return None;
        }
        if is_paced {
            due.wait(Between::Device { waits: by.waits() }, now_ns);
        }
        Some((count, now_ns))
    }

    /// Returns the number of frames due at `now_ns`, at most a burst. At a pace, `due` has the time of each.
    #[inline]
    fn look(&self, by: &mut dyn Submit, source: &impl Source, due: &mut Due, now_ns: u64) -> usize {
        let most = source.remaining().min(self.burst_packets.max(1) as u64);
        if self.pace.is_top() {
            return most as usize;
        }
        due.fill(source, most, now_ns, || by.waits());
        due.times_ns.len()
    }

    /// Waits until `due_ns`, or for less, so that a request to stop is seen. Returns the time at which the
    /// wait was to end.
    fn await_due(&self, time: &impl Time, due_ns: u64, now_ns: u64) -> u64 {
        let wait_ns = due_ns.saturating_sub(now_ns);
        let watch_ns = if self.watches_clock { WATCH_NS } else { 0 };
        if wait_ns > watch_ns {
            let nap_ns = (wait_ns - watch_ns).min(NAP_NS_MAX);
            time.sleep(Duration::from_nanos(nap_ns));
            return now_ns + nap_ns;
        }
        while time.now_ns() < due_ns {
            time.spin();
        }
        due_ns
    }

    #[inline]
    fn send(
        &self, by: &mut dyn Submit, source: &mut impl Source, burst: &mut Burst, (count, due): (usize, &Due),
        now_ns: u64,
    ) -> Result<Going, SendError> {
        if by.fill(burst, count, source.longest_bytes())? == 0 {
            return going(by.wait_for_memory());
        }
        if let Some(schedule) = self.schedule {
            burst.frames().iter().zip(&due.times_ns).for_each(|(frame, &due_ns)| schedule.set(frame, due_ns));
        }
        write(burst, source, now_ns)?;
        going(by.submit(burst))
    }
}

/// Sleeps after `refused` injected failures in a row: there is memory.
#[cold]
fn await_end_of_refusals(time: &impl Time, refusals: u32) {
    if let Some(nap_ns) = refused_nap_ns(refusals) {
        time.sleep(Duration::from_nanos(nap_ns));
    }
}

fn refused_nap_ns(refusals: u32) -> Option<u64> {
    let doublings = refusals.checked_sub(REFUSALS)?;
    Some(REFUSED_NAP_NS << doublings.min(REFUSED_DOUBLINGS_MAX))
}

/// Writes the source's next frames over those of `burst`, which have the length of its longest.
#[inline]
fn write(burst: &mut Burst, source: &mut impl Source, now_ns: u64) -> Result<(), SendError> {
    let requests = source.requests();
    let written = if requests.is_none() { write_as_long(burst, source, now_ns) } else { 0 };
    if written == burst.len() {
        return Ok(());
    }
    for mut packet in burst.packets_mut().skip(written) {
        packet.set_len(source.len_bytes())?;
        source.write(packet.bytes_mut(), now_ns);
        if let Some(requests) = &requests {
            packet.set_meta(requests);
        }
    }
    Ok(())
}

/// Works like [`write`], up to the first frame that is shorter, and returns the number written. It leaves the frames' lengths alone,
/// so that facts known of the whole burst stay valid.
#[inline]
fn write_as_long(burst: &mut Burst, source: &mut impl Source, now_ns: u64) -> usize {
    let mut written = 0;
    // Internal iteration: the iterator's work is then inlined into the loop.
    let _ = burst.iter_mut().try_for_each(|bytes| {
        if bytes.len() != source.len_bytes() as usize {
            return ControlFlow::Break(());
        }
        source.write(bytes, now_ns);
        written += 1;
        ControlFlow::Continue(())
    });
    written
}

/// Treats a queue that was shut down as an ordinary end.
fn going(sent: Result<(), SendError>) -> Result<Going, SendError> {
    match sent {
        Ok(()) => Ok(Going::On),
        Err(SendError::Closed) => Ok(Going::Ended),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_take_is_repeated_at_once_and_further_ones_sleep() {
        assert_eq!(
            (refused_nap_ns(1), refused_nap_ns(2), refused_nap_ns(4)),
            (None, Some(10_000), Some(40_000))
        );
        assert_eq!(refused_nap_ns(u32::MAX), Some(1_280_000));
    }
}
