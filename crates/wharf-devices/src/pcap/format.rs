//! Captures, read and written packet by packet: classic pcap, and pcapng (see `ng`, `blocks`).
//!
//! A classic file is a 24-byte header and then records, each a 16-byte header and the
//! captured bytes. The first four bytes, the magic number, say in which byte
//! order the header's numbers are written and whether a time stamp's fraction
//! counts microseconds or nanoseconds; all four combinations are read and
//! written. Layout: draft-ietf-opsawg-pcap, sections 4 and 5.
//!
//! # Rejected files
//!
//! A malformed file gives a [`PcapError`] of one line that names the file and the
//! byte where the faulty header or record starts, for instance
//! `x.pcap: byte 24: record header cut short (3 of 16 bytes)`. Refused are:
//!
//! - an empty file, a wrong magic number, a version other than 2.0 to 2.5, a link
//!   type that has no Ethernet frame (`link`);
//! - a header or a record cut short;
//! - a record longer than [`SNAP_LEN_MAX`];
//! - anything but a regular file. What a path names is looked up before it is
//!   opened, since opening a fifo waits for its other end.
//!
//! A record longer than the snap length of a pcap file is read whole, as Wireshark
//! does; libpcap cuts it. A record shorter than its packet (snapped) is not an error:
//! [`Record::wire_len`] tells, and the caller decides. A record of length 0 is read
//! like any other, without bytes: it is no frame, and readers of frames skip and
//! count it ([`Record::misfit`]). None is written.
//!
//! Other writers' files are read as libpcap reads them: records with more header than pcap's (`a1b2cd34`),
//! lengths in the other order before version 2.4, more bytes captured than were on the wire, a fraction of a
//! second or more (it is carried over into the seconds). A check sequence that the file tells of is cut off.
//!
//! Memory: one read buffer of 64 KiB and the caller's buffer for one packet.
//!
//! # Why not `pcap-parser`
//!
//! Version 0.17 was tried on the files that the tests here make. It neither
//! panics nor hangs, and its memory is bounded; but it hands out records longer
//! than their packet or with a fraction
//! beyond the second; it refuses a valid record that outgrows its buffer; and its
//! errors ("Unexpected end of file") name no place in the file. What it would save
//! is the two functions below that take the headers apart.

mod blocks;
mod create;
mod error;
mod input;
mod link;
mod ng;
mod options;
mod reader;
mod rotation;
mod writer;

#[doc(hidden)]
pub use create::{create_file, spare};
pub(in crate::pcap) use error::ErrorOnce;
#[doc(hidden)]
pub use error::displayed;
pub use error::{Fault, PcapError};
use link::Packets;
pub use link::{Framing, Macs, Way};
#[doc(hidden)]
pub use options::records_in;
pub use options::{FileFormat, PcapOptions};
pub(super) use reader::open_regular;
pub use reader::{PcapReader, parse_bytes};
pub use rotation::{ROTATION_KEYS, Rotation};
pub use writer::PcapWriter;
#[doc(hidden)]
pub use writer::{flush_all, shortened};

/// The longest record read or written, in bytes; libpcap's limit.
pub const SNAP_LEN_MAX: u32 = 262_144;
/// The link type of Ethernet, the only one written.
const LINK_TYPE_ETHERNET: u32 = 1;
/// Length of the header of a file, in bytes.
pub const FILE_HEADER_LEN: usize = 24;
/// Length of the header of a record, in bytes.
pub const RECORD_HEADER_LEN: usize = 16;
/// The most interfaces of a pcapng section. Each takes memory, and no capture tool writes so many.
pub const INTERFACES_MAX: usize = 65_536;

/// One packet of a capture, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of capture in nanoseconds since 1970 (UTC).
    pub ts_ns: u64,
    /// Bytes that the packet had on the wire, without the check sequence: more than were captured if the capture was
    /// snapped.
    pub wire_len: u32,
    /// The reason why no Ethernet frame is made of the packet, and its bytes are left out: its link type, or
    /// its direction.
    pub left_out: Option<&'static str>,
}

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Microseconds, and records with a longer header: of old Linux systems, and of routers.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// The rest of such a header: interface, protocol and kind of packet.
const MODIFIED_BYTES: usize = 8;
const VERSION: (u16, u16) = (2, 4);

