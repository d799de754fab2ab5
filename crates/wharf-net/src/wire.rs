//! Messages of `netlink(7)`: headers, attributes and requests. Whatever the bytes are, nothing here panics,
//! and each walk ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const HEADER_BYTES: usize = 16;
pub(crate) const ERROR: u16 = 2;
pub(crate) const DONE: u16 = 3;
/// A message, of any kind, of a dump that was interrupted by a change: the dump may miss something.
pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
pub(crate) const REQUEST: u16 = 1;
pub(crate) const ACK: u16 = 4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// Yields the messages of a datagram, up to the first whose length is no length.
pub(crate) fn messages(mut left: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(left, 0)? as usize;
        let body = left.get(HEADER_BYTES..length)?;
        let message =
            Message { kind: u16_at(left, 4)?, flags: u16_at(left, 6)?, sequence: u32_at(left, 8)?, body };
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Yields the attributes of a message or of a nest: kind without its flags, and payload.
pub(crate) fn attributes(mut left: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(left, 0)?);
        let payload = left.get(4..length)?;
        let kind = u16_at(left, 2)? & 0x3fff;
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Returns the payload of the first attribute of a kind.
pub(crate) fn attribute(attributes_of: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(attributes_of).find(|(found, _)| *found == kind).map(|(_, payload)| payload)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the number that an attribute of four bytes holds; 0 if it is shorter.
pub(crate) fn number(payload: &[u8]) -> u32 {
    u32_at(payload, 0).unwrap_or(0)
}

/// Returns an address of 4 or 16 bytes.
pub(crate) fn address(payload: &[u8]) -> Option<IpAddr> {
    match payload.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(*payload.first_chunk::<4>()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(*payload.first_chunk::<16>()?))),
        _ => None,
    }
}

/// Returns the text of an attribute without the zero byte that ends it.
pub(crate) fn text(payload: &[u8]) -> Box<str> {
    let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
    String::from_utf8_lossy(&payload[..end]).into()
}

/// A request that is being written.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// Begins a request with its fixed part, whose size is a multiple of four.
    pub(crate) fn new(kind: u16, flags: u16, sequence: u32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | REQUEST).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(fixed);
        Self(bytes)
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend((4 + payload.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Returns the bytes, with the length in front.
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}
