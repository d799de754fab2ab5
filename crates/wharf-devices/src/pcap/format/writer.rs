//! Writing a capture, one packet at a time.

mod files;

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::blocks;
use super::error::displayed;
use super::options::{FileFormat, PcapOptions, header_bytes, records_in};
use super::rotation::Turns;
use super::{ErrorOnce, Fault, FileHeader, PcapError, RecordHeader, SNAP_LEN_MAX};

/// Records are gathered up to this length before they are written.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// The interface of packets that are of none.
const INTERFACE: &str = "wharf";

/// Time after which gathered records are late, ns.
const LATE_NS: u64 = 1_000_000_000;

/// Requests to write what is gathered: see [`flush_all`].
static FLUSHES: AtomicU64 = AtomicU64::new(0);

/// Has all writers write what they have gathered when they are next asked for what is late.
pub fn flush_all() {
    FLUSHES.fetch_add(1, Relaxed);
}

/// Writes a capture as a stream.
///
/// Records are gathered and written many at a time. [`Self::finish`] writes the
/// last of them and says whether that went well; dropping the writer writes them
/// too, but cannot say so. Either cuts a file of which the disk took a part of a
/// record only: strict readers want whole ones.
#[derive(Debug)]
pub struct PcapWriter<W: Write = File> {
    sink: W,
    name: String,
    format: FileFormat,
    header: FileHeader,
    /// What the file begins with.
    head: Vec<u8>,
    /// Packets taken, the time of the last, and those that its interface is known to have dropped, by reason.
    packets: u64,
    last_ns: u64,
    drops: Vec<(String, u64)>,
    /// Whole records, not yet written; less than [`WRITE_BUFFER_BYTES`] and one
    /// record.
    pending: Vec<u8>,
    /// Bytes of the file's head at their start: no record.
    head_bytes: usize,
    /// Bytes of the first of them that the sink has already.
    begun_bytes: usize,
    written_bytes: u64,
    /// Makes the sink `len_bytes` long. Returns false if that is not possible.
    cut: fn(&mut W, u64) -> bool,
    /// Returns the sink's length in bytes, if it is known.
    len_bytes: fn(&W) -> Option<u64>,
    /// When what was late was last written, nanoseconds of the caller's clock, and the requests by then.
    flushed_ns: u64,
    flushes: u64,
    has_ended: bool,
    /// Its files, if there are to be several, and how it goes on in the next.
    turns: Option<Turns>,
    turn: fn(&mut Self, u64),
    /// Why it does not go on in the next.
    trouble: ErrorOnce<PcapError>,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header to an empty sink, which need not be buffered. `name` is
    /// the file's name in errors.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn new(sink: W, name: &str, options: PcapOptions) -> Result<Self, PcapError> {
        Self::new_of(sink, name, options, INTERFACE)
    }

    fn new_of(sink: W, name: &str, options: PcapOptions, interface: &str) -> Result<Self, PcapError> {
        let PcapOptions { format, resolution, byte_order, .. } = options;
        let format = format.unwrap_or_else(|| FileFormat::of(name));
        let header = FileHeader { resolution, byte_order };
        let head = match format {
            FileFormat::Pcap => header.encode().to_vec(),
            FileFormat::Pcapng => blocks::head(&header, interface),
        };
        let mut writer = Self {
            sink,
            name: displayed(name),
            format,
            header,
            pending: head.clone(),
            head_bytes: head.len(),
            head,
            packets: 0,
            last_ns: 0,
            drops: Vec::new(),
            begun_bytes: 0,
            written_bytes: 0,
            cut: |_, _| false,
            len_bytes: |_| None,
            flushed_ns: 0,
            flushes: FLUSHES.load(Relaxed),
            has_ended: false,
            turns: None,
            turn: |_, _| (),
            trouble: ErrorOnce::None,
        };
        writer.write_pending()?; // now, so that a full disk shows at once
        Ok(writer)
    }

    /// Writes one packet, whose bytes are `chunks` one after the other.
    ///
    /// `ts_ns` counts from 1970; what is finer than the file's resolution is cut
    /// off. `total_len` is the packet's length on the wire in bytes: that of the
    /// chunks together, or more if they are the start of a packet that was snapped
    /// before. What goes beyond the snap length is left out of the file.
    ///
    /// # Errors
    ///
    /// If writing fails, the packet is empty, the chunks are longer than
    /// `total_len`, or the time is after 2106. The packet is then not in the file
    /// and the writer can be used on.
    pub fn write<'a>(
        &mut self, ts_ns: u64, chunks: impl IntoIterator<Item = &'a [u8]>, total_len: u32,
    ) -> Result<(), PcapError> {
        if self.turns.is_some() {
            (self.turn)(self, ts_ns);
        }
        if self.is_full() {
            self.write_pending()?;
        }
        self.gather(ts_ns, chunks, total_len)
    }

    /// Works like [`Self::write`], but writes nothing: the caller bounds what is gathered.
    ///
    /// # Errors
    ///
    /// Those of the packet.
    #[doc(hidden)]
    pub fn gather<'a>(
        &mut self, ts_ns: u64, chunks: impl IntoIterator<Item = &'a [u8]>, total_len: u32,
    ) -> Result<(), PcapError> {
        let start = self.pending.len();
        self.append(ts_ns, chunks, total_len).map_err(|fault| {
            self.pending.truncate(start);
            let offset_bytes = self.whole_bytes() + start as u64;
            PcapError::Malformed { file: self.name.clone(), offset_bytes, fault }
        })
    }

    /// Appends a record to the pending ones; after an error, part of one.
    fn append<'a>(
        &mut self, ts_ns: u64, chunks: impl IntoIterator<Item = &'a [u8]>, wire_len: u32,
    ) -> Result<(), Fault> {
        let start = self.pending.len();
        let mut room_bytes = SNAP_LEN_MAX as usize;
        let mut given_bytes: usize = 0;
        let header_bytes = header_bytes(self.format);
        self.pending.resize(start + header_bytes, 0);
        for chunk in chunks {
            let kept = &chunk[..chunk.len().min(room_bytes)];
            self.pending.extend_from_slice(kept);
            room_bytes -= kept.len();
            given_bytes = given_bytes.saturating_add(chunk.len());
        }
        let given_len = u32::try_from(given_bytes).unwrap_or(u32::MAX);
        if given_len > wire_len {
            return Err(Fault::RecordOverWire { captured: given_len, wire: wire_len });
        }
        let captured_len = given_len.min(SNAP_LEN_MAX);
        let record = RecordHeader { ts_ns, captured_len, wire_len };
        let classic = record.encode(&self.header);
        let at = start..start + header_bytes;
        match self.format {
            FileFormat::Pcap => self.pending[at].copy_from_slice(&classic?),
            FileFormat::Pcapng => {
                // A pcapng file has later times.
                if let Err(fault) = classic.as_ref()
                    && !matches!(fault, Fault::TimeTooLate { .. })
                {
                    classic?;
                }
                self.pending[at].copy_from_slice(&blocks::packet(&record, &self.header));
                blocks::end_packet(&mut self.pending, start, self.header.byte_order);
            }
        }
        (self.packets, self.last_ns) = (self.packets + 1, ts_ns);
        Ok(())
    }

    /// Returns the sink.
    #[doc(hidden)]
    pub fn sink_mut(&mut self) -> &mut W {
        &mut self.sink
    }

    /// True if the next record makes it write.
    #[doc(hidden)]
    pub fn is_full(&self) -> bool {
        self.pending.len() >= WRITE_BUFFER_BYTES
    }

    /// True if records are gathered and not written.
    #[doc(hidden)]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the gathered records.
    ///
    /// # Errors
    ///
    /// If writing fails. Records that could not be written are kept and tried again by the next call.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        self.write_pending()?;
        self.sink.flush().map_err(|cause| self.cannot_write(cause))
    }

    /// Writes the gathered records if that was last done a second ago, at `now_ns`: a reader that follows the
    /// file sees them, and a kill loses no more.
    ///
    /// # Errors
    ///
    /// Those of [`Self::flush`].
    pub fn flush_late(&mut self, now_ns: u64) -> Result<(), PcapError> {
        let flushes = FLUSHES.load(Relaxed);
        let is_due = flushes != self.flushes || now_ns.saturating_sub(self.flushed_ns) >= LATE_NS;
        if self.pending.is_empty() || !is_due {
            return Ok(());
        }
        (self.flushed_ns, self.flushes) = (now_ns, flushes);
        self.flush()
    }

    /// Writes the gathered records and closes the file.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn finish(mut self) -> Result<(), PcapError> {
        self.end()
    }

    /// Works like [`Self::finish`]. Once it has failed, the records that were not written are counted by
    /// [`Self::pending_records`].
    #[doc(hidden)]
    pub fn end(&mut self) -> Result<(), PcapError> {
        if self.format == FileFormat::Pcapng && !self.has_ended {
            blocks::statistics(&mut self.pending, &self.header, self.last_ns, self.packets, &self.drops);
        }
        self.has_ended = true;
        let outcome = self.flush();
        let whole_bytes = self.whole_bytes();
        if self.begun_bytes > 0 && (self.cut)(&mut self.sink, whole_bytes) {
            // The file may go on once there is room.
            (self.written_bytes, self.begun_bytes) = (whole_bytes, 0);
        }
        outcome
    }

    /// Says what the interface has dropped, by reason: a pcapng file has it at its end.
    pub fn note_drops(&mut self, drops: impl IntoIterator<Item = (String, u64)>) {
        self.drops = drops.into_iter().filter(|(_, count)| *count > 0).collect();
    }

    /// Returns why it does not go on in the next file, once.
    #[doc(hidden)]
    pub fn take_trouble(&mut self) -> Option<PcapError> {
        self.trouble.take()
    }

    /// Returns the number of records that are not in the file, or not whole.
    #[doc(hidden)]
    pub fn pending_records(&self) -> u64 {
        self.whole_in(self.pending.len()).1
    }

    /// Returns the bytes of the file as far as its records are whole.
    fn whole_bytes(&self) -> u64 {
        self.written_bytes - self.begun_bytes as u64
    }

    /// Returns bytes and number of the whole records in the first `len` pending bytes, with the head.
    fn whole_in(&self, len: usize) -> (usize, u64) {
        match self.pending[..len].get(self.head_bytes..) {
            None => (0, 0),
            Some(records) => {
                let (bytes, count) = records_in(self.format, self.header.byte_order, records);
                (self.head_bytes + bytes, count)
            }
        }
    }

    /// Has a file that another program emptied (`copytruncate` of logrotate(8)) begin anew, with its head.
    /// One that was made shorter has another writer, whose records end anywhere.
    fn begin_anew_if_cut(&mut self) -> Result<(), PcapError> {
        let is_cut = |len_bytes: &u64| *len_bytes < self.written_bytes;
        match (self.len_bytes)(&self.sink).filter(is_cut) {
            Some(0) if !self.pending.is_empty() => {
                if self.head_bytes == 0 {
                    self.pending.splice(..0, self.head.iter().copied());
                    self.head_bytes = self.head.len();
                }
                (self.written_bytes, self.begun_bytes) = (0, 0);
                Ok(())
            }
            None | Some(0) => Ok(()),
            Some(len_bytes) => Err(self.cannot_write(shortened(len_bytes))),
        }
    }

    fn write_pending(&mut self) -> Result<(), PcapError> {
        self.begin_anew_if_cut()?;
        let (done, failure) = drain_into(&mut self.sink, &self.pending[self.begun_bytes..]);
        let there = self.begun_bytes + done;
        let whole = if failure.is_none() { there } else { self.whole_in(there).0 };
        self.pending.drain(..whole);
        self.head_bytes = self.head_bytes.saturating_sub(whole);
        (self.begun_bytes, self.written_bytes) = (there - whole, self.written_bytes + done as u64);
        failure.map_or(Ok(()), |cause| Err(self.cannot_write(cause)))
    }

    fn cannot_write(&self, cause: io::Error) -> PcapError {
        let (file, offset_bytes) = (self.name.clone(), self.written_bytes);
        PcapError::Write { file, offset_bytes, cause }
    }
}

impl<W: Write> Drop for PcapWriter<W> {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.end(); // documented: only `finish` can report it
        }
    }
}

/// Returns the error of a file that another program cut to `len_bytes`, and not to none.
#[doc(hidden)]
pub fn shortened(len_bytes: u64) -> io::Error {
    let what = "another program has made the file shorter, or writes it, too";
    io::Error::other(format!("{what}: it has {len_bytes} bytes"))
}

/// Writes until all is written or the sink fails. Returns the bytes written, and the failure.
fn drain_into(sink: &mut impl Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while done < bytes.len() {
        match sink.write(&bytes[done..]) {
            Ok(0) => return (done, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return (done, Some(cause)),
        }
    }
    (done, None)
}
