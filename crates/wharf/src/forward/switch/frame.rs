//! What a switch reads of a frame, and the VLANs that a port is in.

use super::table::Station;
use wharf_core::pool::{NoRoom, Packet};
use wharf_packet::{ETHERNET_BYTES, ETHERTYPE_VLAN, VLAN_BYTES};

/// Bytes in front of a tag: destination and source.
const ADDRESSES_BYTES: usize = 12;
/// Bits of a tag's second word that are the VLAN's number: no VLAN has all of them (IEEE 802.1Q, table 9-2).
const VLAN_MASK: u16 = 0xfff;

/// The VLANs that a port is in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::forward) enum Vlans {
    /// All: frames keep their tags; those without are in a VLAN 0 of their own.
    #[default]
    Any,
    /// One: its frames have no tags here.
    One(u16),
    /// These: all frames have tags.
    These(Vec<u16>),
}

impl Vlans {
    /// Returns the VLAN of a frame with this tag that arrives at the port, if that may be.
    fn of(&self, tag: Option<u16>) -> Option<u16> {
        match (self, tag) {
            (Self::Any, tag) => Some(tag.unwrap_or(0)).filter(|vlan| *vlan < VLAN_MASK),
            (Self::One(vlan), None) => Some(*vlan),
            (Self::These(vlans), Some(tag)) if vlans.contains(&tag) => Some(tag),
            _ => None,
        }
    }

    pub(super) fn has(&self, vlan: u16) -> bool {
        match self {
            Self::Any => true,
            Self::One(own) => *own == vlan,
            Self::These(vlans) => vlans.contains(&vlan),
        }
    }

    /// True if frames of `vlan` have a tag where they leave.
    pub(super) fn tags(&self, vlan: u16) -> bool {
        vlan != 0 && !matches!(self, Self::One(_))
    }
}

/// Reads `1` to `4094`, one VLAN without tags, or several with tags: `10+20`; `10+` is one.
impl std::str::FromStr for Vlans {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: want a VLAN, 1 to 4094, or several with tags: 10+20");
        let one = |part: &str| {
            part.parse().ok().filter(|vlan| (1..=VLAN_MASK - 1).contains(vlan)).ok_or_else(wrong)
        };
        match text.split_once('+') {
            None => one(text).map(Self::One),
            Some((first, "")) => Ok(Self::These(vec![one(first)?])),
            Some(_) => text.split('+').map(one).collect::<Result<_, _>>().map(Self::These),
        }
    }
}

/// Where a frame wants to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Station(Station),
    /// To all of its VLAN: a group, or all.
    Group,
}

/// What a switch reads of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) from: Station,
    pub(super) to: Wanted,
    pub(super) vlan: u16,
    pub(super) is_tagged: bool,
    /// It has a tag of VLAN 0, which is that of a priority alone, and is in another VLAN.
    pub(super) has_priority: bool,
}

/// The reason why a frame goes nowhere, whatever the switch knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    Address,
    LinkLocal,
    Vlan,
}

impl Read {
    /// Reads a frame that begins with `head`, at a port in `vlans`.
    pub(super) fn of(head: &[u8], vlans: &Vlans) -> Result<Self, Wrong> {
        let Some((header, rest)) = head.split_first_chunk::<ETHERNET_BYTES>() else {
            return Err(Wrong::Address);
        };
        let [a, b, c, d, e, f, g, h, i, j, k, l, high, low] = *header;
        let (to, from) = ([a, b, c, d, e, f], [g, h, i, j, k, l]);
        if g & 1 != 0 || from == [0; 6] {
            return Err(Wrong::Address);
        }
        // IEEE 802.1Q, table 8-1: of a link alone. Those of a spanning tree go on, as by Linux without one.
        if matches!(to, [0x01, 0x80, 0xc2, 0, 0, 1..=0x0f]) {
            return Err(Wrong::LinkLocal);
        }
        let tag = (u16::from_be_bytes([high, low]) == ETHERTYPE_VLAN).then(|| rest.first_chunk());
        let tag = match tag {
            Some(Some(tag)) => Some(u16::from_be_bytes(*tag) & VLAN_MASK),
            Some(None) => return Err(Wrong::Address),
            None => None,
        };
        let vlan = vlans.of(tag.filter(|vlan| *vlan != 0)).ok_or(Wrong::Vlan)?;
        let to = if a & 1 != 0 { Wanted::Group } else { Wanted::Station(Station::new(to, vlan)) };
        let (is_tagged, has_priority) =
            (tag.is_some_and(|tag| tag == vlan) && vlan != 0, tag == Some(0) && vlan != 0);
        Ok(Self { from: Station::new(from, vlan), to, vlan, is_tagged, has_priority })
    }

    /// Has the tag of a priority in `frame` be that of the VLAN.
    #[cold]
    pub(super) fn complete_tag(&mut self, frame: &mut [u8]) {
        let tag = frame.get_mut(ETHERNET_BYTES..).and_then(|rest| rest.first_chunk_mut());
        tag.into_iter().for_each(|tag| *tag = (u16::from_be_bytes(*tag) | self.vlan).to_be_bytes());
        (self.is_tagged, self.has_priority) = (true, false);
    }
}

/// Puts the tag of `vlan` into a frame, or takes the one that it has off.
///
/// # Errors
/// [`NoRoom`]: no headroom, or a frame that is too short.
pub(super) fn retag(packet: &mut Packet, vlan: Option<u16>) -> Result<(), NoRoom> {
    match vlan {
        Some(vlan) => {
            packet.prepend(VLAN_BYTES)?;
            let head = packet.head_mut();
            head.copy_within(VLAN_BYTES..VLAN_BYTES + ADDRESSES_BYTES, 0);
            head[ADDRESSES_BYTES..][..2].copy_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
            head[ADDRESSES_BYTES + 2..][..2].copy_from_slice(&vlan.to_be_bytes());
            Ok(())
        }
        None => {
            packet.head_mut().copy_within(..ADDRESSES_BYTES, VLAN_BYTES);
            packet.trim_front(VLAN_BYTES)
        }
    }
}
