//! The capture that devices are traced into, and its counts.

use super::handoff::Handoff;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use wharf_core::device::DeviceError;
use wharf_devices::iface::io_fault;
use wharf_devices::pcap::format::{FileFormat, PcapOptions, PcapWriter};
use wharf_devices::pcap::{create_file, device_error};
use wharf_mem::lock;
use wharf_sys::clock::monotonic_ns;

/// Counts of a trace. Any thread may read them at any time; they are final once the device is closed.
#[derive(Debug, Default)]
pub struct TraceCounts {
    seen: AtomicU64,
    missed: AtomicU64,
    broken: Mutex<Option<std::io::Error>>,
}

impl TraceCounts {
    /// Returns the frames in the file, or on their way into it.
    pub fn frames(&self) -> u64 {
        self.seen.load(Relaxed).saturating_sub(self.missed())
    }

    /// Returns the frames that are missing in the file because the disk was too slow, full or gone.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    pub(super) fn miss(&self, frames: u64) {
        self.missed.fetch_add(frames, Relaxed);
    }

    /// Notes the file's first error.
    pub(super) fn fail(&self, error: std::io::Error) {
        lock(&self.broken).get_or_insert(error);
    }

    fn take_error(&self) -> Option<std::io::Error> {
        lock(&self.broken).take()
    }
}

/// A capture that one or several devices are traced into. It is whole once all of them are closed.
#[derive(Clone)]
pub struct TraceFile {
    pub(super) name: String,
    /// Locked once a batch.
    file: Arc<Mutex<File>>,
    pub(super) counts: Arc<TraceCounts>,
}

pub(super) struct File {
    /// `None` once finished.
    writer: Option<PcapWriter<Handoff>>,
    /// Devices that are still open.
    pub(super) users: usize,
    /// The file on its file system, if it is one of those.
    inode: Option<Inode>,
}

/// Device and inode number of a file: `inode(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inode(u64, u64);

impl Inode {
    fn of(metadata: std::io::Result<Metadata>) -> Option<Self> {
        metadata.ok().map(|metadata| Self(metadata.dev(), metadata.ino()))
    }
}

impl std::fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TraceFile({}, {} frames)", self.name, self.counts.frames())
    }
}

impl TraceFile {
    /// Creates the file at `path`, or empties the one that is there.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the file cannot be written or no thread can be started, and [`DeviceError::Unsupported`] if the path is
    /// not that of a file.
    pub fn create(path: &Path) -> Result<Self, DeviceError> {
        let name = format!("trace:{}", wharf_devices::pcap::format::displayed(&path.to_string_lossy()));
        let file = create_file(path).map_err(|error| device_error(&name, error))?;
        let inode = Inode::of(file.metadata());
        let sink = Handoff::direct(file, FileFormat::of(&name));
        let created = Self::over(name, sink, Handoff::start)?;
        created.lock().inode = inode;
        Ok(created)
    }

    /// Goes on in a new file at `path` if the file there is another than the one being written: `logrotate(8)` has moved that. Writes
    /// the rest of the old file, and waits for the disk; frames that come meanwhile are in the new file. Returns true if there is a new file.
    ///
    /// # Errors
    /// Those of [`TraceFile::create`]: the old file is written on.
    pub fn reopen(&self, path: &Path) -> Result<bool, DeviceError> {
        let there = Inode::of(std::fs::metadata(path));
        if !self.lock().is_left_by(there) {
            return Ok(false);
        }
        let file = create_file(path).map_err(|error| device_error(&self.name, error))?;
        let inode = Inode::of(file.metadata());
        let writer = new_writer(
            &self.name,
            Handoff::direct(file, FileFormat::of(&self.name)),
            &self.counts,
            Handoff::start,
        )?;
        let before = {
            let mut file = self.lock();
            file.inode = inode;
            // The last device may have been closed meanwhile.
            if file.writer.is_some() { file.writer.replace(writer) } else { None }
        };
        before.into_iter().for_each(write_rest);
        Ok(true)
    }

