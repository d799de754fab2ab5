//! `Hop`: the answer to a lookup, or `NoHop`: the reason that there is none.

use crate::kernel::{Mac, RouteKind};
use std::fmt;
use std::net::IpAddr;

/// Where a packet has to go next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hop {
    /// The kind of destination: one host, this host, all hosts of a link, a group.
    pub kind: RouteKind,
    /// The index of the interface that the route names.
    pub interface: u32,
    /// The router that takes it; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The source address: the one that was asked for, else the kernel's choice. `None`: there is none to
    /// choose.
    pub source: Option<IpAddr>,
    /// The longest IP packet that fits: of the route, the path or the interface.
    pub mtu_bytes: u32,
    /// The interface's own MAC.
    pub source_mac: Option<Mac>,
    /// The MAC to send to.
    pub neighbour: Neighbour,
    /// How the frame leaves.
    pub exit: Exit,
    /// VLAN tags that the frame gets, the outer one first.
    pub tags: [Option<Tag>; 2],
    /// The rule and the route that led here.
    pub why: Why,
}

/// The state of the neighbour that gets the frame, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Neighbour {
    /// Send to this MAC. `is_stale`: ask for it to be confirmed, by [`Asker::ask`](crate::Asker::ask).
    Known {
        /// The MAC.
        mac: Mac,
        /// The kernel would confirm it on its next use.
        is_stale: bool,
    },
    /// It has to be asked for, by [`Asker::ask`](crate::Asker::ask).
    Unknown,
    /// It has been asked for, and did not answer.
    Failed,
    /// The interface has no MACs.
    NotNeeded,
}

impl Neighbour {
    /// Returns the MAC, if there is one to send to.
    pub fn mac(&self) -> Option<Mac> {
        match self {
            Self::Known { mac, .. } => Some(*mac),
            _ => None,
        }
    }
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The Ethernet type: 0x8100 or 0x88a8.
    pub protocol: u16,
    /// The VLAN.
    pub id: u16,
}

/// How a frame leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// By this interface, below VLANs, bonds, bridges and the like.
    Port(u32),
    /// To this host.
    Host,
    /// By every port of this bridge, which does not know where the MAC is.
    Flood(u32),
    /// Inside another packet.
    Tunnel(Box<Tunnel>),
    /// In a way that is not known here: the kernel has to send it.
    Unsupported(&'static str),
}

/// An outer header and its own next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tunnel {
    /// What is between the outer IP header and the packet.
    pub header: TunnelHeader,
    /// The other end.
    pub destination: IpAddr,
    /// Where the outer packet has to go.
    pub hop: Result<Hop, NoHop>,
}

/// What is between the outer IP header and the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TunnelHeader {
    /// UDP and VXLAN, around an Ethernet frame.
    Vxlan {
        /// The network's number.
        id: u32,
        /// The destination port.
        port: u16,
    },
    /// GRE. `is_ethernet`: around a frame, else around a packet.
    Gre {
        /// The key, if there is one.
        key: Option<u32>,
        /// Around an Ethernet frame.
        is_ethernet: bool,
    },
    /// Nothing: IP in IP.
    Ip,
}

/// What led to a next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Why {
    /// The priority of the rule.
    pub rule: u32,
    /// The table.
    pub table: u32,
    /// The length of the route's prefix.
    pub prefix_len: u8,
    /// Who made the route (`RTPROT_*`): 2 the kernel, 3 at boot, 4 static, 186 BGP.
    pub protocol: u8,
    /// The route's metric.
    pub metric: u32,
    /// The nexthop object; 0: none.
    pub object: u32,
}

impl Why {
    /// Returns the first address of the route's prefix, which `destination` is in.
    pub fn prefix(&self, destination: IpAddr) -> IpAddr {
        let host_bits = |bits: u32| bits.saturating_sub(u32::from(self.prefix_len));
        match destination {
            IpAddr::V4(it) => {
                IpAddr::V4((it.to_bits() & u32::MAX.checked_shl(host_bits(32)).unwrap_or(0)).into())
            }
            IpAddr::V6(it) => {
                IpAddr::V6((it.to_bits() & u128::MAX.checked_shl(host_bits(128)).unwrap_or(0)).into())
            }
        }
    }
}

/// Why a packet cannot go anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoHop {
    /// No route leads there (`ENETUNREACH`).
    NoRoute,
    /// A route or a rule says that it cannot be reached (`EHOSTUNREACH`).
    Unreachable,
    /// A route or a rule prohibits it (`EACCES`).
    Prohibited,
    /// A route or a rule drops it in silence.
    Blackhole,
    /// The kernel knows a way that is not known here.
    Unsupported(&'static str),
}

impl fmt::Display for NoHop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => out.write_str("no route"),
            Self::Unreachable => out.write_str("unreachable"),
            Self::Prohibited => out.write_str("prohibited"),
            Self::Blackhole => out.write_str("blackhole"),
            Self::Unsupported(what) => write!(out, "not supported: {what}"),
        }
    }
}

impl std::error::Error for NoHop {}
