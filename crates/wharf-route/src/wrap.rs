//! The headers in front of an IP packet: Ethernet, VLAN tags, and those of tunnels.

use crate::reason::Reason;
use wharf::Packet;
use wharf::net::checksum::{ChunkSum, UDP_OFFSET, from_sum};
use wharf::net::tunnel::{ETHERTYPE_BRIDGING, GRE, IPV4_IN_IP, IPV6_IN_IP, VXLAN_BYTES, VXLAN_VALID};
use wharf::net::{Headers, IPV4_BYTES, IPV6_BYTES, IpHeader, SCTP, UDP, UDP_BYTES, UdpHeader, flow_hash};
use wharf_net::{Exit, Hop, Tunnel, TunnelHeader};

const GRE_KEY: u16 = 0x2000;
/// The source ports that the kernel gives VXLAN by default, from here on.
const VXLAN_PORTS: u16 = 0x8000;
/// Leaves as many bits of a flow's hash as there are such ports.
const FLOW_SHIFT: u32 = 49;

/// Writes the headers of a hop whose neighbours are known in front of a packet. Returns the interface that
/// the frame leaves by.
pub(crate) fn wrap(packet: &mut Packet, hop: &Hop) -> Result<u32, Reason> {
    let meta = packet.meta();
    if packet_bytes(packet) > mtu_bytes(hop) {
        return Err(Reason::TooBig);
    }
    match &hop.exit {
        Exit::Port(port) => ethernet(packet, hop).map(|()| *port),
        Exit::Host => Err(Reason::ThisHost),
        Exit::Tunnel(_) if meta.gso_bytes > 0 => Err(Reason::NotSupported),
        Exit::Tunnel(tunnel) => {
            // A device fills in one checksum, behind one IP header.
            if !finish_checksum(packet) {
                return Err(Reason::NotSupported);
            }
            let outer = tunnel.hop.as_ref().map_err(|none| Reason::from(*none))?;
            into_tunnel(packet, hop, tunnel, outer)?;
            wrap(packet, outer)
        }
        _ => Err(Reason::NotSupported),
    }
}

/// Fills in the checksum of an IP packet that was left to the device. Returns false if it cannot, as with
/// SCTP's: [`Packet::finish_checksum`] knows it behind an Ethernet header alone.
fn finish_checksum(packet: &mut Packet) -> bool {
    let is_sctp = || Headers::parse_ip(packet.head(), 0).is_ok_and(|headers| headers.protocol == SCTP);
    (!packet.meta().needs_checksum || !is_sctp()) && packet.finish_checksum()
}

/// Returns the longest IP packet that fits a hop, and the outer packets of its tunnels.
pub(crate) fn mtu_bytes(hop: &Hop) -> usize {
    let mtu_bytes = hop.mtu_bytes as usize;
    let Exit::Tunnel(tunnel) = &hop.exit else { return mtu_bytes };
    let Ok(outer) = &tunnel.hop else { return mtu_bytes };
    let ip = if tunnel.destination.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
    let ethernet = 14 + 4 * hop.tags.iter().flatten().count();
    let between = match tunnel.header {
        TunnelHeader::Vxlan { .. } => ethernet + VXLAN_BYTES + UDP_BYTES,
        TunnelHeader::Gre { key, is_ethernet } => {
            let inner = if is_ethernet { ethernet } else { 0 };
            inner + if key.is_some() { 8 } else { 4 }
        }
        _ => 0,
    };
    mtu_bytes.min(self::mtu_bytes(outer).saturating_sub(ip + between))
}

/// Returns the bytes of an IP packet; of a super-packet, those of its longest segment.
pub(crate) fn packet_bytes(packet: &Packet) -> usize {
    let gso_bytes = usize::from(packet.meta().gso_bytes);
    let head = packet.head();
    let headers = || Headers::parse_ip(head, 0).ok()?.payload_at(head);
    match headers().filter(|_| gso_bytes > 0) {
        Some(headers) => packet.len().min(headers + gso_bytes),
        None => packet.len(),
    }
}

