//! Captures that go through a pipe: a standard stream, which is called `-`, or a fifo.
//!
//! A thread reads the capture as it comes, so that no other thread waits for the pipe's other end. It stops reading
//! while [`FRAMES_MAX`] frames wait to be taken. A stream is read once.

use super::format::displayed;
use super::format::{PcapError, PcapOptions, PcapReader, PcapWriter, Record};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use wharf_sys::file::reopen_pipe;

/// Most frames that wait to be taken.
const FRAMES_MAX: usize = 1024;
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// True if `path` is `-`, which stands for standard input or output, or names a fifo.
pub fn is_stream(path: &Path) -> bool {
    is_standard(path) || fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// True if `path` is `-`.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Makes a writer into standard output or a fifo; opening a fifo waits for its reader.
///
/// # Errors
/// [`PcapError`].
pub fn create_stream(path: &Path, options: PcapOptions) -> Result<PcapWriter, PcapError> {
    let (name, file) = match is_standard(path) {
        true => ("standard output".into(), duplicate(&io::stdout())),
        false => (path.to_string_lossy(), OpenOptions::new().write(true).open(path)),
    };
    let file = file.map_err(|cause| PcapError::Open { file: displayed(&name), cause })?;
    PcapWriter::new(file, &name, options)
}

/// Makes `writer` fail with `WouldBlock` in place of waiting for a pipe's reader. It waits as before if that cannot be: for
/// a socket or a terminal, or the pipe of another user.
pub(super) fn write_without_waiting(writer: &mut PcapWriter) {
    if let Ok(Some(pipe)) = reopen_pipe(writer.sink_mut().as_fd()) {
        *writer.sink_mut() = pipe;
    }
}

/// Opens the file of `stream` once more: bytes then bypass the buffer of the standard library.
fn duplicate(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// One frame of a stream.
#[derive(Debug)]
pub struct StreamFrame {
    /// Its record.
    pub record: Record,
    /// Its captured bytes.
    pub bytes: Vec<u8>,
    /// Offset of the record in the stream.
    pub offset_bytes: u64,
}

/// A capture that a thread reads from a pipe.
pub struct PcapStream {
    name: String,
    shared: Arc<Shared>,
    /// Frames that were taken from the thread.
    ready: VecDeque<StreamFrame>,
    /// Buffers for the thread.
    spare: Vec<Vec<u8>>,
    has_ended: bool,
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
    spare: Vec<Vec<u8>>,
    has_ended: bool,
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
    /// Opens standard input or a fifo, reads the capture's header and starts the thread. Waits for the header.
    ///
    /// # Errors
    /// [`PcapError`].
    pub fn open(path: &Path) -> Result<Self, PcapError> {
        let (name, file) = match is_standard(path) {
            true => ("standard input".into(), duplicate(&io::stdin())),
            false => (path.to_string_lossy(), File::open(path)),
        };
        let cannot_open = |cause| PcapError::Open { file: displayed(&name), cause };
        let file = file.map_err(cannot_open)?;
        let reader = PcapReader::new(BufReader::with_capacity(READ_BUFFER_BYTES, file), &name)?;
        let (name, shared) = (reader.name().to_string(), Arc::new(Shared::default()));
        let of_thread = shared.clone();
        let read = move || of_thread.read(reader);
        Builder::new().name("wharf-pcap".into()).spawn(read).map_err(cannot_open)?;
        Ok(Self { name, shared, ready: VecDeque::new(), spare: Vec::new(), has_ended: false })
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
        self.spare.push(buffer);
    }

    /// True if all frames have been taken.
    pub fn has_ended(&self) -> bool {
        self.has_ended && self.ready.is_empty()
    }

    fn fetch(&mut self, wait: Duration) -> Result<(), PcapError> {
        let mut queue = self.shared.lock();
        if queue.frames.is_empty() && !queue.has_ended && !wait.is_zero() {
            let waited = self.shared.has_read.wait_timeout(queue, wait);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut queue.frames, &mut self.ready);
        queue.spare.append(&mut self.spare);
        self.has_ended = queue.has_ended && self.ready.is_empty();
        let error = if self.has_ended { queue.error.take() } else { None };
        drop(queue);
        self.shared.has_room.notify_one();
        error.map_or(Ok(()), Err)
    }
}

impl Drop for PcapStream {
    fn drop(&mut self) {
        self.shared.lock().is_left = true;
        self.shared.has_room.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads to the end of the stream, or until its frames are not wanted any more.
    fn read(&self, mut reader: PcapReader) {
        loop {
            let mut bytes = self.lock().spare.pop().unwrap_or_default();
            let read = reader.next(&mut bytes);
            let mut queue = self.lock();
            match read {
                Ok(Some(record)) => {
                    let offset_bytes = reader.record_offset_bytes();
                    queue.frames.push_back(StreamFrame { record, bytes, offset_bytes });
                }
                ended => (queue.has_ended, queue.error) = (true, ended.err()),
            }
            self.has_read.notify_one();
            while queue.frames.len() >= FRAMES_MAX && !queue.is_left {
                queue = self.has_room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.has_ended || queue.is_left {
                return;
            }
        }
    }
}
