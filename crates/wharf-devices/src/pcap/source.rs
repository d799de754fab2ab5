//! `PcapSource`: reads frames from a capture.

use super::format::{Framing, Macs, PcapError, PcapReader, Record};
use super::{PcapStream, Skipped, device_error, device_name, is_stream};
use crate::iface::{Step, pool_fault};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{Device, DeviceError, Notify, RxDevice};
use wharf_core::pool::Cache;
use wharf_core::sg_writer::{Placement, SgWriter};
use wharf_mem::{Batch, Frame, Meta, Region};

/// Treatment of a record that holds less than its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Snapped {
    /// Stop with an error: another packet than the one captured is no replay.
    #[default]
    Refuse,
    /// Fill it up with zeros to the packet's length.
    Pad,
    /// Take the captured bytes for the packet.
    Send,
}

/// A capture's bytes: a file that is read here, or a stream that a thread reads.
#[derive(Debug)]
enum Input {
    File(PcapReader),
    Stream { stream: PcapStream, offset_bytes: u64 },
}

impl Input {
    fn open(path: &Path) -> Result<Self, PcapError> {
        if is_stream(path) {
            return Ok(Self::Stream {
                stream: PcapStream::open(path, 1, Framing { macs: Some(Macs::default()), only: None })?,
                offset_bytes: 0,
            });
        }
        PcapReader::open(path).map(Self::File)
    }

    /// Reads the next record, as far as it has come.
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Next, PcapError> {
        match self {
            Self::File(reader) => Ok(reader.next(bytes)?.map_or(Next::End, Next::Record)),
            Self::Stream { stream, offset_bytes } => match stream.take(Duration::ZERO)? {
                Some(frame) => {
                    stream.recycle(std::mem::replace(bytes, frame.bytes));
                    *offset_bytes = frame.offset_bytes;
                    Ok(Next::Record(frame.record))
                }
                None if stream.has_ended() => Ok(Next::End),
                None => Ok(Next::NotYet),
            },
        }
    }

    /// Returns the records that the stream has skipped since the last call.
    fn take_skipped(&mut self) -> Skipped {
        match self {
            Self::File(_) => Skipped::default(),
            Self::Stream { stream, .. } => stream.take_skipped(),
        }
    }

    fn offset_bytes(&self) -> u64 {
        match self {
            Self::File(reader) => reader.record_offset_bytes(),
            Self::Stream { offset_bytes, .. } => *offset_bytes,
        }
    }
}

/// The next record of a capture.
enum Next {
    Record(Record),
    NotYet,
    End,
}

/// The reading device: it gives frames as fast as it is asked. It only receives. Records that can be no frame
/// ([`Record::misfit`]) count as its drops.
pub struct PcapSource {
    name: String,
    input: Input,
    snapped: Snapped,
    /// The current record, its bytes, and the length that it is to have.
    record: Option<(Record, u32)>,
    bytes: Vec<u8>,
    placer: SgWriter,
    skipped: Skipped,
    /// The error that ended the reading, until it has been reported.
    error: Option<DeviceError>,
    ended: bool,
}

impl std::fmt::Debug for PcapSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PcapSource({}, at byte {})", self.name, self.input.offset_bytes())
    }
}

impl PcapSource {
    /// Opens a capture of Ethernet frames.
    ///
    /// # Errors
    /// [`DeviceError::Io`], and [`DeviceError::Unsupported`] when it is no such capture.
    pub fn open(path: &Path, snapped: Snapped) -> Result<Self, DeviceError> {
        let name = device_name(path);
        let input = Input::open(path).map_err(|error| device_error(&name, error))?;
        Ok(Self {
            name,
            input,
            snapped,
            record: None,
            bytes: Vec::new(),
            placer: SgWriter::default(),
            skipped: Skipped::default(),
            error: None,
            ended: false,
        })
    }

    /// Returns the current record: the next one if there is none; `None` at the end, and while none has come yet.
    fn load(&mut self) -> Result<Option<(Record, u32)>, DeviceError> {
        if self.record.is_none() && !self.ended {
            let next = self.input.next(&mut self.bytes);
            self.skipped += self.input.take_skipped();
            let next = next.map_err(|error| device_error(&self.name, error))?;
            match next {
                Next::Record(record) => self.record = Some((record, self.len_bytes(&record)?)),
                Next::NotYet => {}
                Next::End => self.ended = true,
            }
        }
        Ok(self.record)
    }

    /// Returns the length that the packet of `record` is to have.
    fn len_bytes(&self, record: &Record) -> Result<u32, DeviceError> {
        let captured = self.bytes.len() as u32;
        match self.snapped {
            Snapped::Pad => Ok(record.wire_len),
            // Without a byte there is no other packet than the one captured.
            _ if captured == record.wire_len || captured == 0 => Ok(captured),
            Snapped::Send => Ok(captured),
            Snapped::Refuse => {
                let wire = record.wire_len;
                let what = format!("record of {captured} bytes was snapped from a packet of {wire}");
                Err(self.unsupported(&format!("{what}: replay it with snapped=pad or snapped=send")))
            }
        }
    }

    fn unsupported(&self, what: &str) -> DeviceError {
        let what = format!("byte {}: {what}", self.input.offset_bytes());
        DeviceError::Unsupported { device: self.name.clone(), what }
    }

    /// Puts one packet onto `to`, which has room.
    fn receive_one(&mut self, cache: &mut Cache, to: &mut Batch) -> Result<Step, DeviceError> {
        let Some((record, len_bytes)) = self.load()? else { return Ok(Step::Empty) };
        if let Some(reason) = record.misfit(len_bytes) {
            self.record = None;
            self.skipped.count(reason);
            return Ok(Step::Dropped);
        }
        // 0 is no time: the first record of a simulator, for one, has it.
        let meta = Meta { time_ns: record.ts_ns.max(1), ..Meta::default() };
        let placed = self.placer.place(cache, to, [&self.bytes[..]].into_iter(), len_bytes, &meta);
        match placed.map_err(|error| pool_fault(&self.name, error))? {
            Placement::Done => {
                self.record = None;
                Ok(Step::Received)
            }
            Placement::NoMemory => Ok(Step::Waits),
            Placement::TooLong => {
                let pool = cache.pool();
                let (frames, bytes) = (pool.frames(), pool.region().data_bytes_max());
                let what =
                    format!("packet of {len_bytes} bytes does not fit a pool of {frames} frames of {bytes}");
                Err(self.unsupported(&what))
            }
        }
    }
}

impl Notify for PcapSource {}

impl Device for PcapSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Frames are taken from the pool as they arrive: the device holds none.
    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for PcapSource {
    fn holds_back(&self) -> bool {
        true
    }

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut received = 0;
        // Skipped records count for the budget: a call ends, however many there are.
        for _ in 0..budget.min(to.room()) {
            match self.receive_one(cache, to) {
                Ok(Step::Received) => received += 1,
                Ok(Step::Dropped) => {}
                Ok(Step::Waits | Step::Empty) => break,
                Err(error) => {
                    (self.ended, self.record) = (true, None);
                    if received == 0 {
                        return Err(error);
                    }
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok(received)
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        let counts = self.skipped.by_reason().into_iter().filter(|(_, count)| *count > 0);
        counts.for_each(|(reason, count)| see(reason, count));
    }

    fn ended(&self) -> bool {
        self.ended && self.record.is_none() && self.error.is_none()
    }
}
