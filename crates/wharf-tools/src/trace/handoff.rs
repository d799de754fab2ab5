//! Hand-off from the path to the disk: a thread writes chunks of whole records.

use super::TraceCounts;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use wharf_devices::pcap::format::{ByteOrder, FileFormat, records_in};
use wharf_devices::pcap::shortened;

/// Most bytes that wait for the disk: more than a tenth of a second of 1 Gbit/s, and little beside a pool.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The sink of the capture's writer: the file itself, then a thread.
pub(super) struct Handoff {
    /// `None` once the thread has it.
    file: Option<File>,
    thread: Option<(Sender<Vec<u8>>, JoinHandle<()>)>,
    state: Arc<State>,
    format: FileFormat,
    /// What was written before the thread had the file: its header.
    head: Vec<u8>,
    /// Takes everything, however much waits.
    patient: bool,
}

#[derive(Default)]
pub(super) struct State {
    waiting_bytes: AtomicUsize,
    broken: AtomicBool,
}

impl Handoff {
    /// Makes one that writes to the file itself until [`Handoff::start`]: a file that cannot be written then shows at the start.
    pub(super) fn direct(file: File, format: FileFormat) -> Self {
        Self {
            file: Some(file),
            thread: None,
            state: Arc::default(),
            format,
            head: Vec::new(),
            patient: false,
        }
    }

    /// Hands all further chunks to a thread.
    pub(super) fn start(&mut self, counts: Arc<TraceCounts>) -> io::Result<()> {
        match self.file.take() {
            Some(file) => self.start_to(file, counts),
            None => Ok(()),
        }
    }

    /// Works like [`Handoff::start`], with another disk.
    pub(super) fn start_to(
        &mut self, disk: impl Disk + Send + 'static, counts: Arc<TraceCounts>,
    ) -> io::Result<()> {
        let (chunks, theirs) = channel();
        let (state, format, head) = (self.state.clone(), self.format, std::mem::take(&mut self.head));
        let run = move || write_all(disk, &theirs, &state, &counts, format, &head);
        self.thread = Some((chunks, thread::Builder::new().name("wharf-trace".into()).spawn(run)?));
        Ok(())
    }

    /// Drops the file as if the thread had it, in tests of other disks.
    #[cfg(test)]
    pub(super) fn forget_file(&mut self) {
        self.file = None;
    }

    /// True if the file has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.state.broken.load(Relaxed)
    }

    /// Takes everything from now on: the path is done.
    pub(super) fn wait_for_room(&mut self) {
        self.patient = true;
    }

    /// Waits until the thread has written all chunks.
    pub(super) fn finish(&mut self) {
        if let Some((chunks, thread)) = self.thread.take() {
            drop(chunks);
            // It does not panic. If it did, its unwritten frames would show as missing.
            let _ = thread.join();
        }
    }
}

impl Write for Handoff {
    /// Takes all or nothing: [`ErrorKind::WouldBlock`] while too much waits. The writer then keeps its records.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file {
            let written = file.write(bytes)?;
            self.head.extend_from_slice(&bytes[..written]);
            return Ok(written);
        }
        let Some((chunks, _)) = &self.thread else { return Err(ErrorKind::BrokenPipe.into()) };
        if !self.patient && self.state.waiting_bytes.load(Relaxed) + bytes.len() > WAITING_BYTES_MAX {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.state.waiting_bytes.fetch_add(bytes.len(), Relaxed);
        chunks.send(bytes.to_vec()).map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes chunk after chunk. After the first error it counts their records as missed.
pub(super) fn write_all(
    mut disk: impl Disk, chunks: &Receiver<Vec<u8>>, state: &State, counts: &TraceCounts, format: FileFormat,
    head: &[u8],
) {
    let mut written_bytes = head.len() as u64;
    for chunk in chunks {
        if !state.broken.load(Relaxed) {
            match begin_anew_if_cut(&mut disk, &mut written_bytes, head).and_then(|()| disk.write_all(&chunk))
            {
                Ok(()) => written_bytes += chunk.len() as u64,
                Err(error) => {
                    counts.fail(error);
                    state.broken.store(true, Relaxed);
                    // Half a record at the end would make the file unreadable for strict readers.
                    disk.cut(written_bytes);
                }
            }
        }
        if state.broken.load(Relaxed) {
            // Chunks are of whole records, as `PcapOptions::default` has them written.
            counts.miss(records_in(format, ByteOrder::Little, &chunk).1);
        }
        state.waiting_bytes.fetch_sub(chunk.len(), Relaxed);
    }
}

/// Has a file that another program emptied (`copytruncate` of logrotate(8)) begin anew, with its header.
fn begin_anew_if_cut(disk: &mut impl Disk, written_bytes: &mut u64, head: &[u8]) -> io::Result<()> {
    match disk.len_bytes().filter(|len_bytes| len_bytes < written_bytes) {
        None => Ok(()),
        Some(0) => {
            *written_bytes = 0;
            disk.write_all(head)?;
            *written_bytes = head.len() as u64;
            Ok(())
        }
        Some(len_bytes) => Err(shortened(len_bytes)),
    }
}

/// A file, or a test's disk.
pub(super) trait Disk: Write {
    /// Returns its length, if it is a regular file.
    fn len_bytes(&self) -> Option<u64>;

    /// Cuts it to `len_bytes`, if that is possible.
    fn cut(&mut self, len_bytes: u64);
}

impl Disk for File {
    fn len_bytes(&self) -> Option<u64> {
        self.metadata().ok().filter(Metadata::is_file).map(|of| of.len())
    }

    fn cut(&mut self, len_bytes: u64) {
        // Anything but a regular file stays as it is, and one that another program has cut.
        if Disk::len_bytes(self).is_some_and(|is_bytes| is_bytes > len_bytes) {
            let _ = self.set_len(len_bytes);
        }
    }
}