fn front(packet: &mut Packet, bytes: usize) -> Result<&mut [u8], Reason> {
    packet.prepend(bytes).map_err(|_| Reason::NoHeadroom)
}

/// Returns the Ethernet type of an IP packet, whose first byte has its version.
fn ethertype(packet: &Packet) -> u16 {
    if packet.head().first().is_some_and(|first| first >> 4 == 6) { 0x86dd } else { 0x0800 }
}

/// Writes the Ethernet header, with the tags.
fn ethernet(packet: &mut Packet, hop: &Hop) -> Result<(), Reason> {
    let (Some(to), Some(from)) = (hop.neighbour.mac(), hop.source_mac) else {
        return Err(Reason::NotSupported);
    };
    let inner = ethertype(packet);
    let tags = || hop.tags.iter().flatten();
    let bytes = 14 + 4 * tags().count();
    let header = front(packet, bytes)?;
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    for (at, tag) in tags().enumerate() {
        header[12 + 4 * at..14 + 4 * at].copy_from_slice(&tag.protocol.to_be_bytes());
        header[14 + 4 * at..16 + 4 * at].copy_from_slice(&tag.id.to_be_bytes());
    }
    header[bytes - 2..].copy_from_slice(&inner.to_be_bytes());
    Ok(())
}

/// Writes what is between the outer IP header and the packet, and that header.
fn into_tunnel(packet: &mut Packet, hop: &Hop, tunnel: &Tunnel, outer: &Hop) -> Result<(), Reason> {
    let source = outer.source.ok_or(Reason::NotSupported)?;
    let protocol = match tunnel.header {
        TunnelHeader::Vxlan { id, port } => {
            ethernet(packet, hop)?;
            let flow = (flow_hash(packet.head()) >> FLOW_SHIFT) as u16;
            let header = front(packet, VXLAN_BYTES)?;
            header.copy_from_slice(&[VXLAN_VALID, 0, 0, 0, 0, 0, 0, 0]);
            header[4..7].copy_from_slice(&id.to_be_bytes()[1..]);
            let payload_bytes = packet.len();
            let udp = UdpHeader { source: VXLAN_PORTS | flow, destination: port };
            udp.write(front(packet, UDP_BYTES)?, payload_bytes).ok_or(Reason::TooBig)?;
            // Over IPv4 the kernel sends it without a checksum; over IPv6 a receiver may insist on one.
            if tunnel.destination.is_ipv6() {
                let pseudo = IpHeader::new(source, tunnel.destination, UDP).pseudo_sum(packet.len());
                let mut bytes = ChunkSum::default();
                packet.chunks().for_each(|chunk| bytes.add(chunk));
                let checksum = from_sum(pseudo + bytes.sum(), UDP_OFFSET);
                packet.head_mut()[UDP_OFFSET..UDP_BYTES].copy_from_slice(&checksum.to_be_bytes());
            }
            UDP
        }
        TunnelHeader::Gre { key, is_ethernet } => {
            let inner = if is_ethernet { ETHERTYPE_BRIDGING } else { ethertype(packet) };
            if is_ethernet {
                ethernet(packet, hop)?;
            }
            let header = front(packet, if key.is_some() { 8 } else { 4 })?;
            let flags = if key.is_some() { GRE_KEY } else { 0 };
            header[..2].copy_from_slice(&flags.to_be_bytes());
            header[2..4].copy_from_slice(&inner.to_be_bytes());
            if let Some(key) = key {
                header[4..].copy_from_slice(&key.to_be_bytes());
            }
            GRE
        }
        TunnelHeader::Ip if ethertype(packet) == 0x86dd => IPV6_IN_IP,
        TunnelHeader::Ip => IPV4_IN_IP,
        _ => return Err(Reason::NotSupported),
    };
    // No router cuts it, so that its identification says nothing (RFC 6864).
    let ip = IpHeader { dont_fragment: true, ..IpHeader::new(source, tunnel.destination, protocol) };
    let (bytes, payload_bytes) = (if source.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }, packet.len());
    ip.write(front(packet, bytes)?, payload_bytes).ok_or(Reason::TooBig)?;
    Ok(())
}

#[cfg(test)]
mod tests;
