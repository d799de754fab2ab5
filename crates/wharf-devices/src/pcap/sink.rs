//! `PcapSink`: writes every frame into a capture.

use super::format::{ErrorOnce, Fault, PcapError, PcapOptions, PcapWriter};
use super::pipe::{create_stream, end_stream, is_stream, would_block, write_without_waiting};
use super::{EMPTY, device_error, device_name};
use crate::host::WallClock;
use crate::iface::TxBook;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_core::host::Clock;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::clock::monotonic_ns;

/// Frames held between two reaps.
const RING_FRAMES: usize = BATCH_FRAMES_MAX;
/// Reason of frames that the reader had not taken by then.
const READER_STALLED: &str = "reader-stalled";

/// The writing device. A frame is complete when it is in the writer's buffer, of 64 KiB, which is written when
/// it is full, or after a second. A later error of the system fails the frames that come after it, and
/// [`Device::close`], which counts those of the buffer as undelivered.
///
/// A frame for a pipe ([`is_stream`]) is complete when the pipe has it. While the reader takes nothing, the device is one that
/// completes nothing: senders wait, and no thread does.
///
/// It does not segment super-packets or fill in checksums: a capture shows packets as they are on a wire.
pub struct PcapSink<W: Write = File> {
    name: String,
    /// `None` once closed.
    writer: Option<PcapWriter<W>>,
    clock: Arc<dyn Clock>,
    region: Option<Arc<Region>>,
    owes_doorbell: bool,
    /// The reader of the file waits for it: a doorbell writes what has been gathered.
    is_stream: bool,
    /// The reader had no room for all of it.
    is_blocked: bool,
    book: TxBook,
    /// For the next reap.
    error: ErrorOnce<DeviceError>,
}

impl<W: Write> std::fmt::Debug for PcapSink<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PcapSink({}, {} frames held)", self.name, self.book.len())
    }
}

impl PcapSink {
    /// Creates the file, or empties the one that is there. Into a stream ([`is_stream`]) frames are written as they come.
    ///
    /// # Errors
    /// [`DeviceError::Io`], and [`DeviceError::Unsupported`] when the path names anything but a file.
    pub fn create(path: &Path, options: PcapOptions) -> Result<Self, DeviceError> {
        let name = device_name(path);
        let is_stream = is_stream(path);
        let create = if is_stream { create_stream } else { PcapWriter::create };
        let mut writer = create(path, options).map_err(|error| device_error(&name, error))?;
        if is_stream {
            write_without_waiting(&mut writer);
        }
        Ok(Self { is_stream, ..Self::with(name, writer) })
    }
}

impl<W: Write> PcapSink<W> {
    /// Makes a device that writes to an empty `sink`; `name` stands for the file's in messages.
    ///
    /// # Errors
    /// [`DeviceError::Io`] when the capture's header cannot be written.
    pub fn over(sink: W, name: &str, options: PcapOptions) -> Result<Self, DeviceError> {
        let device = device_name(Path::new(name));
        let writer = PcapWriter::new(sink, name, options).map_err(|error| device_error(&device, error))?;
        Ok(Self::with(device, writer))
    }

    fn with(name: String, writer: PcapWriter<W>) -> Self {
        Self {
            name,
            writer: Some(writer),
            clock: Arc::new(WallClock),
            region: None,
            owes_doorbell: false,
            is_stream: false,
            is_blocked: false,
            book: TxBook::new(0),
            error: ErrorOnce::None,
        }
    }

