//! Neighbours, and the forwarding databases of bridges and of VXLAN.

use super::{BRIDGE, Mac};
use crate::wire::{address, attributes, number, u16_at, u32_at};
use std::net::IpAddr;

pub(crate) const FAILED: u16 = 0x20;
const STALE: u16 = 4;
const NO_ARP: u16 = 0x40;
pub(crate) const PERMANENT: u16 = 0x80;
/// States in which the kernel sends to the address: reachable, stale, delay, probe, no ARP, permanent.
pub(crate) const NEIGHBOUR_VALID: u16 = 2 | STALE | 8 | 0x10 | NO_ARP | PERMANENT;
const PROXY: u8 = 8;

/// A neighbour of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) state: u16,
    pub(crate) mac: Option<Mac>,
}

impl Neighbour {
    /// Returns its address if the kernel sends to it.
    pub(crate) fn valid_mac(&self) -> Option<Mac> {
        self.mac.filter(|_| self.state & NEIGHBOUR_VALID != 0)
    }

    /// Returns true if a sender would do the same with either.
    pub(crate) fn means(&self, other: &Self) -> bool {
        let meaning = |it: &Self| (it.valid_mac(), it.is_stale(), it.state & FAILED);
        meaning(self) == meaning(other)
    }

    /// Returns true if the kernel would confirm it on its next use.
    pub(crate) fn is_stale(&self) -> bool {
        self.state & STALE != 0
    }
}

/// Where a bridge's or a VXLAN's frames to a MAC go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FdbEntry {
    /// The port of a bridge; of a VXLAN the interface itself.
    pub(crate) interface: u32,
    pub(crate) remote: Option<IpAddr>,
    /// The bridge's own MAC, or one of its ports'.
    pub(crate) is_own: bool,
}

#[derive(Debug)]
pub(crate) enum NeighbourMessage {
    Neighbour { interface: u32, address: IpAddr, neighbour: Neighbour },
    Fdb { master: u32, mac: Mac, entry: FdbEntry },
}

/// Reads a neighbour or an entry of a forwarding database.
pub(crate) fn neighbour_of(body: &[u8]) -> Option<NeighbourMessage> {
    let (interface, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
    let (mut to, mut mac, mut master): (_, Option<Mac>, _) = (None, None, interface);
    for (kind, payload) in attributes(body.get(12..)?) {
        match kind {
            1 => to = address(payload),
            2 => mac = payload.try_into().ok(),
            9 => master = number(payload),
            _ => {}
        }
    }
    if body[0] == BRIDGE {
        let entry = FdbEntry { interface, remote: to, is_own: state & PERMANENT != 0 && to.is_none() };
        return Some(NeighbourMessage::Fdb { master, mac: mac?, entry });
    }
    if body[10] & PROXY != 0 {
        return None;
    }
    Some(NeighbourMessage::Neighbour { interface, address: to?, neighbour: Neighbour { state, mac } })
}
