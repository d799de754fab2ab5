//! Frames that hosts send by themselves.

use wharf_packet::Headers;

/// EtherTypes of ARP and LLDP.
const ARP: [u8; 2] = [0x08, 0x06];
const LLDP: [u8; 2] = [0x88, 0xcc];
/// Place of the EtherType in a frame without VLAN tags.
const ETHERTYPE: std::ops::Range<usize> = 12..14;
/// IP protocols (RFC 2236, RFC 4443).
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;
/// ICMPv6 types of multicast listener discovery, of neighbour discovery, and of its second version (RFC 2710, RFC 4861, RFC 3810).
const LISTENERS: std::ops::RangeInclusive<u8> = 130..=132;
const NEIGHBOURS: std::ops::RangeInclusive<u8> = 133..=137;
const LISTENERS_2: u8 = 143;
/// True for ARP, LLDP, IGMP, and the neighbour and multicast listener discovery of ICMPv6.
pub(super) fn is_of_host(frame: &[u8]) -> bool {
    let ethertype = frame.get(ETHERTYPE).unwrap_or_default();
    if ethertype == ARP || ethertype == LLDP {
        return true;
    }
    let Ok(headers) = Headers::parse(frame) else { return false };
    let payload = frame.get(headers.transport_at..).unwrap_or_default();
    match headers.protocol {
        IGMP => true,
        ICMPV6 => is_discovery(payload),
        _ => false,
    }
}

fn is_discovery(icmpv6: &[u8]) -> bool {
    icmpv6
        .first()
        .is_some_and(|kind| LISTENERS.contains(kind) || NEIGHBOURS.contains(kind) || *kind == LISTENERS_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv6 packet with the next header and the bytes behind the IP header.
    fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload.len() as u8, next, 255]);
        frame.extend([0xfe; 32]);
        frame.extend(payload);
        frame
    }

    #[test]
    fn discovery_is_of_a_host_and_a_ping_is_traffic() {
        let listener_report = [58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 0];
        assert!(is_of_host(&ipv6(58, &[135, 0, 0, 0])), "neighbour solicitation");
        assert!(is_of_host(&ipv6(0, &listener_report)), "behind hop-by-hop options");
        assert!(!is_of_host(&ipv6(58, &[128, 0, 0, 0])), "echo request");
        assert!(!is_of_host(&ipv6(17, &[135, 0, 0, 0, 0, 8, 0, 0])), "UDP");
        let arp = [&[0xff; 12][..], &ARP, &[0; 46]].concat();
        assert!(is_of_host(&arp) && !is_of_host(&arp[..12]) && !is_of_host(&[]));
    }
}