/// Offsets of the fields of the file header.
mod file_field {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION_MAJOR: usize = 4;
    pub(super) const VERSION_MINOR: usize = 6;
    // 8..16: time zone and accuracy, always 0 and ignored.
    pub(super) const SNAP_LEN: usize = 16;
    pub(super) const LINK_TYPE: usize = 20;
}

/// Offsets of the fields of a record header.
mod record_field {
    pub(super) const SECONDS: usize = 0;
    pub(super) const FRACTION: usize = 4;
    pub(super) const CAPTURED_LEN: usize = 8;
    pub(super) const WIRE_LEN: usize = 12;
}

/// The unit of a time stamp's fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Millionths of a second.
    Microseconds,
    /// Billionths of a second.
    Nanoseconds,
}

impl Resolution {
    /// Returns the number of units in a second.
    #[must_use]
    pub const fn units_per_second(self) -> u32 {
        match self {
            Self::Microseconds => 1_000_000,
            Self::Nanoseconds => 1_000_000_000,
        }
    }

    /// Returns the nanoseconds in a unit.
    #[must_use]
    pub const fn unit_ns(self) -> u32 {
        1_000_000_000 / self.units_per_second()
    }

    const fn magic(self) -> u32 {
        match self {
            Self::Microseconds => MAGIC_MICROSECONDS,
            Self::Nanoseconds => MAGIC_NANOSECONDS,
        }
    }
}

/// The order in which a header's numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Turns bytes of this order into little-endian ones, and back.
    fn turned<const N: usize>(self, bytes: &[u8], at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&bytes[at..at + N]);
        if self == Self::Big {
            field.reverse();
        }
        field
    }

    fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(self.turned(bytes, at))
    }

    fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(self.turned(bytes, at))
    }

    fn u64_at(self, bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(self.turned(bytes, at))
    }

    fn of_u16(self, value: u16) -> [u8; 2] {
        self.turned(&value.to_le_bytes(), 0)
    }

    fn of_u32(self, value: u32) -> [u8; 4] {
        self.turned(&value.to_le_bytes(), 0)
    }

    fn of_u64(self, value: u64) -> [u8; 8] {
        self.turned(&value.to_le_bytes(), 0)
    }
}

/// Fields of a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileHeader {
    resolution: Resolution,
    byte_order: ByteOrder,
}

/// What a file's writer does in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dialect {
    packets: Packets,
    version_minor: u16,
    /// Bytes of a record's header behind the fields that all have.
    more_header_bytes: usize,
}

impl Dialect {
    /// Returns the bytes captured and those on the wire: they stand in the other order before 2.3, and in
    /// 2.3 in either.
    fn lengths(&self, first: u32, second: u32) -> (u32, u32) {
        match self.version_minor {
            0..=2 => (second, first),
            3 if first > second => (second, first),
            _ => (first, second),
        }
    }
}

impl FileHeader {
    /// Takes the first bytes of a file, fewer than a header's if the file ends
    /// there. An error comes with the offset of the field it is about.
    fn parse(bytes: &[u8]) -> Result<(Self, Dialect), (u64, Fault)> {
        let cut_short = (0, Fault::HeaderCutShort { present: bytes.len() });
        let magic = match *bytes {
            [] => return Err((0, Fault::Empty)),
            [a, b, c, d, ..] => [a, b, c, d],
            _ => return Err(cut_short),
        };
        let (resolution, byte_order, more_header_bytes) =
            recognise(magic).ok_or((0, Fault::Magic { found: magic }))?;
        if bytes.len() < FILE_HEADER_LEN {
            return Err(cut_short);
        }
        let version = (
            byte_order.u16_at(bytes, file_field::VERSION_MAJOR),
            byte_order.u16_at(bytes, file_field::VERSION_MINOR),
        );
        let (major, version_minor) = version;
        // Some writers say 2.5. Wireshark reads their files as 2.4.
        if major != VERSION.0 || version_minor > 5 {
            let fault = Fault::Version { major, minor: version_minor };
            return Err((file_field::VERSION_MAJOR as u64, fault));
        }
        let packets = Packets::of_field(byte_order.u32_at(bytes, file_field::LINK_TYPE))
            .map_err(|fault| (file_field::LINK_TYPE as u64, fault))?;
        let dialect = Dialect { packets, version_minor, more_header_bytes };
        Ok((Self { resolution, byte_order }, dialect))
    }

