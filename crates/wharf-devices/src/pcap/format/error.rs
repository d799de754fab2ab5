//! Errors of a capture file, each in one line that names the file.

use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;

use super::{FILE_HEADER_LEN, LINK_TYPE_ETHERNET, SNAP_LEN_MAX};

/// An error about one capture file.
///
/// The operating system's reason is part of the message, so it is not offered a
/// second time through [`std::error::Error::source`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum PcapError {
    /// The file could not be opened or created.
    #[error("{file}: cannot open: {cause}")]
    Open { file: String, cause: io::Error },
    /// The path names something that is not read or not written.
    #[error("{file}: is a {kind}; wharf {verb} regular files")]
    NotRegular { file: String, kind: &'static str, verb: &'static str },
    /// The operating system failed to read.
    #[error("{file}: byte {offset_bytes}: cannot read: {cause}")]
    Read { file: String, offset_bytes: u64, cause: io::Error },
    /// The operating system failed to write, for instance on a full disk.
    #[error("{file}: byte {offset_bytes}: cannot write: {cause}")]
    Write { file: String, offset_bytes: u64, cause: io::Error },
    /// The file's content, or the packet to be written, is no valid capture. The offset is that of the record, or of
    /// the file header's field, that is at fault.
    #[error("{file}: byte {offset_bytes}: {fault}")]
    Malformed { file: String, offset_bytes: u64, fault: Fault },
}

/// Violation of the format in a header or a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Fault {
    /// The file holds nothing.
    #[error("the file is empty; a pcap file starts with a {FILE_HEADER_LEN}-byte header")]
    Empty,
    /// The file ends within its header.
    #[error("file header cut short ({present} of {FILE_HEADER_LEN} bytes)")]
    HeaderCutShort { present: usize },
    /// The first four bytes are none of pcap's.
    #[error("not a pcap file: it starts with {}{}", hex(*found), hint(*found))]
    Magic { found: [u8; 4] },
    /// A version of the format other than 2.0 to 2.5.
    #[error("pcap version {major}.{minor} is not supported, only 2.0 to 2.5")]
    Version { major: u16, minor: u16 },
    /// The packets are no Ethernet frames, and nothing that becomes some.
    #[error(
        "link type {link_type}{} is not supported, only Ethernet ({LINK_TYPE_ETHERNET}), Linux cooked, raw IP and loopback",
        link_name(*link_type)
    )]
    LinkType { link_type: u32 },
    /// The packets become Ethernet frames, and no addresses were given for them.
    #[error(
        "packets of link type {link_type}{} have no Ethernet addresses: --mac SRC,DST gives them",
        link_name(*link_type)
    )]
    NoAddresses { link_type: u32 },
    /// The file ends within a record's header.
    #[error("record header cut short ({present} of {len} bytes)")]
    RecordHeaderCutShort { present: usize, len: usize },
    /// The file ends within a record's packet.
    #[error("record cut short ({present} of {captured} captured bytes)")]
    RecordCutShort { present: usize, captured: u32 },
    /// A packet without bytes, to be written.
    #[error("record of length 0")]
    RecordEmpty,
    /// A record longer than any that is read or written.
    #[error("record of {captured} bytes is longer than the limit of {SNAP_LEN_MAX}")]
    RecordTooLong { captured: u32 },
    /// A record longer than the packet it was taken from, to be written.
    #[error("record of {captured} bytes is longer than its packet of {wire}")]
    RecordOverWire { captured: u32, wire: u32 },
    /// A pcapng file ends within the first fields of a block.
    #[error("block header cut short ({present} bytes)")]
    BlockHeadCutShort { present: usize },
    /// A pcapng file ends within a block.
    #[error("block cut short ({present} of {len} bytes)")]
    BlockCutShort { present: u64, len: u32 },
    /// A block's length is no multiple of 4.
    #[error("block of {len} bytes: the length must be a multiple of 4")]
    BlockUneven { len: u32 },
    /// A block without room for the fields of its kind.
    #[error("{name} of {len} bytes is shorter than the least of {least}")]
    BlockTooShort { name: &'static str, len: u32, least: u32 },
    /// A block that ends with another length than it began with.
    #[error("block begins with a length of {first} and ends with one of {last}")]
    BlockLengths { first: u32, last: u32 },
    /// A section whose byte-order magic is wrong in both byte orders.
    #[error("section without a byte order: {} in its place", hex(*found))]
    ByteOrderMagic { found: [u8; 4] },
    /// A version of pcapng that is not known.
    #[error("pcapng version {major}.{minor} is not supported, only 1.0 and 1.2")]
    NgVersion { major: u16, minor: u16 },
    /// A packet of an interface that the section has not described.
    #[error("packet of interface {interface}, but {described} were described")]
    NoInterface { interface: u32, described: usize },
    /// A section with more interfaces than any machine has.
    #[error("more than {} interfaces in a section", super::INTERFACES_MAX)]
    InterfacesTooMany,
    /// A packet that does not fit its block.
    #[error("packet of {captured} bytes in a block with room for {room}")]
    PacketOverBlock { captured: u32, room: u32 },
    /// An option that does not fit its block.
    #[error("option {code} of {len} bytes in a block with room for {room}")]
    OptionOverBlock { code: u16, len: u16, room: u32 },
    /// An option of another length than its kind has.
    #[error("option {code} of {len} bytes, which has {expected}")]
    OptionLength { code: u16, len: u16, expected: u16 },
    /// An interface that counts time in units that 64 bits cannot count a second of.
    #[error("interface with a time resolution of 0x{stated:02x}, finer than 64 bits can count")]
    ResolutionTooFine { stated: u8 },
    /// A time stamp that is before 1970, or after 2554.
    #[error("time stamp of {units} units is before 1970 or after 2554")]
    TimeOutOfRange { units: u64 },
    /// A time stamp after the year 2106.
    #[error("time stamp of {ts_ns} ns does not fit the format's 32 bits of seconds")]
    TimeTooLate { ts_ns: u64 },
}

