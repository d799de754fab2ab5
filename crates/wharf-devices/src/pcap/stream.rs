//! Captures that a thread reads ahead: a standard stream, which is called `-`, a fifo, or a file.
//!
//! The thread reads the capture as it comes, so that no other thread waits for a disk or a pipe's other end.
//! It stops reading while [`FRAMES_MAX`] frames, or [`WAITING_BYTES_MAX`], wait to be taken. A pipe is read
//! once, a file as often as is asked for.

use super::Skipped;
use super::format::{Framing, PcapError, PcapReader, Record, open_regular};
use super::pipe::{is_stream, open_pipe};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use wharf_mem::lock;

/// Most frames that wait to be taken.
const FRAMES_MAX: usize = 1024;
/// Frames that wait, at which the thread wakes their taker, though it has more to read without waiting.
const WAKE_FRAMES: usize = 64;
/// Bytes of their buffers from which on none is read until some are taken.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// A longer buffer is not used again: in time, each would become as long as the longest frame.
const BUFFER_BYTES_MAX: usize = 16 << 10;
const READ_BUFFER_BYTES: usize = 256 * 1024;
/// Records that are skipped in a row before their count is told.
const SKIPPED_MAX: u64 = 4096;

/// One frame of a stream.
#[derive(Debug)]
pub struct StreamFrame {
    /// Its record.
    pub record: Record,
    /// Its captured bytes.
    pub bytes: Vec<u8>,
    /// Offset of the record in the stream.
    pub offset_bytes: u64,
    /// True for the first frame of each round but the first one.
    pub begins_round: bool,
}

/// A capture that a thread reads.
pub struct PcapStream {
    name: String,
    shared: Arc<Shared>,
    /// Frames that were taken from the thread.
    ready: VecDeque<StreamFrame>,
    /// Buffers for the thread.
    spare: Vec<Vec<u8>>,
    skipped: Skipped,
    has_ended: bool,
}

/// The file. A read may wait for a disk or a pipe's other end: before it, the taker has what came before.
struct Capture {
    file: File,
    shared: Arc<Shared>,
}

impl Read for Capture {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.shared.wake_taker(self.shared.lock(), 1);
        self.file.read(bytes)
    }
}

impl Seek for Capture {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The thread has read something, or has ended.
    has_read: Condvar,
    /// There is room.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<StreamFrame>,
    /// Bytes of their buffers.
    waiting_bytes: usize,
    spare: Vec<Vec<u8>>,
    skipped: Skipped,
    has_ended: bool,
    /// The taker waits for `has_read`.
    is_awaited: bool,
    /// The first, if there are several.
    error: Option<PcapError>,
    /// The reader of this queue has gone.
    is_left: bool,
}

impl std::fmt::Debug for PcapStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PcapStream({}, {} frames ready)", self.name, self.ready.len())
    }
}

impl PcapStream {
    /// Opens the capture, reads its header and starts the thread, which reads a file `rounds` times. Waits
    /// for the header of standard input or a fifo.
    ///
    /// # Errors
    /// [`PcapError`].
    pub fn open(path: &Path, rounds: u64, how: Framing) -> Result<Self, PcapError> {
        let ((file, name), rounds) = match is_stream(path) {
            true => (open_pipe(path)?, 1),
            false => ((open_regular(path)?, path.to_string_lossy().into()), rounds),
        };
        let shared = Arc::new(Shared::default());
        let capture = Capture { file, shared: shared.clone() };
        let reader = PcapReader::new(BufReader::with_capacity(READ_BUFFER_BYTES, capture), &name)?;
        let reader = reader.framing(how)?;
        let name = reader.name().to_string();
        let of_thread = shared.clone();
        let read = move || of_thread.read(reader, rounds);
        let started = Builder::new().name("wharf-pcap".into()).spawn(read);
        started.map_err(|cause| PcapError::Open { file: name.clone(), cause })?;
        let (ready, spare, skipped) = (VecDeque::new(), Vec::new(), Skipped::default());
        Ok(Self { name, shared, ready, spare, skipped, has_ended: false })
    }

    /// Returns the stream's name, as errors show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes the next frame. Waits for one for `wait` at most; `None` says that none has come yet, or none will
    /// ([`PcapStream::has_ended`]).
    ///
    /// # Errors
    /// [`PcapError`] behind the last good frame. The stream has then ended.
    pub fn take(&mut self, wait: Duration) -> Result<Option<StreamFrame>, PcapError> {
        if self.ready.is_empty() && !self.has_ended {
            self.fetch(wait)?;
        }
        Ok(self.ready.pop_front())
    }

    /// Gives a frame's buffer back, for another frame.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_BYTES_MAX {
            self.spare.push(buffer);
        }
    }

    /// Returns the records that were skipped since the last call: those that hold no frame, padded or not.
    pub fn take_skipped(&mut self) -> Skipped {
        std::mem::take(&mut self.skipped)
    }

    /// True if all frames have been taken.
    pub fn has_ended(&self) -> bool {
        self.has_ended && self.ready.is_empty()
    }

    fn fetch(&mut self, wait: Duration) -> Result<(), PcapError> {
        let mut queue = self.shared.lock();
        if queue.frames.is_empty() && !queue.has_ended && !wait.is_zero() {
            queue.is_awaited = true;
            let waited = self.shared.has_read.wait_timeout(queue, wait);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.is_awaited = false;
        }
        let was_full = queue.is_full();
        std::mem::swap(&mut queue.frames, &mut self.ready);
        queue.waiting_bytes = 0;
        self.skipped += std::mem::take(&mut queue.skipped);
        queue.spare.append(&mut self.spare);
        self.has_ended = queue.has_ended && self.ready.is_empty();
        let error = if self.has_ended { queue.error.take() } else { None };
        drop(queue);
        if was_full {
            self.shared.has_room.notify_one();
        }
        error.map_or(Ok(()), Err)
    }
}

