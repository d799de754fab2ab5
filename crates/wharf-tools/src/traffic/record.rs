//! Writes arrivals into a capture.

use super::{Arrival, Check, Clocks};
use std::path::Path;
use wharf_devices::pcap::format::{PcapError, PcapOptions, PcapWriter};

/// Writes each frame, whole and with its arrival time, and hands it on to another check.
#[derive(Debug)]
pub struct Recorder<C> {
    check: C,
    writer: Option<PcapWriter>,
    error: Option<PcapError>,
}

impl<C: Check> Recorder<C> {
    /// Makes one that writes into a new file at `path`, if there is a path.
    ///
    /// # Errors
    /// [`PcapError`] if the file cannot be created.
    pub fn new(check: C, path: Option<&Path>) -> Result<Self, PcapError> {
        let create = |path| PcapWriter::create(path, PcapOptions::default());
        Ok(Self { check, writer: path.map(create).transpose()?, error: None })
    }

    /// Completes the file. Returns the other check, and an error if frames could not be written.
    pub fn finish(self) -> (C, Option<PcapError>) {
        let finished = self.writer.map_or(Ok(()), PcapWriter::finish);
        (self.check, self.error.or(finished.err()))
    }
}

impl<C: Check> Check for Recorder<C> {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(at.wall_ns, [frame], frame.len() as u32)
        {
            // A capture with a gap is no record: nothing more is wanted.
            self.error.get_or_insert(error);
        }
        self.check.check(frame, at);
    }

    fn clocks(&self) -> Clocks {
        Clocks::Both
    }

    fn is_done(&self) -> bool {
        self.error.is_some() || self.check.is_done()
    }
}