/// A file's name as it stands in messages: control characters and separators of
/// lines are escaped, so that a message stays one line.
pub fn displayed(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns the name of a kind of file that is not regular.
pub(super) fn kind_name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "directory"
    } else if kind.is_symlink() {
        "symbolic link"
    } else if kind.is_fifo() {
        "fifo"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_block_device() {
        "block device"
    } else if kind.is_char_device() {
        "character device"
    } else {
        "special file"
    }
}

fn hex([a, b, c, d]: [u8; 4]) -> String {
    format!("{a:02x} {b:02x} {c:02x} {d:02x}")
}

/// Returns advice on a file that begins with these bytes.
const fn hint(magic: [u8; 4]) -> &'static str {
    match magic {
        [0x1f, 0x8b, ..] => " (compressed with gzip: `zcat FILE | wharf ...` reads it as `-`)",
        [0x28, 0xb5, 0x2f, 0xfd] => " (compressed with zstd: `zstdcat FILE | wharf ...` reads it as `-`)",
        [0xfd, b'7', b'z', b'X'] => " (compressed with xz: `xzcat FILE | wharf ...` reads it as `-`)",
        [b'B', b'Z', b'h', _] => " (compressed with bzip2: `bzcat FILE | wharf ...` reads it as `-`)",
        [0x04, 0x22, 0x4d, 0x18] => " (compressed with lz4: `lz4cat FILE | wharf ...` reads it as `-`)",
        _ => "",
    }
}

/// The first error of several in a row: told once.
#[derive(Debug, Default)]
pub(in crate::pcap) enum ErrorOnce<E> {
    #[default]
    None,
    Due(E),
    Told,
}

impl<E> ErrorOnce<E> {
    /// Notes an error, unless another one came before.
    pub(in crate::pcap) fn note(&mut self, error: E) {
        if matches!(self, Self::None) {
            *self = Self::Due(error);
        }
    }

    /// Returns the error, once.
    pub(in crate::pcap) fn take(&mut self) -> Option<E> {
        if !matches!(self, Self::Due(_)) {
            return None;
        }
        match std::mem::replace(self, Self::Told) {
            Self::Due(error) => Some(error),
            Self::None | Self::Told => None,
        }
    }
}

/// The link types that captures of today have, by the registry's numbers.
const fn link_name(link_type: u32) -> &'static str {
    match link_type {
        0 | 108 => " (loopback)",
        9 => " (PPP)",
        12 | 14 | 101 | 228 | 229 => " (raw IP)",
        105 => " (IEEE 802.11)",
        113 | 276 => " (Linux cooked, from capturing on \"any\")",
        127 => " (IEEE 802.11 with radiotap)",
        _ => "",
    }
}