/// Returns the reason to skip what was read, if it holds no frame, and would hold none if it were filled up.
fn reason_to_skip(read: &Result<Option<Record>, PcapError>, captured: usize) -> Option<&'static str> {
    let record = read.as_ref().ok()?.as_ref()?;
    record.misfit(captured as u32).filter(|_| record.misfit(record.wire_len).is_some())
}

impl Drop for PcapStream {
    fn drop(&mut self) {
        self.shared.lock().is_left = true;
        self.shared.has_room.notify_one();
    }
}

impl Queue {
    fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES_MAX || self.waiting_bytes >= WAITING_BYTES_MAX
    }

    /// Returns the buffer, which waits from now on, and puts a spare one in its place.
    fn swap_buffer(&mut self, buffer: &mut Vec<u8>) -> Vec<u8> {
        self.waiting_bytes += buffer.capacity();
        std::mem::replace(buffer, self.spare.pop().unwrap_or_default())
    }

    /// Keeps the error, if it is the first. Returns true if there is one.
    fn keep_error(&mut self, error: Option<PcapError>) -> bool {
        let is_error = error.is_some();
        self.error = self.error.take().or(error);
        is_error
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Waits for room. Returns false if the frames are not wanted any more.
    fn await_room(&self) -> bool {
        let is_held = |queue: &mut Queue| queue.is_full() && !queue.is_left;
        let queue = self.has_room.wait_while(self.lock(), is_held);
        !queue.unwrap_or_else(PoisonError::into_inner).is_left
    }

    /// Wakes the taker if it waits, and if `frames` wait for it. It can lock the queue as it wakes.
    fn wake_taker(&self, mut queue: MutexGuard<'_, Queue>, frames: usize) {
        let wakes = queue.is_awaited && queue.frames.len() >= frames;
        queue.is_awaited &= !wakes;
        drop(queue);
        if wakes {
            self.has_read.notify_one();
        }
    }

    /// Reads `rounds` times to the end, or until the frames are not wanted any more. A round without a frame
    /// is the last.
    fn read(&self, mut reader: PcapReader<BufReader<Capture>>, rounds: u64) {
        let (mut round, mut frames, mut passed) = (1, 0u64, 0u64);
        let (mut bytes, mut skipped) = (Vec::new(), Skipped::default());
        loop {
            let read = reader.next(&mut bytes);
            let reason = reason_to_skip(&read, bytes.len());
            if let Some(reason) = reason {
                passed += 1;
                if round == 1 {
                    skipped.count(reason);
                }
                if !passed.is_multiple_of(SKIPPED_MAX) {
                    continue;
                }
            }
            let is_end = !matches!(read, Ok(Some(_)));
            let is_last = is_end && (round >= rounds || frames == 0);
            // It reads the header, and reading locks the queue.
            let rewound = if is_end && !is_last { reader.rewind() } else { Ok(()) };
            let mut queue = self.lock();
            queue.skipped += std::mem::take(&mut skipped);
            match read {
                Ok(Some(_)) if reason.is_some() => {}
                Ok(Some(record)) => {
                    let begins_round = round > 1 && frames == 0;
                    let (bytes, offset_bytes) = (queue.swap_buffer(&mut bytes), reader.record_offset_bytes());
                    queue.frames.push_back(StreamFrame { record, bytes, offset_bytes, begins_round });
                    frames += 1;
                }
                ended => {
                    queue.keep_error(ended.err());
                    queue.has_ended = queue.keep_error(rewound.err()) || is_last;
                    (round, frames) = (round + 1, 0);
                }
            }
            let is_over = queue.has_ended || queue.is_left;
            let wake_at = if is_over || queue.is_full() || reason.is_some() { 0 } else { WAKE_FRAMES };
            self.wake_taker(queue, wake_at);
            if is_over || !self.await_room() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{PcapOptions, PcapWriter};
    use super::*;
    use std::time::Instant;

    const FRAME_BYTES: usize = 262_000;

    /// A pipe with a capture of `frames` long frames, and the thread that writes it.
    fn stream_of(frames: usize) -> PcapStream {
        let (from, to) = io::pipe().unwrap();
        let write = move || {
            let to = File::from(std::os::fd::OwnedFd::from(to));
            let mut to = PcapWriter::new(to, "test", PcapOptions::default()).unwrap();
            (0..frames).try_for_each(|_| to.write(0, [&[7; FRAME_BYTES][..]], FRAME_BYTES as u32)).unwrap();
        };
        std::thread::spawn(write);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
        PcapStream::open(Path::new(&path), 1, Framing::default()).unwrap()
    }

    #[test]
    fn long_frames_that_wait_take_a_bounded_memory_and_their_buffers_are_not_kept() {
        let mut stream = stream_of(100);
        let began = Instant::now();
        while !stream.shared.lock().is_full() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", stream.shared.lock().frames.len());
            std::thread::yield_now();
        }
        let most = WAITING_BYTES_MAX.div_ceil(FRAME_BYTES);
        assert_eq!(stream.shared.lock().frames.len(), most);
        let mut taken = 0;
        while !stream.has_ended() {
            let Some(frame) = stream.take(Duration::from_millis(20)).unwrap() else { continue };
            assert!(stream.ready.len() < most);
            stream.recycle(frame.bytes);
            taken += 1;
        }
        assert_eq!((taken, stream.spare.len()), (100, 0));
    }
}
