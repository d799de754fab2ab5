//! A frame that has arrived at a router: what it says of itself, and whether it may go on.

use crate::reason::Reason;
use crate::ways::{Looked, Ways};
use crate::wrap::{mtu_bytes, packet_bytes};
use std::net::IpAddr;
use wharf::Packet;
use wharf::net::{ETHERNET_BYTES, Headers, checksum, replace_ip_word};
use wharf_net::{Hop, Query, RouteKind};

const IPV4_TTL_AT: usize = 8;
const IPV6_HOP_LIMIT_AT: usize = 7;

/// A packet that is to be forwarded: what it says of itself.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) headers: Headers,
    pub(crate) query: Query,
    /// Asks for the way to its source.
    pub(crate) back: Query,
    /// The VRF that it came by; 0: none. The way back is within it.
    pub(crate) vrf: u32,
}

/// Why a packet may not pass, and the MTU that it was too long for.
pub(crate) type Refused = (Reason, u32);

impl Ways {
    /// Takes the Ethernet header off a frame to this host's MAC, and the padding.
    pub(crate) fn open(&mut self, frame: &mut Packet, port: usize) -> Result<Arrived, Reason> {
        let (interface, vrf) = self.interface_of(port).ok_or(Reason::NotForwarded)?;
        let head = frame.head();
        let mac = self.shared.tables.interface_mac(interface);
        let is_ours = mac.is_some_and(|mac| head.get(..6) == Some(&mac[..]));
        let is_v6 = match head.get(12..14) {
            Some([0x08, 0x00]) if is_ours => false,
            Some([0x86, 0xdd]) if is_ours => true,
            _ => return Err(Reason::NotForwarded),
        };
        frame.trim_front(ETHERNET_BYTES).map_err(|_| Reason::Malformed)?;
        let head = frame.head();
        let headers = Headers::parse_ip(head, 0).map_err(|_| Reason::Malformed)?;
        let (source, destination) = headers.addresses(head).ok_or(Reason::Malformed)?;
        let end = headers.packet_end(head).ok_or(Reason::Malformed)?;
        // The length in a super-packet is that of the whole, or 0.
        let is_super = frame.meta().gso_bytes > 0;
        let is_whole = (headers.transport_at..=frame.len()).contains(&end);
        if headers.is_ipv6 != is_v6 || !(is_super || is_whole) || !has_checksum(head, is_v6) {
            return Err(Reason::Malformed);
        }
        if is_martian(source, true) || is_martian(destination, false) {
            return Err(Reason::NotForwarded);
        }
        let (from, to) = headers.ports(head).unwrap_or_default();
        let query = Query::to(destination).from(source).ports(headers.protocol, from, to).input(interface);
        let query = query.tos(headers.traffic_class(head).unwrap_or(0));
        if !frame.is_chain() && !is_super && end < frame.len() {
            frame.set_len(end as u32).map_err(|_| Reason::Malformed)?;
        }
        Ok(Arrived { headers, query, back: Query::to(source).output(vrf), vrf })
    }
}

/// True if the way to the source of a packet says that it is none of another host: a packet of an address
/// of our own has not come from us (the kernel's `fib_validate_source`).
pub(crate) fn is_own(way_back: Looked<'_>) -> bool {
    way_back.is_ok_and(|hop| hop.kind != RouteKind::Unicast)
}

/// Says whether a packet may be forwarded by a hop, and lowers its time to live then.
pub(crate) fn may_pass<'a>(
    packet: &mut Packet, arrived: &Arrived, is_own: bool, hop: Looked<'a>,
) -> Result<&'a Hop, Refused> {
    if is_own {
        return Err((Reason::NotForwarded, 0));
    }
    let hop = hop.map_err(|none| (none.into(), 0))?;
    match hop.kind {
        RouteKind::Local => return Err((Reason::ThisHost, 0)),
        RouteKind::Unicast => {}
        _ => return Err((Reason::NotForwarded, 0)),
    }
    let is_v6 = arrived.headers.is_ipv6;
    if packet.head().get(ttl_at(is_v6)).is_none_or(|ttl| *ttl <= 1) {
        return Err((Reason::Expired, 0));
    }
    let mtu_bytes = mtu_bytes(hop);
    if packet_bytes(packet) > mtu_bytes {
        return Err((Reason::TooBig, mtu_bytes as u32));
    }
    age(packet.head_mut(), is_v6);
    Ok(hop)
}

fn ttl_at(is_v6: bool) -> usize {
    if is_v6 { IPV6_HOP_LIMIT_AT } else { IPV4_TTL_AT }
}

/// True if IPv4's header has its checksum; IPv6 has none.
fn has_checksum(packet: &[u8], is_v6: bool) -> bool {
    let header = packet.first().and_then(|first| packet.get(..4 * usize::from(first & 15)));
    is_v6 || header.is_some_and(|header| checksum::fold(checksum::sum(header)) == 0xffff)
}

/// True for addresses that no router passes on (RFC 1812, 5.3.7; RFC 4291, 2.5.6).
fn is_martian(address: IpAddr, is_source: bool) -> bool {
    let is_bad = match address {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] >= 240,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    is_bad || address.is_unspecified() || address.is_loopback() || is_source && address.is_multicast()
}

/// Lowers the time to live by one, with IPv4's checksum.
fn age(packet: &mut [u8], is_v6: bool) {
    let at = ttl_at(is_v6);
    let mut word = [packet[at & !1], packet[at | 1]];
    word[at & 1] = word[at & 1].saturating_sub(1);
    replace_ip_word(packet, !is_v6, at & !1, u16::from_be_bytes(word));
}
