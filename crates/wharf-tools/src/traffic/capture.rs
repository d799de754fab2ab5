//! A whole capture in memory, so that a replay does not wait for a disk.

use std::path::Path;
use wharf_devices::pcap::format::{PcapError, PcapReader, Record};
use wharf_devices::pcap::{EMPTY, TOO_LONG, misfit};

/// The longest file that the command line loads, in bytes.
pub const CAPTURE_BYTES_MAX: u64 = 256 << 20;

/// The reason why a capture was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// See [`PcapError`].
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// Longer than the caller allows.
    #[error(
        "{file}: more than the {} MiB that a replay keeps in memory; `editcap -c 100000 IN OUT` cuts it into pieces",
        limit_bytes >> 20
    )]
    TooLarge {
        /// The file's name.
        file: String,
        /// The longest file allowed, bytes.
        limit_bytes: u64,
    },
    /// A capture without a packet.
    #[error("{file}: byte {offset_bytes}: the capture holds no packet")]
    Empty {
        /// The file's name.
        file: String,
        /// The byte at which it ends.
        offset_bytes: u64,
    },
    /// A capture of records that can be no frame.
    #[error("{file}: none of its {records} records can be sent: each is empty, or longer than any frame")]
    NoFrame {
        /// The file's name.
        file: String,
        /// Its records.
        records: u64,
    },
}

/// Frames of a capture, all in memory.
#[derive(Debug)]
pub struct Capture {
    name: String,
    bytes: Vec<u8>,
    /// Start of each frame in `bytes`, and the end of the last one.
    starts: Vec<u32>,
    /// Capture time of each frame, nanoseconds since 1970.
    times_ns: Vec<u64>,
    longest_bytes: u32,
    snapped: u64,
    skipped: Skipped,
    error: Option<PcapError>,
}

/// Records of a capture that can be no frame ([`misfit`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Records of length 0.
    pub empty: u64,
    /// Records longer than any frame.
    pub too_long: u64,
}

impl Skipped {
    /// Returns each reason with its count.
    pub fn by_reason(&self) -> [(&'static str, u64); 2] {
        [(EMPTY, self.empty), (TOO_LONG, self.too_long)]
    }

    /// Returns the count of all.
    pub fn total(&self) -> u64 {
        self.empty + self.too_long
    }
}

/// One frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// Its captured bytes.
    pub bytes: &'a [u8],
    /// Its capture time after the first frame's; 0 if time stepped back before that.
    pub time_ns: u64,
}

impl Capture {
    /// Reads a whole file of at most `limit_bytes`, and of at most 4 GiB. A file that is damaged, or ends
    /// within a record, is read up to there ([`Capture::error`]).
    ///
    /// # Errors
    /// [`CaptureError`]; for a damaged file if there is no frame before the damage.
    pub fn load(path: &Path, limit_bytes: u64) -> Result<Self, CaptureError> {
        let limit_bytes = limit_bytes.min(u32::MAX.into());
        let mut reader = PcapReader::open(path)?;
        let file = reader.name().to_string();
        let too_large = || CaptureError::TooLarge { file: file.clone(), limit_bytes };
        let file_bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        if file_bytes > limit_bytes {
            return Err(too_large());
        }
        let mut capture = Self::empty(file.clone(), file_bytes as usize);
        let mut frame = Vec::new();
        while let Some(record) = capture.keep_error(reader.next(&mut frame))? {
            // The file may have grown since its length was looked up.
            if reader.record_offset_bytes() + frame.len() as u64 > limit_bytes {
                return Err(too_large());
            }
            match misfit(frame.len() as u32) {
                None => capture.push(&frame, record.ts_ns, record.wire_len),
                Some(EMPTY) => capture.skipped.empty += 1,
                Some(_) => capture.skipped.too_long += 1,
            }
        }
        match (capture.len(), capture.skipped.total()) {
            (0, 0) => Err(CaptureError::Empty { file, offset_bytes: reader.record_offset_bytes() }),
            (0, records) => Err(CaptureError::NoFrame { file, records }),
            _ => Ok(capture),
        }
    }

    /// Ends the capture at an error, if there are frames before it.
    fn keep_error(&mut self, read: Result<Option<Record>, PcapError>) -> Result<Option<Record>, PcapError> {
        match read {
            Err(error) if !self.is_empty() => {
                self.error = Some(error);
                Ok(None)
            }
            read => read,
        }
    }

    fn empty(name: String, capacity_bytes: usize) -> Self {
        let bytes = Vec::with_capacity(capacity_bytes);
        let (starts, times_ns, skipped) = (vec![0], Vec::new(), Skipped::default());
        Self { name, bytes, starts, times_ns, longest_bytes: 0, snapped: 0, skipped, error: None }
    }

    fn push(&mut self, frame: &[u8], ts_ns: u64, wire_len: u32) {
        let len = frame.len() as u32;
        self.bytes.extend_from_slice(frame);
        self.starts.push(self.bytes.len() as u32);
        self.times_ns.push(ts_ns);
        self.longest_bytes = self.longest_bytes.max(len);
        self.snapped += u64::from(wire_len > len);
    }

    /// Returns the file's name, as errors show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.times_ns.len()
    }

    /// True if there are no frames; never so after [`Capture::load`].
    pub fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    /// Returns the bytes of all frames.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the bytes of the longest frame.
    pub fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    /// Returns the number of frames that were cut short when captured.
    pub fn snapped(&self) -> u64 {
        self.snapped
    }

    /// Returns the records that were skipped, and are none of its frames.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Returns the error behind the last good frame, if the file does not end there.
    pub fn error(&self) -> Option<&PcapError> {
        self.error.as_ref()
    }

    /// Returns frame `at`.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn frame(&self, at: usize) -> CapturedFrame<'_> {
        let time_ns = self.times_ns[at].saturating_sub(self.times_ns[0]);
        CapturedFrame { bytes: self.frame_bytes(at), time_ns }
    }

    #[inline]
    pub(super) fn frame_bytes(&self, at: usize) -> &[u8] {
        &self.bytes[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    #[inline]
    pub(super) fn frame_len(&self, at: usize) -> u32 {
        self.starts[at + 1] - self.starts[at]
    }

    /// Returns the bytes of the frames before frame `at`.
    pub(super) fn bytes_before(&self, at: usize) -> u64 {
        self.starts[at].into()
    }

    /// Returns the time after its first frame at which a second round begins: after the last frame and the mean gap.
    pub(super) fn round_ns(&self) -> u64 {
        let span = self.frame(self.len() - 1).time_ns;
        span + span / (self.len() as u64 - 1).max(1)
    }
}
