//! Reading a capture, one packet at a time, from its start to its end and again.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::{displayed, kind_name};
use super::{
    ByteOrder, FILE_HEADER_LEN, Fault, FileHeader, LINK_TYPE_ETHERNET, PcapError, RECORD_HEADER_LEN,
    RecordHeader, Resolution,
};

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// One packet of a capture, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the packet was captured, since 1970 (UTC).
    pub ts_ns: u64,
    /// How many bytes the packet had on the wire, check sequence aside. More than
    /// were captured if the capture was snapped.
    pub wire_len: u32,
}

/// Reads a capture as a stream.
///
/// After an error the stream is out of step with the records, so [`Self::next`]
/// then gives the end, until [`Self::rewind`].
#[derive(Debug)]
pub struct PcapReader<R = BufReader<File>> {
    source: R,
    name: String,
    header: FileHeader,
    /// Where the last record started, and where the next one does.
    record_offset_bytes: u64,
    offset_bytes: u64,
    ended: bool,
}

impl PcapReader {
    /// Opens a regular file and reads its header.
    ///
    /// # Errors
    ///
    /// If the path names anything else, cannot be opened, or is no capture of
    /// Ethernet frames.
    pub fn open(path: &Path) -> Result<Self, PcapError> {
        let name = path.to_string_lossy();
        let cannot_open = |cause| PcapError::Open { file: displayed(&name), cause };
        // Before opening, because opening a fifo waits and opening a device acts.
        let kind = fs::metadata(path).map_err(cannot_open)?.file_type();
        if !kind.is_file() {
            return Err(PcapError::NotRegular {
                file: displayed(&name),
                kind: kind_name(kind),
                verb: "reads",
            });
        }
        let file = File::open(path).map_err(cannot_open)?;
        Self::new(BufReader::with_capacity(READ_BUFFER_BYTES, file), &name)
    }
}

impl<R: Read> PcapReader<R> {
    /// Reads the header from a source that stands at its start. `name` is the
    /// file's name in errors. The source should be buffered.
    ///
    /// # Errors
    ///
    /// If reading fails or the source holds no capture of Ethernet frames.
    pub fn new(mut source: R, name: &str) -> Result<Self, PcapError> {
        let file = displayed(name);
        let mut bytes = [0; FILE_HEADER_LEN];
        let present = match fill(&mut source, &mut bytes) {
            (present, None) => present,
            (present, Some(cause)) => {
                return Err(PcapError::Read { file, offset_bytes: present as u64, cause });
            }
        };
        match FileHeader::parse(&bytes[..present]) {
            Ok(header) => Ok(Self {
                source,
                name: file,
                header,
                record_offset_bytes: FILE_HEADER_LEN as u64,
                offset_bytes: FILE_HEADER_LEN as u64,
                ended: false,
            }),
            Err((offset_bytes, fault)) => Err(PcapError::Malformed { file, offset_bytes, fault }),
        }
    }

    /// Reads the next packet: its captured bytes into `buf`, in place of what was
    /// there. Gives `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// If reading fails or the record is malformed; `buf` is then empty.
    pub fn next(&mut self, buf: &mut Vec<u8>) -> Result<Option<Record>, PcapError> {
        let outcome = if self.ended { Ok(None) } else { self.next_record(buf) };
        if !matches!(outcome, Ok(Some(_))) {
            self.ended = true;
            buf.clear();
        }
        outcome
    }

    fn next_record(&mut self, buf: &mut Vec<u8>) -> Result<Option<Record>, PcapError> {
        self.record_offset_bytes = self.offset_bytes;
        let mut bytes = [0; RECORD_HEADER_LEN];
        let header = match self.fill_at(0, &mut bytes)? {
            0 => return Ok(None),
            RECORD_HEADER_LEN => RecordHeader::parse(&bytes, &self.header),
            present => Err(Fault::RecordHeaderCutShort { present }),
        };
        let RecordHeader { ts_ns, captured_len: captured, wire_len } =
            header.map_err(|fault| self.malformed(fault))?;
        buf.resize(captured as usize, 0); // at most SNAP_LEN_MAX
        let present = self.fill_at(RECORD_HEADER_LEN, buf)?;
        if present < buf.len() {
            return Err(self.malformed(Fault::RecordCutShort { present, captured }));
        }
        self.offset_bytes += (RECORD_HEADER_LEN + present) as u64;
        Ok(Some(Record { ts_ns, wire_len }))
    }

    /// Fills `bytes` from the place `at` of the current record, as far as the
    /// source goes.
    fn fill_at(&mut self, at: usize, bytes: &mut [u8]) -> Result<usize, PcapError> {
        match fill(&mut self.source, bytes) {
            (present, None) => Ok(present),
            (present, Some(cause)) => Err(PcapError::Read {
                file: self.name.clone(),
                offset_bytes: self.record_offset_bytes + (at + present) as u64,
                cause,
            }),
        }
    }

    fn malformed(&self, fault: Fault) -> PcapError {
        let (file, offset_bytes) = (self.name.clone(), self.record_offset_bytes);
        PcapError::Malformed { file, offset_bytes, fault }
    }

    /// The file's name, as errors show it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where in the file the record that was read last starts.
    #[must_use]
    pub const fn record_offset_bytes(&self) -> u64 {
        self.record_offset_bytes
    }

    /// The link type; always [`LINK_TYPE_ETHERNET`], other files are not opened.
    #[must_use]
    pub const fn link_type(&self) -> u32 {
        LINK_TYPE_ETHERNET
    }

    /// The longest record the file may hold, in bytes: what the file states, or
    /// [`super::SNAP_LEN_MAX`] if it states 0 or more than that.
    #[must_use]
    pub const fn snap_len(&self) -> u32 {
        self.header.snap_len
    }

    /// The unit in which the file counts a second's fractions.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        self.header.resolution
    }

    /// The byte order of the file's headers.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.header.byte_order
    }
}

impl<R: Read + Seek> PcapReader<R> {
    /// Goes back to the first packet.
    ///
    /// # Errors
    ///
    /// If seeking fails.
    pub fn rewind(&mut self) -> Result<(), PcapError> {
        let start = FILE_HEADER_LEN as u64;
        self.ended = true; // if it fails, the place is unknown
        self.source.seek(SeekFrom::Start(start)).map_err(|cause| PcapError::Read {
            file: self.name.clone(),
            offset_bytes: start,
            cause,
        })?;
        self.record_offset_bytes = start;
        self.offset_bytes = start;
        self.ended = false;
        Ok(())
    }
}

/// Reads a whole capture from memory and counts its packets: the entry for
/// fuzzing. Errors call the file `memory`.
///
/// # Errors
///
/// As reading the same bytes from a file.
pub fn parse_bytes(bytes: &[u8]) -> Result<usize, PcapError> {
    let mut reader = PcapReader::new(Cursor::new(bytes), "memory")?;
    let mut buf = Vec::new();
    let mut packet_count = 0;
    while reader.next(&mut buf)?.is_some() {
        packet_count += 1;
    }
    Ok(packet_count)
}

/// Reads until `bytes` is full, the source ends or fails; gives what was read,
/// and the failure.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut present = 0;
    while present < bytes.len() {
        match source.read(&mut bytes[present..]) {
            Ok(0) => break,
            Ok(count) => present += count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return (present, Some(cause)),
        }
    }
    (present, None)
}
