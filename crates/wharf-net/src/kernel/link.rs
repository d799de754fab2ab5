//! Interfaces, and their addresses.

use super::{BRIDGE, IPV4, IPV6, Mac};
use crate::wire::{address, attribute, attributes, number, text, u16_at, u32_at};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const UP: u32 = 1;
const BROADCAST: u32 = 2;
const LOOPBACK: u32 = 8;
const POINT_TO_POINT: u32 = 0x10;
const NO_ARP: u32 = 0x80;
const LOWER_UP: u32 = 0x10000;
const ETHER: u16 = 1;
const HARDWARE_LOOPBACK: u16 = 772;
const MTU: u16 = 4;
const BY_PACKET: &str = "a tunnel whose ends each packet names";
const IN_UDP: &str = "a tunnel in UDP (FOU, GUE)";
/// Why a packet cannot leave by an interface that is on top of one of another namespace.
pub(crate) const ELSEWHERE: &str = "the interface below is in another network namespace";

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: Box<str>,
    /// Its other names (`altname`).
    pub(crate) other_names: Vec<Box<str>>,
    pub(crate) flags: u32,
    /// ARPHRD_*: what its link-layer addresses are.
    pub(crate) hardware: u16,
    pub(crate) mtu_bytes: u32,
    /// IPv6's own MTU of the interface.
    pub(crate) mtu_v6_bytes: u32,
    /// IPv6 prefers temporary addresses as sources (`use_tempaddr`).
    pub(crate) prefers_temporary: bool,
    pub(crate) mac: Option<Mac>,
    pub(crate) broadcast: Option<Mac>,
    /// The bridge, bond or VRF that it is a port of; 0: none.
    pub(crate) master: u32,
    /// The interface below it in this network namespace; 0: none.
    pub(crate) lower: u32,
    pub(crate) group: u32,
    /// A bond's port that may transmit.
    pub(crate) is_active_port: bool,
    pub(crate) layer: Layer,
}

/// What an interface puts around a packet, or where it takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    None,
    Vlan {
        protocol: u16,
        id: u16,
    },
    Macvlan,
    Bridge,
    /// `mode` of bonding; `active` is the index of the active port in active-backup.
    Bond {
        mode: u8,
        active: u32,
    },
    Vrf {
        table: u32,
    },
    Vxlan {
        id: u32,
        port: u16,
        remote: Option<IpAddr>,
        local: Option<IpAddr>,
        link: u32,
    },
    /// GRE, IPIP, SIT and their likes.
    Tunnel {
        kind: Box<str>,
        remote: Option<IpAddr>,
        local: Option<IpAddr>,
        key: Option<u32>,
        mark: u32,
        link: u32,
    },
    /// It is not known here what it does to a packet: the reason.
    Unsupported(&'static str),
}

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        self.flags & UP != 0
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        *self.name == *name || self.other_names.iter().any(|other| **other == *name)
    }

    pub(crate) fn has_carrier(&self) -> bool {
        self.flags & LOWER_UP != 0
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.flags & LOOPBACK != 0
    }

    /// Returns true if frames need a destination of Ethernet.
    pub(crate) fn has_macs(&self) -> bool {
        matches!(self.hardware, ETHER | HARDWARE_LOOPBACK)
    }

    /// Returns the destination that needs no neighbour, as `arp_constructor` and `ndisc_constructor` choose
    /// it.
    pub(crate) fn fixed_mac(&self) -> Option<Mac> {
        if self.flags & (NO_ARP | LOOPBACK) != 0 {
            return self.mac;
        }
        (self.flags & POINT_TO_POINT != 0).then_some(self.broadcast).flatten()
    }

    /// Returns the address by which the table of neighbours has the one of an address. IPv4 has one for
    /// all on a point-to-point link.
    pub(crate) fn neighbour_key(&self, to: IpAddr) -> IpAddr {
        let is_one = self.flags & (POINT_TO_POINT | LOOPBACK) != 0;
        if is_one && to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { to }
    }

    pub(crate) fn is_broadcast(&self) -> bool {
        self.flags & BROADCAST != 0
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) local: IpAddr,
    /// The other end's of a point-to-point link; else the local one.
    pub(crate) peer: IpAddr,
    pub(crate) len: u8,
    pub(crate) scope: u8,
    pub(crate) flags: u32,
}

