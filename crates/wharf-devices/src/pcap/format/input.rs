//! The source of a capture's bytes, with its position and its name in errors.

use std::io::{self, Read, Seek};

use super::error::displayed;
use super::{Fault, PcapError};

/// Bytes skipped at a time.
const SKIP_BYTES: usize = 4096;

/// A source that is read from its start to its end.
#[derive(Debug)]
pub(super) struct Input<R> {
    source: R,
    name: String,
    /// Start of the current record or block.
    pub(super) record_offset_bytes: u64,
    /// Position in the source.
    pub(super) offset_bytes: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R, name: &str) -> Self {
        Self { source, name: displayed(name), record_offset_bytes: 0, offset_bytes: 0 }
    }

    /// Goes back to the start.
    pub(super) fn rewind(&mut self) -> Result<(), PcapError>
    where
        R: Seek,
    {
        self.source.rewind().map_err(|cause| self.failed(cause))?;
        (self.record_offset_bytes, self.offset_bytes) = (0, 0);
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Begins a record here.
    pub(super) fn begin(&mut self) {
        self.record_offset_bytes = self.offset_bytes;
    }

    /// Returns the bytes of the record that were read.
    pub(super) fn record_bytes(&self) -> u64 {
        self.offset_bytes - self.record_offset_bytes
    }

    /// Fills `bytes` as far as the source goes. Returns the number of bytes.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, PcapError> {
        let mut present = 0;
        while present < bytes.len() {
            match self.source.read(&mut bytes[present..]) {
                Ok(0) => break,
                Ok(count) => {
                    present += count;
                    self.offset_bytes += count as u64;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.failed(cause)),
            }
        }
        Ok(present)
    }

    /// Reads over `count` bytes, or those that there are. Returns the number of bytes.
    pub(super) fn skip(&mut self, count: u64) -> Result<u64, PcapError> {
        let (mut scratch, mut skipped) = ([0; SKIP_BYTES], 0);
        while skipped < count {
            let part = (count - skipped).min(SKIP_BYTES as u64) as usize;
            let present = self.fill(&mut scratch[..part])?;
            skipped += present as u64;
            if present < part {
                break;
            }
        }
        Ok(skipped)
    }

    /// Makes an error of the current record.
    pub(super) fn malformed(&self, fault: Fault) -> PcapError {
        self.malformed_at(self.record_offset_bytes, fault)
    }

    pub(super) fn malformed_at(&self, offset_bytes: u64, fault: Fault) -> PcapError {
        PcapError::Malformed { file: self.name.clone(), offset_bytes, fault }
    }

    fn failed(&self, cause: io::Error) -> PcapError {
        PcapError::Read { file: self.name.clone(), offset_bytes: self.offset_bytes, cause }
    }
}
