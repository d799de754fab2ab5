//! Link types: how packets that are no Ethernet frames become some.
//!
//! Raw IP, the loopback types of BSD and Linux's cooked headers name the protocol of a packet. An Ethernet
//! header with that protocol takes the place of what stands before it. Its source is the address of the
//! cooked header, if that has one of Ethernet's length; a cooked broadcast goes to the broadcast address.
//! The caller gives the others. Layouts: tcpdump.org/linktypes. A check sequence at the end of a frame is
//! cut off: a device adds it again.

use super::{Fault, Record};
use crate::pcap::{DIRECTION, LINK_TYPE};

/// Ethernet addresses: source and destination.
pub type Macs = [[u8; 6]; 2];

/// The direction of a packet at the host that captured it, as a cooked header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It came.
    In,
    /// The host sent it.
    Out,
}

/// Which packets become Ethernet frames, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// The addresses of frames that are made of packets of other link types, where the packet has none.
    /// Without them, no frames are made.
    pub macs: Option<Macs>,
    /// Packets of the other direction are left out, and those whose header does not say.
    pub only: Option<Way>,
}

const ETHERNET: u32 = 1;
const ETHERNET_HEADER_BYTES: u32 = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The least protocol number that is no length.
const PROTOCOL_MIN: u16 = 0x0600;

/// The parts of the link type field of a classic file beside the link type itself (section 4).
mod field {
    pub(super) const LINK_TYPE: u32 = 0x03ff_ffff;
    pub(super) const CHECK_SEQUENCE_PRESENT: u32 = 0x0400_0000;
    /// Above this: the check sequence's length, in units of two bytes.
    pub(super) const CHECK_SEQUENCE_SHIFT: u32 = 28;
}

/// What the packets of a file, or of an interface, are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packets {
    pub(super) link_type: u32,
    /// Bytes of check sequence at the end of each.
    pub(super) check_sequence_bytes: u32,
}

impl Packets {
    /// Reads the field of a classic file.
    pub(super) fn of_field(field: u32) -> Result<Self, Fault> {
        let link_type = field & field::LINK_TYPE;
        if !is_known(link_type) {
            return Err(Fault::LinkType { link_type });
        }
        let is_present = field & field::CHECK_SEQUENCE_PRESENT != 0;
        let bytes = if is_present { 2 * (field >> field::CHECK_SEQUENCE_SHIFT) } else { 0 };
        Ok(Self { link_type, check_sequence_bytes: bytes })
    }

    /// Checks that there are addresses for the packets, if they need some.
    pub(super) fn check_addresses(self, macs: Option<Macs>) -> Result<(), Fault> {
        match (self.link_type, macs) {
            (ETHERNET, _) | (_, Some(_)) => Ok(()),
            (link_type, None) => Err(Fault::NoAddresses { link_type }),
        }
    }

    /// Makes the packet in `bytes` an Ethernet frame, if it can be one, and returns its record.
    pub(super) fn framed(self, record: Record, bytes: &mut Vec<u8>, how: Framing) -> Record {
        let mut record = record;
        if self.check_sequence_bytes > 0 {
            record.wire_len = record.wire_len.saturating_sub(self.check_sequence_bytes);
            bytes.truncate(record.wire_len as usize);
        }
        if how.only.is_some_and(|way| self.way(bytes) != Some(way)) {
            bytes.clear();
            return Record { left_out: Some(DIRECTION), ..record };
        }
        if self.link_type == ETHERNET || bytes.is_empty() {
            return record;
        }
        let replaced = how.macs.and_then(|macs| header(self.link_type, bytes, record.wire_len, macs));
        let Some((replaced_bytes, header)) = replaced else {
            bytes.clear();
            return Record { left_out: Some(LINK_TYPE), ..record };
        };
        bytes.splice(..replaced_bytes, header);
        let payload_bytes = record.wire_len.saturating_sub(replaced_bytes as u32);
        record.wire_len = payload_bytes.saturating_add(ETHERNET_HEADER_BYTES);
        record
    }

    /// Returns the direction of a packet, if its header has it.
    fn way(self, packet: &[u8]) -> Option<Way> {
        const OUTGOING: u8 = 4;
        let kind = match self.link_type {
            113 => *packet.get(1)?,
            276 => *packet.get(10)?,
            _ => return None,
        };
        Some(if kind == OUTGOING { Way::Out } else { Way::In })
    }
}

const fn is_known(link_type: u32) -> bool {
    matches!(link_type, 0 | ETHERNET | 12 | 14 | 101 | 108 | 113 | 228 | 229 | 276)
}

/// Returns the bytes at the start of a packet of `wire_bytes` that an Ethernet header replaces, and that
/// header.
fn header(link_type: u32, packet: &[u8], wire_bytes: u32, macs: Macs) -> Option<(usize, [u8; 14])> {
    let (replaced_bytes, [source, destination], protocol) = match link_type {
        0 | 108 => (4, macs, of_family(*packet.first_chunk()?)?),
        12 | 14 | 101 => (0, macs, of_version(*packet.first()?)?),
        228 => (0, macs, IPV4),
        229 => (0, macs, IPV6),
        113 => of_cooked(packet.first_chunk::<16>()?, macs)?,
        276 => of_cooked_2(packet.first_chunk::<20>()?, macs)?,
        _ => return None,
    };
    // Frames of 802.2 and 802.3 have their length in its place.
    let protocol = match protocol {
        PROTOCOL_MIN.. => protocol,
        1 | 4 => (wire_bytes - replaced_bytes as u32).min(1500) as u16,
        _ => return None,
    };
    let mut header = [0; 14];
    header[..6].copy_from_slice(&destination);
    header[6..12].copy_from_slice(&source);
    header[12..].copy_from_slice(&protocol.to_be_bytes());
    Some((replaced_bytes, header))
}

/// Returns the protocol of an address family, in either byte order: each system has its own number for IPv6.
fn of_family(family: [u8; 4]) -> Option<u16> {
    match u32::from_le_bytes(family).min(u32::from_be_bytes(family)) {
        2 => Some(IPV4),
        10 | 23 | 24 | 28 | 30 => Some(IPV6),
        _ => None,
    }
}

fn of_version(first: u8) -> Option<u16> {
    match first >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

fn of_cooked(header: &[u8; 16], macs: Macs) -> Option<(usize, Macs, u16)> {
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let macs = cooked_addresses(field(0), field(4), &header[6..12], macs);
    has_protocol(field(2)).then_some((header.len(), macs, field(14)))
}

fn of_cooked_2(header: &[u8; 20], macs: Macs) -> Option<(usize, Macs, u16)> {
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let macs = cooked_addresses(header[10].into(), header[11].into(), &header[12..18], macs);
    has_protocol(field(8)).then_some((header.len(), macs, field(0)))
}

/// False for devices of Linux whose packets have a number in the protocol's place that is none: frame relay,
/// 802.11 and Netlink.
fn has_protocol(device_type: u16) -> bool {
    !matches!(device_type, 770 | 801..=803 | 824)
}

/// Returns the addresses of a frame with such a cooked header.
fn cooked_addresses(kind: u16, address_bytes: u16, address: &[u8], macs: Macs) -> Macs {
    const BROADCAST: u16 = 1;
    let [mut source, destination] = macs;
    if address_bytes == 6 && address != [0; 6] {
        source.copy_from_slice(address);
    }
    [source, if kind == BROADCAST { [0xff; 6] } else { destination }]
}
