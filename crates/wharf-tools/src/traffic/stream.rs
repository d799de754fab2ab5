//! Replays of a capture that is read as it is sent, by one sender: of any size, in constant memory. A pipe
//! is sent once, a file as often as is asked for.

use super::capture::{no_pace, none_to_send};
use super::check::{InFlight, StreamCheck};
use super::timeline::{TimeFacts, Timeline};
use super::{Position, Reading, Skipped, Source};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use wharf_core::qdisc::Order;
use wharf_devices::pcap::format::PcapError;
use wharf_devices::pcap::{PcapStream, StreamFrame, is_stream};
use wharf_sys::clock::monotonic_ns;

/// Longest wait for a frame, so that a request to stop is soon seen.
const WAIT: Duration = Duration::from_millis(20);
/// Most frames that are looked at ahead: a burst.
const AHEAD: usize = 256;
/// Bytes of a frame's memory beside its data, for the message about one that is too long.
const BESIDE_BYTES: u32 = 512;

/// The counts of a stream, for another thread to read.
#[derive(Debug, Default, Clone)]
pub struct StreamCounts {
    /// Frames sent.
    pub frames: u64,
    /// Frames of these that were cut short when captured.
    pub snapped: u64,
    /// Records that can be no frame.
    pub skipped: Skipped,
    /// What the times are of all that has been read.
    pub facts: TimeFacts,
    /// The error behind the last good frame.
    pub error: Option<String>,
}

/// The counts, shared with the sender's thread.
#[derive(Debug, Default, Clone)]
pub struct StreamState(Arc<Mutex<StreamCounts>>);

impl StreamState {
    /// Returns the counts as they stand.
    pub fn counts(&self) -> StreamCounts {
        self.lock().clone()
    }

    fn keep_error(&self, error: String) {
        self.lock().error.get_or_insert(error);
    }

    fn lock(&self) -> MutexGuard<'_, StreamCounts> {
        wharf_mem::lock(&self.0)
    }
}

/// Takes the name of a capture and what its times are, when its first long gap is read.
pub type OnGap = fn(&str, &TimeFacts);

/// A frame that has come, and its place in the stream.
#[derive(Debug)]
struct Ready {
    frame: StreamFrame,
    position: Position,
}

/// One sender's frames, from a stream.
#[derive(Debug)]
pub struct StreamReplay {
    stream: PcapStream,
    ready: VecDeque<Ready>,
    longest_bytes: u32,
    /// Position of the next frame that comes.
    next: Position,
    timeline: Timeline,
    /// Rounds that have ended, and whether the next frame begins one.
    rounds: u64,
    begins_round: bool,
    /// Time at which the first frame came.
    came_ns: Option<u64>,
    on_gap: Option<OnGap>,
    /// It goes by its times.
    is_timed: bool,
    is_file: bool,
    /// Frames that may still be sent.
    left: u64,
    has_ended: bool,
    state: StreamState,
    in_flight: InFlight,
}

impl StreamReplay {
    /// Opens the capture at `path`, which is read `rounds` times if it is a file, and reads its header. A frame of more than
    /// `longest_bytes` ends it with an error.
    ///
    /// # Errors
    /// [`PcapError`].
    pub fn open(path: &Path, rounds: u64, longest_bytes: u32, how: &Reading) -> Result<Self, PcapError> {
        Ok(Self {
            stream: PcapStream::open(path, rounds, how.framing)?,
            ready: VecDeque::with_capacity(AHEAD),
            longest_bytes,
            next: Position::default(),
            timeline: Timeline::new(how),
            rounds: 0,
            begins_round: false,
            came_ns: None,
            on_gap: None,
            is_timed: false,
            is_file: !is_stream(path),
            left: u64::MAX,
            has_ended: false,
            state: StreamState::default(),
            in_flight: InFlight::default(),
        })
    }

    /// Makes it end after `packets` frames.
    #[must_use]
    pub fn ending_after(self, packets: u64) -> Self {
        Self { left: packets, ..self }
    }

    /// Says that it goes by its times. Calls `on_gap` at the first long gap, and ends with an error before a
    /// second round of frames that all have one time.
    #[must_use]
    pub fn by_time(self, on_gap: OnGap) -> Self {
        Self { on_gap: Some(on_gap), is_timed: true, ..self }
    }

    /// Returns the stream's name, as errors show it.
    pub fn name(&self) -> &str {
        self.stream.name()
    }

    /// Returns its counts, to be read while it is sent.
    pub fn state(&self) -> StreamState {
        self.state.clone()
    }

