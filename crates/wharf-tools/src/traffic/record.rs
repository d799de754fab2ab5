//! Writes arrivals into a capture.

use super::{Arrival, Check, Clocks};
use std::io::ErrorKind;
use std::path::Path;
use wharf_devices::pcap::format::{PcapError, PcapOptions, PcapWriter};
use wharf_devices::pcap::{create_stream, is_stream};
use wharf_sys::clock::monotonic_ns;

/// Writes each frame, whole and with its arrival time, and hands it on to another check.
#[derive(Debug)]
pub struct Recorder<C> {
    check: C,
    writer: Option<PcapWriter>,
    /// The reader of the file waits for it, and may go away.
    is_stream: bool,
    is_closed: bool,
    has_pending: bool,
    error: Option<PcapError>,
}

impl<C: Check> Recorder<C> {
    /// Makes one that writes what `interface` receives into a new file at `path`, if there is a path. A stream ([`is_stream`]) gets the frames as they come; when its
    /// reader goes away, the check is done.
    ///
    /// # Errors
    /// [`PcapError`] if the file cannot be created.
    pub fn new(
        check: C, path: Option<&Path>, options: PcapOptions, interface: &str,
    ) -> Result<Self, PcapError> {
        let is_stream = path.is_some_and(is_stream);
        let create = |path| match is_stream {
            true => create_stream(path, options),
            false => PcapWriter::create_of(path, options, interface),
        };
        let writer = path.map(create).transpose()?;
        Ok(Self { check, writer, is_stream, is_closed: false, has_pending: false, error: None })
    }

    /// Notes an error of the file. That a stream's reader has gone is none.
    #[cold]
    fn fail(&mut self, error: PcapError) {
        match &error {
            PcapError::Write { cause, .. } if self.is_stream && cause.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
            }
            // A capture with a gap is no record: nothing more is wanted.
            _ => drop(self.error.get_or_insert(error)),
        }
    }

    /// Completes the file, which says what the interface has dropped if it is pcapng. Returns the other check,
    /// and an error if frames could not be written.
    pub fn finish(mut self, drops: impl IntoIterator<Item = (String, u64)>) -> (C, Option<PcapError>) {
        if let Some(mut writer) = self.writer.take() {
            writer.note_drops(drops);
            writer.finish().err().into_iter().for_each(|error| self.fail(error));
        }
        (self.check, self.error)
    }
}

impl<C: Check> Check for Recorder<C> {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(at.wall_ns, [frame], frame.len() as u32)
        {
            self.fail(error);
        }
        self.has_pending = true;
        self.check.check(frame, at);
    }

    fn pause(&mut self) {
        if let (true, Some(writer)) = (self.has_pending, &mut self.writer) {
            // A stream's reader waits; a file's may follow it.
            let flushed = if self.is_stream { writer.flush() } else { writer.flush_late(monotonic_ns()) };
            self.has_pending = writer.has_pending();
            flushed.err().into_iter().for_each(|error| self.fail(error));
        }
        self.check.pause();
    }

    fn clocks(&self) -> Clocks {
        Clocks::Both
    }

    fn is_done(&self) -> bool {
        self.is_closed || self.error.is_some() || self.check.is_done()
    }
}
