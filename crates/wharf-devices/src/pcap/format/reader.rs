//! Reading a capture, one packet at a time, from its start to its end.

use std::fs::{self, File};
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;

use super::error::{displayed, kind_name};
use super::input::Input;
use super::ng::{self, Section};
use super::{
    ByteOrder, Dialect, FILE_HEADER_LEN, Fault, FileHeader, Framing, Macs, PcapError, RECORD_HEADER_LEN,
    Record, RecordHeader, file_field,
};

const READ_BUFFER_BYTES: usize = 64 * 1024;
const MAGIC_LEN: usize = 4;

/// Reads a capture, pcap or pcapng, as a stream.
///
/// After an error the stream is out of step with the records, so [`Self::next`]
/// then gives the end.
#[derive(Debug)]
pub struct PcapReader<R = BufReader<File>> {
    input: Input<R>,
    format: Format,
    how: Framing,
    ended: bool,
}

/// The format, and the fields of its headers.
#[derive(Debug)]
enum Format {
    Classic(FileHeader, Dialect),
    Ng(Section),
}

impl PcapReader {
    /// Opens a regular file and reads its header.
    ///
    /// # Errors
    ///
    /// If the path names anything else, cannot be opened, or is no capture of
    /// Ethernet frames.
    pub fn open(path: &Path) -> Result<Self, PcapError> {
        let file = open_regular(path)?;
        Self::new(BufReader::with_capacity(READ_BUFFER_BYTES, file), &path.to_string_lossy())
    }
}

/// Opens a regular file, and nothing else.
pub(in crate::pcap) fn open_regular(path: &Path) -> Result<File, PcapError> {
    let name = path.to_string_lossy();
    let cannot_open = |cause| PcapError::Open { file: displayed(&name), cause };
    // Checked before opening, because opening a fifo waits and opening a device acts.
    let kind = fs::metadata(path).map_err(cannot_open)?.file_type();
    if !kind.is_file() {
        return Err(PcapError::NotRegular { file: displayed(&name), kind: kind_name(kind), verb: "reads" });
    }
    File::open(path).map_err(cannot_open)
}

impl<R: Read + Seek> PcapReader<R> {
    /// Begins again at the file's start.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn rewind(&mut self) -> Result<(), PcapError> {
        self.input.rewind()?;
        self.format = Format::read(&mut self.input)?;
        self.ended = false;
        Ok(())
    }
}

impl<R: Read> PcapReader<R> {
    /// Reads the header from a source that stands at its start. `name` is the
    /// file's name in errors. The source should be buffered.
    ///
    /// # Errors
    ///
    /// If reading fails or the source holds no capture of Ethernet frames.
    pub fn new(source: R, name: &str) -> Result<Self, PcapError> {
        let mut input = Input::new(source, name);
        let format = Format::read(&mut input)?;
        Ok(Self { input, format, how: Framing { macs: Some(Macs::default()), only: None }, ended: false })
    }

    /// Sets which packets become frames, and how: by default all do, with addresses of zeros.
    ///
    /// # Errors
    ///
    /// Without addresses, if no packet of the file is an Ethernet frame.
    pub fn framing(self, how: Framing) -> Result<Self, PcapError> {
        if let Format::Classic(_, dialect) = &self.format {
            let at = file_field::LINK_TYPE as u64;
            dialect.packets.check_addresses(how.macs).map_err(|fault| self.input.malformed_at(at, fault))?;
        }
        Ok(Self { how, ..self })
    }

    /// Reads the next packet: its captured bytes into `buf`, in place of what was
    /// there. Gives `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// If reading fails or the record is malformed; `buf` is then empty.
    pub fn next(&mut self, buf: &mut Vec<u8>) -> Result<Option<Record>, PcapError> {
        let outcome = match &mut self.format {
            _ if self.ended => Ok(None),
            Format::Classic(header, dialect) => next_record(&mut self.input, header, dialect, buf),
            Format::Ng(section) => section.next(&mut self.input, buf),
        };
        let packets = match &self.format {
            Format::Classic(_, dialect) => dialect.packets,
            Format::Ng(section) => section.packets,
        };
        if let Ok(Some(record)) = outcome {
            return Ok(Some(packets.framed(record, buf, self.how)));
        }
        self.ended = true;
        buf.clear();
        outcome
    }

    /// The file's name, as errors show it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// Returns the offset in the file at which the record (or block) read last starts.
    #[must_use]
    pub const fn record_offset_bytes(&self) -> u64 {
        self.input.record_offset_bytes
    }

    /// The byte order of the file's headers; of a pcapng file, the present section's.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        match &self.format {
            Format::Classic(header, _) => header.byte_order,
            Format::Ng(section) => section.byte_order,
        }
    }
}

impl Format {
    /// Reads the headers before the first packet.
    fn read<R: Read>(input: &mut Input<R>) -> Result<Self, PcapError> {
        let mut bytes = [0; FILE_HEADER_LEN];
        let (magic, rest) = bytes.split_at_mut(MAGIC_LEN);
        let mut present = input.fill(magic)?;
        if magic == ng::SECTION {
            return Section::open(input).map(Self::Ng);
        }
        if present == MAGIC_LEN {
            present += input.fill(rest)?;
        }
        let header = FileHeader::parse(&bytes[..present]);
        header
            .map(|(header, dialect)| Self::Classic(header, dialect))
            .map_err(|(offset_bytes, fault)| input.malformed_at(offset_bytes, fault))
    }
}

/// Reads the next record of a classic file.
fn next_record<R: Read>(
    input: &mut Input<R>, file: &FileHeader, dialect: &Dialect, buf: &mut Vec<u8>,
) -> Result<Option<Record>, PcapError> {
    input.begin();
    let (mut bytes, more_bytes) = ([0; RECORD_HEADER_LEN], dialect.more_header_bytes);
    let len = RECORD_HEADER_LEN + more_bytes;
    let header = match input.fill(&mut bytes)? {
        0 => return Ok(None),
        RECORD_HEADER_LEN => RecordHeader::parse(&bytes, file, dialect),
        present => Err(Fault::RecordHeaderCutShort { present, len }),
    };
    let RecordHeader { ts_ns, captured_len: captured, wire_len } =
        header.map_err(|fault| input.malformed(fault))?;
    if more_bytes > 0 && input.skip(more_bytes as u64)? < more_bytes as u64 {
        let present = input.record_bytes() as usize;
        return Err(input.malformed(Fault::RecordHeaderCutShort { present, len }));
    }
    buf.resize(captured as usize, 0); // at most SNAP_LEN_MAX
    let present = input.fill(buf)?;
    if present < buf.len() {
        return Err(input.malformed(Fault::RecordCutShort { present, captured }));
    }
    Ok(Some(Record { ts_ns, wire_len, left_out: None }))
}

/// Reads a whole capture from memory and counts its packets: the entry for
/// fuzzing. Errors call the file `memory`.
///
/// # Errors
///
/// The errors of reading the same bytes from a file.
pub fn parse_bytes(bytes: &[u8]) -> Result<usize, PcapError> {
    let mut reader = PcapReader::new(Cursor::new(bytes), "memory")?;
    let mut buf = Vec::new();
    let mut packet_count = 0;
    while reader.next(&mut buf)?.is_some() {
        packet_count += 1;
    }
    Ok(packet_count)
}