    /// Returns the check of its frames at the other end of a queue that keeps `order`. Until it is dropped,
    /// each frame is kept until it arrives, or until `frames_max` later ones have been sent: it then counts
    /// as lost.
    pub fn check(&self, order: Order, frames_max: usize) -> StreamCheck {
        self.in_flight.keep(order, frames_max)
    }

    /// Takes the frames that have come. Waits for the first.
    fn fetch(&mut self) {
        // Records of no bytes may come for ever: a request to stop is seen between two calls.
        for _ in 0..AHEAD {
            if self.ready.len() >= AHEAD || self.has_ended {
                break;
            }
            let wait = if self.ready.is_empty() { WAIT } else { Duration::ZERO };
            match self.stream.take(wait) {
                Ok(Some(frame)) => self.add(frame),
                Ok(None) => {
                    self.has_ended = self.stream.has_ended();
                    break;
                }
                Err(error) => self.end(error.to_string()),
            }
        }
        let facts = self.timeline.facts();
        let mut counts = self.state.lock();
        counts.skipped += self.stream.take_skipped();
        counts.facts = facts;
        let (records, is_empty) = (counts.skipped.total(), self.has_ended && self.next.packets == 0);
        drop(counts);
        if self.is_file && is_empty {
            let name = self.name();
            self.state.keep_error(none_to_send(name, records));
        }
        if let Some(on_gap) = self.on_gap.take_if(|_| facts.long_gaps > 0) {
            on_gap(self.name(), &facts);
        }
    }

    fn add(&mut self, frame: StreamFrame) {
        let len_bytes = frame.bytes.len() as u32;
        self.begins_round |= frame.begins_round;
        self.rounds += u64::from(frame.begins_round);
        match frame.record.misfit(len_bytes) {
            Some(_) if self.rounds > 0 => return,
            Some(reason) => return self.state.lock().skipped.count(reason),
            None if len_bytes > self.longest_bytes => return self.end(self.too_long(&frame)),
            None => {}
        }
        let begins_round = std::mem::take(&mut self.begins_round);
        if begins_round && self.timeline.end_round() == 0 && self.is_timed {
            return self.end(no_pace(self.name()));
        }
        self.came_ns.get_or_insert_with(monotonic_ns);
        self.next.time_ns = self.timeline.next(frame.record.ts_ns);
        self.ready.push_back(Ready { frame, position: self.next });
        self.next.packets += 1;
        self.next.bytes += u64::from(len_bytes);
    }

    #[cold]
    fn end(&mut self, error: String) {
        self.has_ended = true;
        self.state.keep_error(error);
    }

    #[cold]
    fn too_long(&self, frame: &StreamFrame) -> String {
        let (name, at, len) = (self.name(), frame.offset_bytes, frame.bytes.len() as u32);
        let enough = (len + BESIDE_BYTES).next_multiple_of(64);
        let room = self.longest_bytes;
        format!(
            "{name}: byte {at}: a frame of {len} bytes does not fit: memory is for {room}; --frame-bytes {enough} would do"
        )
    }
}

impl Source for StreamReplay {
    /// The frames that are ready, or one that may still come.
    #[inline]
    fn remaining(&self) -> u64 {
        let ready = if self.ready.is_empty() { u64::from(!self.has_ended) } else { self.ready.len() as u64 };
        ready.min(self.left)
    }

    fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    #[inline]
    fn len_bytes(&self) -> u32 {
        self.ready.front().map_or(0, |ready| ready.frame.bytes.len() as u32)
    }

    fn position(&self, ahead: u64) -> Position {
        usize::try_from(ahead)
            .ok()
            .and_then(|ahead| self.ready.get(ahead))
            .map_or(self.next, |ready| ready.position)
    }

    fn is_stamped(&self) -> bool {
        false
    }

    fn is_ready(&mut self) -> bool {
        if self.ready.is_empty() {
            self.fetch();
        }
        !self.ready.is_empty()
    }

    fn began_ns(&self) -> u64 {
        self.came_ns.unwrap_or(0)
    }

    fn write(&mut self, to: &mut [u8], _now_ns: u64) {
        let Some(Ready { frame, .. }) = self.ready.pop_front() else { return };
        self.left -= 1;
        to.copy_from_slice(&frame.bytes);
        self.in_flight.add(&frame.bytes);
        let mut counts = self.state.lock();
        counts.frames += 1;
        counts.snapped += u64::from(frame.record.wire_len as usize > frame.bytes.len());
        drop(counts);
        self.stream.recycle(frame.bytes);
    }
}
