//! Settings of a capture to be written, and where its records end.

use super::blocks::PACKET_HEADER_BYTES;
use super::ng::ENHANCED_PACKET;
use super::rotation::Rotation;
use super::{ByteOrder, RECORD_HEADER_LEN, Resolution, captured_len};
use std::path::Path;

/// The format of a capture to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// Classic pcap.
    #[default]
    Pcap,
    /// With the interface's name, and its drops at the end.
    Pcapng,
}

impl FileFormat {
    /// Returns that of a file of this name.
    pub fn of(name: &str) -> Self {
        match Path::new(name).extension() {
            Some(end) if end.eq_ignore_ascii_case("pcapng") => Self::Pcapng,
            _ => Self::Pcap,
        }
    }
}

/// Settings of a capture to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapOptions {
    /// The format; by the file's name if `None`.
    pub format: Option<FileFormat>,
    /// When it goes on in another file.
    pub rotation: Option<Rotation>,
    /// The unit in which a second's fractions are counted.
    pub resolution: Resolution,
    /// The byte order of the headers.
    pub byte_order: ByteOrder,
}

impl Default for PcapOptions {
    /// Nanoseconds, because a fast link carries several packets in a microsecond;
    /// little-endian on every machine, so that the same packets make the same
    /// file.
    fn default() -> Self {
        let (resolution, byte_order) = (Resolution::Nanoseconds, ByteOrder::Little);
        Self { format: None, rotation: None, resolution, byte_order }
    }
}

/// Returns the bytes before a packet's data.
pub(super) const fn header_bytes(format: FileFormat) -> usize {
    match format {
        FileFormat::Pcap => RECORD_HEADER_LEN,
        FileFormat::Pcapng => PACKET_HEADER_BYTES,
    }
}

/// Returns bytes and number of the whole records at the start of `bytes`. A block of pcapng that is no
/// packet's has bytes alone.
#[doc(hidden)]
pub fn records_in(format: FileFormat, order: ByteOrder, bytes: &[u8]) -> (usize, u64) {
    let (mut whole, mut count) = (0, 0);
    while let Some(header) = bytes[whole..].first_chunk() {
        let (len, packets) = match format {
            FileFormat::Pcap => (RECORD_HEADER_LEN + captured_len(header, order), 1),
            // No writer's block is shorter than its length.
            FileFormat::Pcapng => {
                (order.u32_at(header, 4) as usize, u64::from(order.u32_at(header, 0) == ENHANCED_PACKET))
            }
        };
        if whole + len > bytes.len() {
            break;
        }
        (whole, count) = (whole + len, count + packets);
    }
    (whole, count)
}