    fn encode(&self) -> [u8; FILE_HEADER_LEN] {
        let order = self.byte_order;
        let mut bytes = [0; FILE_HEADER_LEN];
        put(&mut bytes, file_field::MAGIC, &order.of_u32(self.resolution.magic()));
        put(&mut bytes, file_field::VERSION_MAJOR, &order.of_u16(VERSION.0));
        put(&mut bytes, file_field::VERSION_MINOR, &order.of_u16(VERSION.1));
        put(&mut bytes, file_field::SNAP_LEN, &order.of_u32(SNAP_LEN_MAX));
        put(&mut bytes, file_field::LINK_TYPE, &order.of_u32(LINK_TYPE_ETHERNET));
        bytes
    }
}

/// Bytes that follow the header of a record.
fn captured_len(header: &[u8; RECORD_HEADER_LEN], order: ByteOrder) -> usize {
    order.u32_at(header, record_field::CAPTURED_LEN) as usize
}

/// Fields of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordHeader {
    /// Since 1970, a multiple of the file's resolution.
    ts_ns: u64,
    /// Bytes that follow in the file.
    captured_len: u32,
    /// Bytes the packet had on the wire.
    wire_len: u32,
}

impl RecordHeader {
    fn parse(bytes: &[u8; RECORD_HEADER_LEN], file: &FileHeader, dialect: &Dialect) -> Result<Self, Fault> {
        let order = file.byte_order;
        let seconds = order.u32_at(bytes, record_field::SECONDS);
        let fraction = order.u32_at(bytes, record_field::FRACTION);
        let lengths = [record_field::CAPTURED_LEN, record_field::WIRE_LEN].map(|at| order.u32_at(bytes, at));
        let (captured_len, wire_len) = dialect.lengths(lengths[0], lengths[1]);
        let wire_len = wire_len.max(captured_len);
        check_lengths(captured_len, wire_len)?;
        let fraction_ns = u64::from(fraction) * u64::from(file.resolution.unit_ns());
        let ts_ns = u64::from(seconds) * 1_000_000_000 + fraction_ns;
        Ok(Self { ts_ns, captured_len, wire_len })
    }

    /// Precision beyond the file's resolution is cut off, not rounded, so that time stamps keep their order.
    fn encode(&self, file: &FileHeader) -> Result<[u8; RECORD_HEADER_LEN], Fault> {
        let order = file.byte_order;
        if self.captured_len == 0 {
            return Err(Fault::RecordEmpty);
        }
        check_lengths(self.captured_len, self.wire_len)?;
        let unit_count = self.ts_ns / u64::from(file.resolution.unit_ns());
        let per_second = u64::from(file.resolution.units_per_second());
        let seconds =
            u32::try_from(unit_count / per_second).map_err(|_| Fault::TimeTooLate { ts_ns: self.ts_ns })?;
        let fraction = (unit_count % per_second) as u32; // below 10^9
        let mut bytes = [0; RECORD_HEADER_LEN];
        put(&mut bytes, record_field::SECONDS, &order.of_u32(seconds));
        put(&mut bytes, record_field::FRACTION, &order.of_u32(fraction));
        put(&mut bytes, record_field::CAPTURED_LEN, &order.of_u32(self.captured_len));
        put(&mut bytes, record_field::WIRE_LEN, &order.of_u32(self.wire_len));
        Ok(bytes)
    }
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Returns the unit, the byte order, and the bytes by which a record's header is longer.
fn recognise(magic: [u8; 4]) -> Option<(Resolution, ByteOrder, usize)> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| match order.u32_at(&magic, 0) {
        MAGIC_MICROSECONDS => Some((Resolution::Microseconds, order, 0)),
        MAGIC_MODIFIED => Some((Resolution::Microseconds, order, MODIFIED_BYTES)),
        MAGIC_NANOSECONDS => Some((Resolution::Nanoseconds, order, 0)),
        _ => None,
    })
}

fn check_lengths(captured: u32, wire: u32) -> Result<(), Fault> {
    match captured {
        _ if captured > SNAP_LEN_MAX => Err(Fault::RecordTooLong { captured }),
        _ if captured > wire => Err(Fault::RecordOverWire { captured, wire }),
        _ => Ok(()),
    }
}
