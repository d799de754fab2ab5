//! Hand-off from the path to the disk: a thread writes chunks of whole records.

use super::TraceCounts;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use wharf_devices::pcap::format::{ByteOrder, RECORD_HEADER_LEN, captured_len};

/// Most bytes that wait for the disk: more than a tenth of a second of 1 Gbit/s, and little beside a pool.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The sink of the capture's writer: the file itself, then a thread.
pub(super) struct Handoff {
    /// `None` once the thread has it.
    file: Option<File>,
    thread: Option<(Sender<Vec<u8>>, JoinHandle<()>)>,
    state: Arc<State>,
    /// Takes everything, however much waits.
    patient: bool,
}

#[derive(Default)]
struct State {
    waiting_bytes: AtomicUsize,
    broken: AtomicBool,
}

impl Handoff {
    /// Makes one that writes to the file itself until [`Handoff::start`]: a file that cannot be written then shows at the start.
    pub(super) fn direct(file: File) -> Self {
        Self { file: Some(file), thread: None, state: Arc::default(), patient: false }
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
        let state = self.state.clone();
        let run = move || write_all(disk, &theirs, &state, &counts);
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
            return file.write(bytes);
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
fn write_all(mut disk: impl Disk, chunks: &Receiver<Vec<u8>>, state: &State, counts: &TraceCounts) {
    let mut written_bytes = wharf_devices::pcap::format::FILE_HEADER_LEN as u64;
    for chunk in chunks {
        if !state.broken.load(Relaxed) {
            match disk.write_all(&chunk) {
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
            counts.miss(records(&chunk));
        }
        state.waiting_bytes.fetch_sub(chunk.len(), Relaxed);
    }
}

/// A file, or a test's disk.
pub(super) trait Disk: Write {
    /// Cuts it to `len_bytes`, if that is possible.
    fn cut(&mut self, len_bytes: u64);
}

impl Disk for File {
    fn cut(&mut self, len_bytes: u64) {
        // Anything but a regular file stays as it is.
        let _ = self.set_len(len_bytes);
    }
}

/// Counts the records in a chunk of whole ones, written by [`PcapOptions::default`](wharf_devices::pcap::format::PcapOptions).
fn records(chunk: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(header) = chunk.get(at..).and_then(|rest| rest.first_chunk::<RECORD_HEADER_LEN>()) {
        at += RECORD_HEADER_LEN + captured_len(header, ByteOrder::Little);
        count += 1;
    }
    count
}