    /// Sets the clock for frames without a time stamp, counting from 1970; the wall clock by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    fn room(&self) -> usize {
        if self.writer.is_none() || self.is_blocked { 0 } else { RING_FRAMES - self.book.len() }
    }

    /// Writes what has been gathered for a stream, as far as its reader has room.
    fn push(&mut self) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.is_stream) else { return };
        let pushed = writer.flush();
        self.is_blocked = pushed.as_ref().is_err_and(would_block);
        if let (Err(error), false) = (pushed, self.is_blocked) {
            self.note(error);
        }
    }

    /// Writes what has waited for a second.
    fn push_late(&mut self) {
        let Some(writer) = self.writer.as_mut().filter(|_| !self.is_stream) else { return };
        if let Err(error) = writer.flush_late(monotonic_ns()) {
            self.note(error);
        }
    }

    /// Makes room for a record. Returns false if the reader of a stream takes nothing.
    fn makes_room(&mut self) -> bool {
        if self.is_stream && self.writer.as_ref().is_some_and(PcapWriter::is_full) {
            self.push();
        }
        !self.is_blocked
    }

    /// Writes a frame that came at `now_ns`. Returns the reason if it cannot.
    fn write(&mut self, frame: &Frame, now_ns: u64) -> Result<(), &'static str> {
        let (Some(writer), Some(region)) = (&mut self.writer, &self.region) else {
            return Err("not-attached");
        };
        let (Ok(chunks), Ok(meta)) = (region.chunks(frame), region.meta(frame)) else {
            return Err("foreign-pool");
        };
        let time_ns = meta.stamp_ns().unwrap_or(now_ns);
        match writer.write(time_ns, chunks, frame.len_bytes()) {
            Ok(()) => {
                let trouble = writer.take_trouble();
                if matches!(self.error, ErrorOnce::Told) {
                    self.error = ErrorOnce::None;
                }
                trouble.into_iter().for_each(|error| _ = self.note(error));
                Ok(())
            }
            Err(error) => Err(self.note(error)),
        }
    }

    #[cold]
    fn note(&mut self, error: PcapError) -> &'static str {
        let reason = reason_of(&error);
        self.error.note(device_error(&self.name, error));
        reason
    }
}

fn reason_of(error: &PcapError) -> &'static str {
    match error {
        PcapError::Malformed { fault: Fault::RecordEmpty, .. } => EMPTY,
        PcapError::Malformed { fault: Fault::TimeTooLate { .. }, .. } => "bad-time",
        PcapError::Write { cause, .. } if cause.kind() == ErrorKind::BrokenPipe => "reader-gone",
        _ => "write-error",
    }
}

impl<W: Write + Send> Notify for PcapSink<W> {}

impl<W: Write + Send> Device for PcapSink<W> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    /// Writes what has waited for a second: an idle device is asked now and then. A file has no line.
    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.push_late();
        None
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.book.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let ended = if self.is_stream { end_stream(&mut writer) } else { writer.end() };
        let mut missing = writer.pending_records();
        if ended.as_ref().is_err_and(would_block) {
            missing -= self.book.fail_last(missing, READER_STALLED);
        }
        let Err(error) = ended else { return Ok(()) };
        let reason = reason_of(&error);
        Err(match device_error(&self.name, error) {
            DeviceError::Io { device, what, source } | DeviceError::Gone { device, what, source }
                if missing > 0 =>
            {
                let what = format!("{what}, without {missing} frames");
                DeviceError::Undelivered { device, what, counts: vec![(reason, missing)], source }
            }
            error => error,
        })
    }
}

impl<W: Write + Send> TxDevice for PcapSink<W> {
    fn info(&self) -> TxInfo {
        TxInfo {
            ring_frames: Some(RING_FRAMES as u32),
            completions: CompletionMode::Real,
            segments_max: u16::MAX,
            ..TxInfo::default()
        }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let now_ns = if batch.is_empty() { 0 } else { self.clock.now_ns() };
        if self.is_blocked {
            self.push();
        }
        for _ in 0..self.room() {
            if !self.makes_room() {
                break;
            }
            let Some(frame) = batch.pop() else { break };
            self.owes_doorbell = true;
            match self.write(&frame, now_ns) {
                Ok(()) => self.book.sent(frame),
                Err(reason) => self.book.fail([frame], reason),
            }
        }
        if now_ns > 0 {
            self.push_late();
        }
        let stopped = self.room() == 0;
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    fn flush(&mut self) -> bool {
        let owed = std::mem::take(&mut self.owes_doorbell);
        if owed {
            self.push();
        }
        owed
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if self.is_stream && self.writer.as_ref().is_some_and(PcapWriter::has_pending) {
            self.push();
        }
        if !self.is_blocked || self.writer.is_none() {
            self.book.reap(budget, into);
        }
        self.error.take().map_or(Ok(()), Err)
    }

    fn outstanding(&self) -> usize {
        self.book.len()
    }
}