/// Reads a link. `None` for what a bridge or IPv6 says of it, and for a message that says a part alone, as
/// the events of wireless interfaces do.
pub(crate) fn link_of(body: &[u8]) -> Option<Link> {
    if matches!(*body.first()?, BRIDGE | IPV6) {
        return None;
    }
    attribute(body.get(16..)?, MTU)?;
    let mut link = Link {
        index: u32_at(body, 4)?,
        name: Box::default(),
        other_names: Vec::new(),
        flags: u32_at(body, 8)?,
        hardware: u16_at(body, 2)?,
        mtu_bytes: 0,
        mtu_v6_bytes: u32::MAX,
        prefers_temporary: false,
        mac: None,
        broadcast: None,
        master: 0,
        lower: 0,
        group: 0,
        is_active_port: true,
        layer: Layer::None,
    };
    let (mut info, mut is_below_elsewhere): (&[u8], _) = (&[], false);
    for (kind, payload) in attributes(body.get(16..)?) {
        match kind {
            1 => link.mac = payload.try_into().ok(),
            2 => link.broadcast = payload.try_into().ok(),
            3 => link.name = text(payload),
            MTU => link.mtu_bytes = number(payload),
            5 => link.lower = number(payload),
            10 => link.master = number(payload),
            18 => info = payload,
            26 => read_ipv6(&mut link, payload),
            27 => link.group = number(payload),
            37 => is_below_elsewhere = true,
            52 => {
                link.other_names =
                    attributes(payload).filter(|(kind, _)| *kind == 53).map(|it| text(it.1)).collect();
            }
            _ => {}
        }
    }
    read_info(&mut link, info);
    if is_below_elsewhere {
        link.lower = 0;
        if matches!(link.layer, Layer::Vxlan { .. } | Layer::Tunnel { .. }) {
            link.layer = Layer::Unsupported(ELSEWHERE);
        }
    }
    Some(link)
}

/// Reads `IFLA_AF_SPEC`: the configuration of IPv6, an array of numbers.
fn read_ipv6(link: &mut Link, families: &[u8]) {
    let Some(values) = attribute(families, u16::from(IPV6)).and_then(|ipv6| attribute(ipv6, 2)) else {
        return;
    };
    link.prefers_temporary = u32_at(values, 40).is_some_and(|use_of| use_of as i32 >= 2);
    link.mtu_v6_bytes = u32_at(values, 8).unwrap_or(u32::MAX);
}

/// Reads `IFLA_LINKINFO`.
fn read_info(link: &mut Link, info: &[u8]) {
    if let Some(port) =
        attribute(info, 5).filter(|_| attribute(info, 4).is_some_and(|kind| &*text(kind) == "bond"))
    {
        let is = |kind, value| attribute(port, kind).and_then(|state| state.first()) == Some(&value);
        link.is_active_port = is(1, 0) && is(2, 0);
    }
    let Some(kind) = attribute(info, 1).map(text) else { return };
    let data = attribute(info, 2).unwrap_or_default();
    let has = |kind| attribute(data, kind).is_some();
    let value = |kind| attribute(data, kind).map_or(0, number);
    link.layer = match &*kind {
        "vlan" => Layer::Vlan {
            protocol: big_endian(data, 5).unwrap_or(0x8100),
            id: attribute(data, 1).and_then(|id| u16_at(id, 0)).unwrap_or(0),
        },
        "macvlan" | "macvtap" => Layer::Macvlan,
        "bridge" if is_set(data, 7) => Layer::Unsupported("a bridge that filters VLANs"),
        "bridge" => Layer::Bridge,
        "bond" => Layer::Bond {
            mode: attribute(data, 1).and_then(|mode| mode.first()).copied().unwrap_or(0),
            active: value(2),
        },
        "vrf" => Layer::Vrf { table: value(1) },
        "vxlan" if is_set(data, 25) => Layer::Unsupported(BY_PACKET),
        "vxlan" if has(27) => Layer::Unsupported("VXLAN-GPE"),
        "vxlan" => Layer::Vxlan {
            id: value(1),
            port: big_endian(data, 15).unwrap_or(4789),
            remote: place(data, &[2, 16]),
            local: place(data, &[4, 17]),
            link: value(3),
        },
        "gre" | "gretap" | "ip6gre" | "ip6gretap" if has(18) => Layer::Unsupported(BY_PACKET),
        "ipip" | "sit" | "ip6tnl" if has(19) => Layer::Unsupported(BY_PACKET),
        "gre" | "gretap" | "ip6gre" | "ip6gretap" if is_set(data, 14) => Layer::Unsupported(IN_UDP),
        "ipip" | "sit" | "ip6tnl" if is_set(data, 15) => Layer::Unsupported(IN_UDP),
        "gre" | "gretap" | "ip6gre" | "ip6gretap" => tunnel(kind, data, [7, 6, 1], Some((3, 5))),
        "ipip" | "sit" | "ip6tnl" => tunnel(kind, data, [3, 2, 1], None),
        "veth" | "dummy" | "tun" | "ifb" | "netkit" => Layer::None,
        _ => Layer::Unsupported("an interface of an unknown kind"),
    };
}

