//! Blocks of pcapng, as they are written: one section, one interface, a block for each packet, and at the end
//! what the interface has dropped. Layout: see `ng`.

use super::ng::{BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE, OPTION_END, SECTION};
use super::{ByteOrder, FileHeader, LINK_TYPE_ETHERNET, RecordHeader, Resolution, SNAP_LEN_MAX};

const STATISTICS: u32 = 5;
/// Bytes of a packet's block before its data: kind, length, interface, time and both lengths.
pub(super) const PACKET_HEADER_BYTES: usize = 28;

/// Codes of options.
mod code {
    pub(super) const COMMENT: u16 = 1;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const APPLICATION: u16 = 4;
    pub(super) const RECEIVED: u16 = 4;
    pub(super) const DROPPED: u16 = 5;
    pub(super) const RESOLUTION: u16 = 9;
}

/// Returns the blocks at the start of a file, whose packets are of `interface`.
pub(super) fn head(header: &FileHeader, interface: &str) -> Vec<u8> {
    let (order, mut bytes) = (header.byte_order, Vec::new());
    block(&mut bytes, order, u32::from_le_bytes(SECTION), |bytes| {
        bytes.extend(order.of_u32(BYTE_ORDER_MAGIC));
        bytes.extend([order.of_u16(1), order.of_u16(0)].concat());
        // The section's length is not known.
        bytes.extend([0xff; 8]);
        option(bytes, order, code::APPLICATION, concat!("wharf ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(bytes, order, OPTION_END, &[]);
    });
    block(&mut bytes, order, INTERFACE, |bytes| {
        bytes.extend([order.of_u16(LINK_TYPE_ETHERNET as u16), order.of_u16(0)].concat());
        bytes.extend(order.of_u32(SNAP_LEN_MAX));
        option(bytes, order, code::INTERFACE_NAME, interface.as_bytes());
        let digits = if header.resolution == Resolution::Nanoseconds { 9 } else { 6 };
        option(bytes, order, code::RESOLUTION, &[digits]);
        option(bytes, order, OPTION_END, &[]);
    });
    bytes
}

/// Returns the header of a packet's block. Its data follows, and then [`end_packet`].
pub(super) fn packet(record: &RecordHeader, header: &FileHeader) -> [u8; PACKET_HEADER_BYTES] {
    let order = header.byte_order;
    let units = record.ts_ns / u64::from(header.resolution.unit_ns());
    let len = PACKET_HEADER_BYTES as u32 + record.captured_len.next_multiple_of(4) + 4;
    let fields =
        [ENHANCED_PACKET, len, 0, (units >> 32) as u32, units as u32, record.captured_len, record.wire_len];
    let mut bytes = [0; PACKET_HEADER_BYTES];
    for (to, field) in bytes.chunks_exact_mut(4).zip(fields) {
        to.copy_from_slice(&order.of_u32(field));
    }
    bytes
}

/// Ends the packet's block that begins at `start`.
pub(super) fn end_packet(bytes: &mut Vec<u8>, start: usize, order: ByteOrder) {
    bytes.resize(start + (bytes.len() - start).next_multiple_of(4), 0);
    let len = (bytes.len() - start + 4) as u32;
    bytes.extend(order.of_u32(len));
}

/// Appends what the interface has received and dropped, by reason, by `ts_ns`.
pub(super) fn statistics(
    bytes: &mut Vec<u8>, header: &FileHeader, ts_ns: u64, received: u64, drops: &[(String, u64)],
) {
    let (order, units) = (header.byte_order, ts_ns / u64::from(header.resolution.unit_ns()));
    let dropped: u64 = drops.iter().map(|(_, count)| count).sum();
    let reasons: Vec<String> = drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    block(bytes, order, STATISTICS, |bytes| {
        [0, (units >> 32) as u32, units as u32].iter().for_each(|field| bytes.extend(order.of_u32(*field)));
        if dropped > 0 {
            option(bytes, order, code::COMMENT, format!("dropped: {}", reasons.join(", ")).as_bytes());
        }
        for (code, count) in [(code::RECEIVED, received + dropped), (code::DROPPED, dropped)] {
            option(bytes, order, code, &order.of_u64(count));
        }
        option(bytes, order, OPTION_END, &[]);
    });
}

/// Appends a block with the content that `fill` appends, a multiple of four bytes.
fn block(bytes: &mut Vec<u8>, order: ByteOrder, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend([order.of_u32(kind), [0; 4]].concat());
    fill(bytes);
    let len = order.of_u32((bytes.len() - start + 4) as u32);
    bytes[start + 4..start + 8].copy_from_slice(&len);
    bytes.extend(len);
}

/// Appends an option, of at most 64 KiB.
fn option(bytes: &mut Vec<u8>, order: ByteOrder, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    bytes.extend([order.of_u16(code), order.of_u16(value.len() as u16)].concat());
    bytes.extend(value);
    bytes.resize(bytes.len() + (4 - value.len() % 4) % 4, 0);
}
