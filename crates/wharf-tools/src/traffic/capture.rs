//! A whole capture in memory, so that a replay does not wait for a disk.

use super::timeline::{TimeFacts, Timeline};
use std::path::Path;
use std::time::Duration;
use wharf_devices::pcap::Skipped;
use wharf_devices::pcap::format::{Framing, PcapError, PcapReader, Record};

/// How a capture is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// Gaps between its frames are shortened to this.
    pub max_gap: Option<Duration>,
    /// Time from the last frame of a round to the first of the next; the mean gap without.
    pub loop_gap: Option<Duration>,
    /// A longer gap is told; [`GAP_NS_TOLD`](super::GAP_NS_TOLD) without.
    pub told_gap: Option<Duration>,
    /// Which packets become frames, and how.
    pub framing: Framing,
}

/// The reason why a capture was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// See [`PcapError`].
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// Longer than the caller allows.
    #[error("{file}: more than the {} MiB that are kept in memory", limit_bytes >> 20)]
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
    #[error("{}", none_to_send(file, *records))]
    NoFrame {
        /// The file's name.
        file: String,
        /// Its records.
        records: u64,
    },
}

/// Says that a file of so many records has nothing to send.
pub(super) fn none_to_send(file: &str, records: u64) -> String {
    format!(
        "{file}: none of its {records} records can be sent: each is empty, longer than any frame, or of another link type or direction; --mac SRC,DST gives addresses to cooked, raw IP and loopback packets"
    )
}

/// Says that rounds of a file, all of whose frames have one time, have no pace.
pub fn no_pace(file: &str) -> String {
    format!(
        "{file}: all its packets have one time, so that rounds of it have no pace; say --rate, or --loop-gap"
    )
}

/// Frames of a capture, all in memory.
#[derive(Debug, Default)]
pub struct Capture {
    name: String,
    bytes: Vec<u8>,
    /// Start of each frame in `bytes`, and the end of the last one.
    starts: Vec<u32>,
    /// Time of each frame after the first one.
    times_ns: Vec<u64>,
    /// Time after its first frame at which a second round begins: after the last frame and the mean gap.
    round_ns: u64,
    facts: TimeFacts,
    longest_bytes: u32,
    snapped: u64,
    skipped: Skipped,
    error: Option<PcapError>,
}

/// One frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// Its captured bytes.
    pub bytes: &'a [u8],
    /// Its capture time after the first frame's; never before that of the frame before it.
    pub time_ns: u64,
}

impl Capture {
    /// Reads a whole file of at most `limit_bytes`, and of at most 4 GiB. A file that is damaged, or ends
    /// within a record, is read up to there ([`Capture::error`]).
    ///
    /// # Errors
    /// [`CaptureError`]; for a damaged file if there is no frame before the damage.
    pub fn load(path: &Path, limit_bytes: u64, how: &Reading) -> Result<Self, CaptureError> {
        let limit_bytes = limit_bytes.min(u32::MAX.into());
        let mut reader = PcapReader::open(path)?.framing(how.framing)?;
        let file = reader.name().to_string();
        let too_large = || CaptureError::TooLarge { file: file.clone(), limit_bytes };
        let file_bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        if file_bytes > limit_bytes {
            return Err(too_large());
        }
        let bytes = Vec::with_capacity(file_bytes as usize);
        let mut capture = Self { name: file.clone(), bytes, starts: vec![0], ..Self::default() };
        let (mut frame, mut timeline) = (Vec::new(), Timeline::new(how));
        while let Some(record) = capture.keep_error(reader.next(&mut frame))? {
            // The file may have grown since its length was looked up.
            if reader.record_offset_bytes() + frame.len() as u64 > limit_bytes {
                return Err(too_large());
            }
            match record.misfit(frame.len() as u32) {
                None => capture.push(&frame, timeline.next(record.ts_ns), record.wire_len),
                Some(reason) => capture.skipped.count(reason),
            }
        }
        (capture.facts, capture.round_ns) = (timeline.facts(), timeline.end_round());
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

    fn push(&mut self, frame: &[u8], time_ns: u64, wire_len: u32) {
        let len = frame.len() as u32;
        self.bytes.extend_from_slice(frame);
        self.starts.push(self.bytes.len() as u32);
        self.times_ns.push(time_ns);
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

    /// Returns what its times are.
    pub fn facts(&self) -> TimeFacts {
        self.facts
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
        CapturedFrame { bytes: self.frame_bytes(at), time_ns: self.times_ns[at] }
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

    /// Returns the time of a round; 0 if all frames have one time.
    pub fn round_ns(&self) -> u64 {
        self.round_ns
    }
}

/// What the beginning of a capture holds.
#[derive(Debug, Default)]
pub struct Survey {
    /// Bytes of its longest frame.
    pub longest_bytes: u32,
    /// The error at which it ended.
    pub error: Option<PcapError>,
}

impl Survey {
    /// Reads the first `limit_bytes` of a file, and keeps nothing of it.
    ///
    /// # Errors
    /// [`PcapError`] if it is no capture.
    pub fn of(path: &Path, limit_bytes: u64) -> Result<Self, PcapError> {
        let (mut reader, mut frame, mut survey) = (PcapReader::open(path)?, Vec::new(), Self::default());
        while reader.record_offset_bytes() < limit_bytes {
            match reader.next(&mut frame) {
                Ok(Some(record)) if record.misfit(frame.len() as u32).is_some() => {}
                Ok(Some(_)) => survey.longest_bytes = survey.longest_bytes.max(frame.len() as u32),
                ended => {
                    survey.error = ended.err();
                    break;
                }
            }
        }
        Ok(survey)
    }
}