/// Reads a tunnel's ends by the numbers of its attributes: remote, local and link; flags and key.
fn tunnel(kind: Box<str>, data: &[u8], ends: [u16; 3], key: Option<(u16, u16)>) -> Layer {
    const HAS_KEY: u16 = 0x2000;
    const HAS_SUM_OR_NUMBER: u16 = 0x9000;
    // What the other end insists on is not written here.
    if key
        .is_some_and(|(flags, _)| big_endian(data, flags).is_some_and(|flags| flags & HAS_SUM_OR_NUMBER != 0))
    {
        return Layer::Unsupported("GRE with checksums or sequence numbers");
    }
    let key = key.filter(|(flags, _)| big_endian(data, *flags).is_some_and(|flags| flags & HAS_KEY != 0));
    let key = key.and_then(|(_, key)| Some(u32::from_be_bytes(*attribute(data, key)?.first_chunk()?)));
    let [remote, local, link] = ends;
    Layer::Tunnel {
        kind,
        remote: place(data, &[remote]),
        local: place(data, &[local]),
        key,
        mark: attribute(data, 20).map_or(0, number),
        link: attribute(data, link).map_or(0, number),
    }
}

/// True if a number of any size is there, and is not 0.
fn is_set(data: &[u8], kind: u16) -> bool {
    attribute(data, kind).is_some_and(|value| value.iter().any(|byte| *byte != 0))
}

/// Returns the first address that there is among attributes, unless it is unspecified.
fn place(data: &[u8], kinds: &[u16]) -> Option<IpAddr> {
    let found = kinds.iter().find_map(|kind| attribute(data, *kind).and_then(address))?;
    (!found.is_unspecified()).then_some(found)
}

fn big_endian(data: &[u8], kind: u16) -> Option<u16> {
    Some(u16::from_be_bytes(*attribute(data, kind)?.first_chunk()?))
}

/// Reads an address: the index of its interface, and it.
pub(crate) fn address_of(body: &[u8]) -> Option<(u32, Address)> {
    let fixed: &[u8; 8] = body.first_chunk()?;
    let any: IpAddr = match fixed[0] {
        IPV4 => Ipv4Addr::UNSPECIFIED.into(),
        IPV6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (mut local, mut peer) = (None, None);
    let mut found =
        Address { local: any, peer: any, len: fixed[1], scope: fixed[3], flags: u32::from(fixed[2]) };
    for (kind, payload) in attributes(&body[8..]) {
        match kind {
            1 => peer = address(payload),
            2 => local = address(payload),
            8 => found.flags = number(payload),
            _ => {}
        }
    }
    found.local = local.or(peer)?;
    found.peer = peer.or(local)?;
    Some((u32_at(body, 4)?, found))
}
