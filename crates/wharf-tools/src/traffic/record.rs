//! Writes arrivals into a capture.

use super::{Arrival, Check, Clocks};
use std::io::{Error, ErrorKind};
use std::path::Path;
use wharf_devices::pcap::format::{PcapError, PcapOptions, PcapWriter};
use wharf_devices::pcap::{create_stream, end_stream, is_stream, would_block, write_without_waiting};
use wharf_sys::clock::monotonic_ns;

/// Writes each frame, whole and with its arrival time, and hands it on to another check.
#[derive(Debug)]
pub struct Recorder<C> {
    check: C,
    writer: Option<PcapWriter>,
    /// The reader of the file waits for it, and may go away.
    is_stream: bool,
    is_closed: bool,
    /// It has no room.
    is_blocked: bool,
    has_pending: bool,
    error: Option<PcapError>,
}

impl<C: Check> Recorder<C> {
    /// Makes one that writes what `interface` receives into a new file at `path`, if there is a path. A stream
    /// ([`is_stream`]) gets the frames as they come; while its reader takes nothing, the check is blocked; when
    /// the reader goes away, the check is done.
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
        let mut writer = path.map(create).transpose()?;
        if is_stream {
            writer.iter_mut().for_each(write_without_waiting);
        }
        let (is_closed, is_blocked, has_pending) = (false, false, false);
        Ok(Self { check, writer, is_stream, is_closed, is_blocked, has_pending, error: None })
    }

    /// Notes an error of the file. That a stream's reader has gone is none.
    #[cold]
    fn fail(&mut self, error: PcapError) {
        match &error {
            error if self.is_stream && would_block(error) && self.writer.is_some() => self.is_blocked = true,
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
            let ended = if self.is_stream { end_stream(&mut writer) } else { writer.end() };
            ended
                .map_err(|error| stalled(error, writer.pending_records()))
                .err()
                .into_iter()
                .for_each(|error| self.fail(error));
            self.error = self.error.or_else(|| writer.take_trouble());
        }
        (self.check, self.error)
    }
}

impl<C: Check> Check for Recorder<C> {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        if let Some(writer) = &mut self.writer {
            // A stream that has no room keeps the rest of the burst.
            let written = match self.is_stream {
                true => writer.gather(at.wall_ns, [frame], frame.len() as u32),
                false => writer.write(at.wall_ns, [frame], frame.len() as u32),
            };
            let is_due = self.is_stream && !self.is_blocked && writer.is_full();
            let written = if is_due { written.and_then(|()| writer.flush()) } else { written };
            written.err().into_iter().for_each(|error| self.fail(error));
        }
        self.has_pending = true;
        self.check.check(frame, at);
    }

    fn pause(&mut self) {
        if let (true, Some(writer)) = (self.has_pending, &mut self.writer) {
            // A stream's reader waits; a file's may follow it.
            let flushed = if self.is_stream { writer.flush() } else { writer.flush_late(monotonic_ns()) };
            (self.has_pending, self.is_blocked) = (writer.has_pending(), false);
            flushed.err().into_iter().for_each(|error| self.fail(error));
        }
        self.check.pause();
    }

    fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    fn clocks(&self) -> Clocks {
        Clocks::Both
    }

    fn is_done(&self) -> bool {
        self.is_closed || self.error.is_some() || self.check.is_done()
    }
}

/// Says of an error, if it is that a stream's reader had no room, what it did not take in the end.
fn stalled(error: PcapError, packets: u64) -> PcapError {
    match error {
        PcapError::Write { file, offset_bytes, cause } if cause.kind() == ErrorKind::WouldBlock => {
            let what = format!("its reader took nothing more, so {packets} packets are not in it");
            PcapError::Write { file, offset_bytes, cause: Error::new(ErrorKind::WouldBlock, what) }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read, pipe};
    use std::os::fd::AsRawFd;
    use wharf_devices::pcap::format::PcapReader;

    struct Nothing;

    impl Check for Nothing {
        fn check(&mut self, _frame: &[u8], _at: Arrival) {}
    }

    /// A recorder into a pipe that is full, after so many frames.
    fn blocked() -> (Recorder<Nothing>, PipeReader, u64) {
        let (from, to) = pipe().unwrap();
        let path = format!("/proc/self/fd/{}", to.as_raw_fd());
        let options = PcapOptions::default();
        let mut recorder = Recorder::new(Nothing, Some(Path::new(&path)), options, "test").unwrap();
        let mut frames = 0;
        while !recorder.is_blocked() && frames < 10_000 {
            recorder.check(&[7; 1500], Arrival::default());
            frames += 1;
        }
        assert!(recorder.is_blocked() && !recorder.is_done());
        (recorder, from, frames)
    }

    #[test]
    fn a_reader_that_goes_on_gets_all_frames() {
        let (mut recorder, mut from, frames) = blocked();
        recorder.check(&[7; 1500], Arrival::default());
        recorder.pause();
        assert!(recorder.is_blocked(), "the pipe is still full");
        let mut bytes = vec![0; 100_000];
        let read = from.read(&mut bytes).unwrap();
        bytes.truncate(read);
        recorder.pause();
        let (_, error) = recorder.finish([]);
        assert!(error.is_none(), "{error:?}");
        from.read_to_end(&mut bytes).unwrap();
        let (mut reader, mut frame, mut came) = (PcapReader::new(&bytes[..], "test").unwrap(), Vec::new(), 0);
        while reader.next(&mut frame).unwrap().is_some() {
            came += 1;
        }
        assert_eq!(came, frames + 1);
    }

    #[test]
    fn a_reader_that_takes_nothing_more_is_given_up_by_name() {
        let (recorder, _from, _) = blocked();
        let error = recorder.finish([]).1.unwrap().to_string();
        assert!(error.contains("its reader took nothing more, so ") && error.lines().count() == 1, "{error}");
    }
}