    /// Writes the header to `sink`, then lets `start` hand the rest to a thread.
    pub(super) fn over(
        name: String, sink: Handoff,
        start: impl FnOnce(&mut Handoff, Arc<TraceCounts>) -> std::io::Result<()>,
    ) -> Result<Self, DeviceError> {
        let counts = Arc::new(TraceCounts::default());
        let writer = Some(new_writer(&name, sink, &counts, start)?);
        Ok(Self { name, file: Arc::new(Mutex::new(File { writer, users: 0, inode: None })), counts })
    }

    /// Returns its counts.
    pub fn counts(&self) -> Arc<TraceCounts> {
        self.counts.clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, File> {
        lock(&self.file)
    }

    /// Keeps the file open, whatever devices are closed, until [`TraceFile::leave`] is called.
    pub fn hold(&self) {
        self.lock().users += 1;
    }

    /// Notes that a device is closed, or that the file need not stay open any more. After the last one, writes the rest and waits for the
    /// disk.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if frames are missing.
    pub fn leave(&self) -> Result<(), DeviceError> {
        let mut file = self.lock();
        file.users -= 1;
        if file.users > 0 {
            return Ok(());
        }
        file.writer.take().into_iter().for_each(write_rest);
        let missed = self.counts.missed();
        let too_slow = || std::io::Error::new(std::io::ErrorKind::WouldBlock, "the disk was too slow");
        match (self.counts.take_error(), missed) {
            (None, 0) => Ok(()),
            (error, missed) => Err(DeviceError::Io {
                device: self.name.clone(),
                what: format!("{missed} of {} frames are not in the file", missed + self.counts.frames()),
                source: error.unwrap_or_else(too_slow),
            }),
        }
    }
}

/// Writes the header to `sink`, then lets `start` hand the rest to a thread.
fn new_writer(
    name: &str, sink: Handoff, counts: &Arc<TraceCounts>,
    start: impl FnOnce(&mut Handoff, Arc<TraceCounts>) -> std::io::Result<()>,
) -> Result<PcapWriter<Handoff>, DeviceError> {
    let writer = PcapWriter::new(sink, name, PcapOptions::default());
    let mut writer = writer.map_err(|error| device_error(name, error))?;
    let started = start(writer.sink_mut(), counts.clone());
    started.map_err(io_fault(name, "cannot start a thread"))?;
    Ok(writer)
}

/// Writes the gathered records, and waits for the disk.
fn write_rest(mut writer: PcapWriter<Handoff>) {
    writer.sink_mut().wait_for_room();
    // The thread counts frames that cannot be written: it knows the reason.
    let _ = writer.end();
    writer.sink_mut().finish();
}

impl File {
    /// True if it is written to, and is another file than the one `there`.
    fn is_left_by(&self, there: Option<Inode>) -> bool {
        self.writer.is_some() && (there.is_none() || there != self.inode)
    }

    /// True if there is a file to write to.
    pub(super) fn is_open(&mut self) -> bool {
        self.writer.as_mut().is_some_and(|writer| !writer.sink_mut().is_broken())
    }

    /// Writes what has waited for a second.
    pub(super) fn flush_late(&mut self) {
        // The thread counts frames that cannot be written: it knows the reason.
        self.writer.iter_mut().for_each(|writer| _ = writer.flush_late(monotonic_ns()));
    }

    /// Writes one frame, or counts it as missed.
    pub(super) fn record<'a>(
        &mut self, counts: &TraceCounts, time_ns: u64, chunks: impl Iterator<Item = &'a [u8]>, len: usize,
    ) {
        counts.seen.fetch_add(1, Relaxed);
        let written = self.writer.as_mut().is_some_and(|writer| {
            !writer.sink_mut().is_broken() && writer.write(time_ns, chunks, len as u32).is_ok()
        });
        if !written {
            counts.miss(1);
        }
    }
}
