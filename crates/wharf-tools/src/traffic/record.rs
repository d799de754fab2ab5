//! Writing what arrives into a capture.

use super::{Arrival, Check, Clocks};
use std::path::Path;
use wharf_devices::pcap::format::{PcapError, PcapOptions, PcapWriter};

/// Writes each frame, whole and with the time at which it arrived, and hands it on to another check.
#[derive(Debug)]
pub struct Recorder<C> {
    check: C,
    writer: Option<PcapWriter>,
    error: Option<PcapError>,
}

impl<C: Check> Recorder<C> {
    /// Into a new file at `path`, if there is to be one.
    ///
    /// # Errors
    /// [`PcapError`]: the file cannot be made.
    pub fn new(check: C, path: Option<&Path>) -> Result<Self, PcapError> {
        let create = |path| PcapWriter::create(path, PcapOptions::default());
        Ok(Self { check, writer: path.map(create).transpose()?, error: None })
    }

    /// Completes the file; the other check comes back, and what could not be written.
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
            // A record that is left out is no record: nothing more is wanted.
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
