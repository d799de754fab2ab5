//! The due times of one sender's frames, and the pauses after which they move on.
//!
//! Due times count from the start, so that one late frame delays no other, and a sender that is behind
//! catches up. But what a pause has left is not sent as one burst: a sender that could send nothing for more
//! than [`Drive::catch_up_ns`] makes up for as much, and its further frames are due later by the rest. A
//! device or processor that is too slow for the rate moves nothing: it takes a frame now and then.

use super::{Drive, Pace, Source};
use serde::Serialize;

/// Longest time without a frame sent that a sender makes up for by default, and the shortest that counts as a
/// pause.
pub const PAUSE_NS: u64 = 100_000_000;

/// The pauses of a sender: times longer than [`PAUSE_NS`], or [`Drive::catch_up_ns`] if that is shorter, in
/// which frames came to be due and none was sent, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pauses {
    /// The thread did not run: the process was stopped, or other work had its processor.
    pub process: Pause,
    /// It waited for room in the path, or for memory: the device took nothing.
    pub device: Pause,
    /// It waited for the frames of a stream.
    pub source: Pause,
}

/// The pauses of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Their number.
    pub count: u64,
    /// Their length in all.
    pub total_ns: u64,
    /// That of the longest.
    pub max_ns: u64,
}

impl Pauses {
    /// Returns each cause with its pauses.
    pub fn by_cause(&self) -> [(&'static str, Pause); 3] {
        [("process", self.process), ("device", self.device), ("source", self.source)]
    }

    /// Returns the length of all.
    pub fn total_ns(&self) -> u64 {
        self.by_cause().iter().map(|(_, pause)| pause.total_ns).sum()
    }
}

/// What a sender does between two frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// It means to go on by itself.
    Process,
    /// It hands frames over; it had waited for the path so many times before.
    Device { waits: u64 },
    /// It waits for the next frame to be there.
    Source,
}

/// Due times of the frames of a burst, and of the next frame.
#[derive(Debug)]
pub(super) struct Due {
    pace: Pace,
    /// Time at which a frame at the start of all is due, unless the source begins later.
    start_ns: u64,
    pub(super) times_ns: Vec<u64>,
    pub(super) next_ns: u64,
    /// See [`Drive`].
    catch_up_ns: u64,
    /// Time by which the schedule has moved.
    moved_ns: u64,
    /// The wait at hand, and the time from which on it is a pause.
    wait: (Between, u64),
    pauses: Pauses,
}

impl Due {
    /// Makes that of the bursts of `drive`.
    pub(super) fn new(drive: &Drive<'_>) -> Self {
        let Drive { pace, start_ns, catch_up_ns, .. } = *drive;
        let (times_ns, next_ns) = (Vec::with_capacity(drive.burst_packets.max(1)), start_ns);
        let (wait, pauses) = ((Between::Process, start_ns), Pauses::default());
        Self { pace, start_ns, times_ns, next_ns, catch_up_ns, moved_ns: 0, wait, pauses }
    }

    /// Begins a wait, which the sender means to end at `until_ns`.
    #[inline]
    pub(super) fn wait(&mut self, wait: Between, until_ns: u64) {
        // A source is asked again and again.
        if wait != Between::Source || self.wait.0 != wait {
            self.wait = (wait, until_ns);
        }
    }

    /// True if the source has no frame.
    pub(super) fn waits_for_source(&self) -> bool {
        matches!(self.wait.0, Between::Source)
    }

    /// Notes the due times of the frames due at `now_ns`, at most `most`. `waits` is the number of times that
    /// the sender has waited for the path.
    #[inline]
    pub(super) fn fill(&mut self, source: &impl Source, most: u64, now_ns: u64, waits: impl FnOnce() -> u64) {
        self.times_ns.clear();
        let (pace, start_ns) = (self.pace, self.start_ns.max(source.began_ns()));
        let due_ns = |ahead| start_ns.saturating_add(pace.due_ns(&source.position(ahead)));
        self.next_ns = due_ns(0).saturating_add(self.moved_ns);
        self.resume(now_ns, waits);
        for ahead in 0..most {
            self.next_ns = due_ns(ahead).saturating_add(self.moved_ns);
            if self.next_ns > now_ns {
                break;
            }
            self.times_ns.push(self.next_ns);
        }
    }

    /// Ends the wait, and moves the schedule if it was a pause.
    #[inline]
    pub(super) fn resume(&mut self, now_ns: u64, waits: impl FnOnce() -> u64) {
        let gap_ns = now_ns.saturating_sub(self.wait.1);
        let late_ns = now_ns.saturating_sub(self.next_ns);
        if gap_ns.min(late_ns) > self.catch_up_ns.min(PAUSE_NS) {
            self.pause(gap_ns, late_ns, waits());
        }
    }

    #[cold]
    fn pause(&mut self, gap_ns: u64, late_ns: u64, waits: u64) {
        let pause = match self.wait.0 {
            Between::Device { waits: before } if before != waits => &mut self.pauses.device,
            Between::Process | Between::Device { .. } => &mut self.pauses.process,
            Between::Source => &mut self.pauses.source,
        };
        // Before the next frame was due, the silence of a source is its own.
        let hole_ns = if self.wait.0 == Between::Source { gap_ns.min(late_ns) } else { gap_ns };
        let Pause { count, total_ns, max_ns } = *pause;
        *pause = Pause { count: count + 1, total_ns: total_ns + hole_ns, max_ns: max_ns.max(hole_ns) };
        // A frame may be later than the pause was long: of a capture whose time steps back, or at a rate that
        // is too high.
        let moved_ns = late_ns.saturating_sub(self.catch_up_ns).min(gap_ns);
        (self.moved_ns, self.next_ns) = (self.moved_ns + moved_ns, self.next_ns + moved_ns);
    }

    pub(super) fn pauses(&self) -> Pauses {
        self.pauses
    }
}
