//! `Sources`: the source addresses that frames from a device may have (`mac=`, `ip=`).
//!
//! Goal: what stands at the device sends as nobody else. A frame's source, and the sender that an ARP packet
//! or a message of neighbour discovery names, are among the device's; with `ip=`, only ARP, RARP, IPv4 and
//! IPv6 pass, and no router's messages (advertisement, redirect). A host without an address may ask for one
//! (DHCP, duplicate address detection). Other frames are dropped, and counted. Headers are read as far as they
//! lie in the first chunk, where a device puts all of them: what cannot be read does not pass.

use crate::spec::DeviceSpec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wharf_core::device::DeviceError;
use wharf_core::options::{Key, Values};
use wharf_packet::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, VLAN_BYTES, VLAN_TAGS_MAX,
};

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_RARP: u16 = 0x8035;

/// The keys of a kind that can be guarded.
pub(crate) const MAC: Key = Key {
    name: "mac",
    values: Values::Text,
    default: "all",
    meaning: "Source addresses of frames that are received, such as 02:00:00:00:00:01, joined by +; others are dropped (`spoofed`)",
    when: "The addresses of a guest that is not trusted",
};
pub(crate) const IP: Key = Key {
    name: "ip",
    values: Values::Text,
    default: "all",
    meaning: "Source addresses of IP and ARP packets that are received, joined by +; others are dropped (`spoofed`), and so is what is neither",
    when: "The addresses of a guest that is not trusted",
};

/// The addresses of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) macs: Vec<[u8; 6]>,
    ips: Vec<IpAddr>,
}

fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split(':').map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2));
    let mac = [(); 6].map(|()| parts.next().flatten());
    let is_whole = parts.next().is_none() && mac.iter().all(Option::is_some);
    is_whole.then(|| mac.map(Option::unwrap_or_default)).filter(|mac| mac[0] & 1 == 0)
}

impl Sources {
    pub(super) fn of(spec: &DeviceSpec) -> Result<Self, DeviceError> {
        let parts =
            |key: &Key| spec.options().text(key.name).map(|text| text.split('+')).into_iter().flatten();
        let macs = parts(&MAC).map(|text| {
            mac_of(text).ok_or_else(|| spec.fault(format!("mac: {text:?} is no address of one station")))
        });
        let ips = parts(&IP)
            .map(|text| text.parse().map_err(|_| spec.fault(format!("ip: {text:?} is no IP address"))));
        Ok(Self { macs: macs.collect::<Result<_, _>>()?, ips: ips.collect::<Result<_, _>>()? })
    }

    fn has_mac(&self, mac: &[u8]) -> bool {
        self.macs.is_empty() || self.macs.iter().any(|own| own == mac)
    }

    /// True if a frame that begins with `head` may come from the device.
    pub(super) fn permit(&self, head: &[u8]) -> bool {
        let Some(source) = head.get(6..12) else { return false };
        let Some((ethertype, packet)) = payload(head) else { return false };
        if !self.has_mac(source) {
            return false;
        }
        match ethertype {
            ETHERTYPE_ARP | ETHERTYPE_RARP => self.permit_arp(packet),
            _ if self.ips.is_empty() => true,
            ETHERTYPE_IPV4 => self.permit_ipv4(packet),
            ETHERTYPE_IPV6 => self.permit_ipv6(packet),
            _ => false,
        }
    }

    /// Works like [`Sources::permit`], for a frame whose checksum is filled in afterwards, `offset` bytes
    /// behind `start`: nothing that is read here changes by that.
    pub(super) fn permit_unfinished(&self, head: &[u8], start: usize, offset: usize) -> bool {
        self.permit(head) && is_behind_headers(head, start, offset)
    }

    /// RFC 826: the sender's addresses. A probe has no address yet (RFC 5227).
    fn permit_arp(&self, packet: &[u8]) -> bool {
        let (Some(mac), Some(ip)) = (packet.get(8..14), packet.get(14..18)) else { return false };
        self.has_mac(mac) && (ip == [0; 4] || self.has_ipv4(ip))
    }

    fn has_ipv4(&self, ip: &[u8]) -> bool {
        let is_own = |own: &IpAddr| matches!(own, IpAddr::V4(own) if own.octets() == *ip);
        self.ips.is_empty() || self.ips.iter().any(is_own)
    }

    fn permit_ipv4(&self, packet: &[u8]) -> bool {
        let (Some(first), Some(ip)) = (packet.first(), packet.get(12..16)) else { return false };
        let header_bytes = usize::from(first & 15) * 4;
        let asks = || {
            // RFC 2131: to the port of servers, by UDP.
            packet.get(9) == Some(&17) && packet.get(header_bytes + 2..header_bytes + 4) == Some(&[0, 67])
        };
        self.has_ipv4(ip) || ip == Ipv4Addr::UNSPECIFIED.octets() && asks()
    }

    fn permit_ipv6(&self, packet: &[u8]) -> bool {
        let (Some(ip), Some(upper)) = (packet.get(8..24), upper(packet)) else { return false };
        let is_unspecified = ip == Ipv6Addr::UNSPECIFIED.octets();
        match upper {
            Upper::Other(_) | Upper::Fragment => !is_unspecified && self.has_ipv6(ip),
            Upper::Icmp(message) => {
                (is_unspecified || self.has_ipv6(ip)) && self.permit_icmp(message, is_unspecified)
            }
        }
    }

    /// Neighbour discovery (RFC 4861): an advertisement names the address that it is of, and options the
    /// station. A host without an address asks for duplicates, routers and groups alone.
    fn permit_icmp(&self, message: &[u8], is_unspecified: bool) -> bool {
        const LISTENER_REPORTS: [u8; 3] = [131, 132, 143];
        match message.first() {
            Some(133) => self.has_options(message, 8),
            Some(134 | 137) => false,
            Some(135) => self.has_options(message, 24),
            Some(136) => {
                let target = message.get(8..24);
                target.is_some_and(|target| self.has_ipv6(target)) && self.has_options(message, 24)
            }
            Some(kind) => !is_unspecified || LISTENER_REPORTS.contains(kind),
            None => false,
        }
    }

    /// True if the link-layer addresses (RFC 4861, section 4.6.1) in the options from `at` on are its own.
    fn has_options(&self, message: &[u8], at: usize) -> bool {
        let Some(mut options) = message.get(at..) else { return false };
        while let [kind, words, ..] = *options {
            let bytes = usize::from(words) * 8;
            let Some((option, rest)) = options.split_at_checked(bytes).filter(|_| bytes > 0) else {
                return false;
            };
            if matches!(kind, 1 | 2) && !self.has_mac(&option[2..8]) {
                return false;
            }
            options = rest;
        }
        true
    }

    /// Its own link-local address is that of a permitted station (RFC 4291, appendix A), or any.
    fn has_ipv6(&self, ip: &[u8]) -> bool {
        let is_own = |own: &IpAddr| matches!(own, IpAddr::V6(own) if own.octets() == *ip);
        let is_of = |mac: &[u8; 6]| {
            let [a, b, c, d, e, f] = *mac;
            ip[8..] == [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
        };
        let is_link_local = ip[..8] == [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
        self.ips.iter().any(is_own) || is_link_local && (self.macs.is_empty() || self.macs.iter().any(is_of))
    }
}

/// What follows IPv6's headers.
enum Upper<'a> {
    Icmp(&'a [u8]),
    /// A fragment of something else than ICMP.
    Fragment,
    Other(&'a [u8]),
}

/// Reads over the extension headers (RFC 8200, section 4). `None` if they cannot be read, or if ICMP is in a
/// fragment (RFC 6980: hosts drop discovery there).
fn upper(packet: &[u8]) -> Option<Upper<'_>> {
    const HEADERS_MAX: usize = 8;
    let (mut next, mut at) = (*packet.get(6)?, 40);
    for _ in 0..HEADERS_MAX {
        match next {
            58 => return packet.get(at..).map(Upper::Icmp),
            0 | 43 | 60 => {
                next = *packet.get(at)?;
                at += 8 + 8 * usize::from(*packet.get(at + 1)?);
            }
            44 => {
                return match *packet.get(at)? {
                    0 | 43 | 44 | 58 | 60 => None,
                    _ => Some(Upper::Fragment),
                };
            }
            _ => return packet.get(at..).map(Upper::Other),
        }
    }
    None
}

/// True if a checksum `offset` bytes behind `start` is ICMP's own, or lies behind all addresses and ports.
/// ARP and fragments have none.
fn is_behind_headers(head: &[u8], start: usize, offset: usize) -> bool {
    const IPV4_BYTES: usize = 20;
    const PORTS_BYTES: usize = 4;
    const ICMP_CHECKSUM_AT: usize = 2;
    let Some((ethertype, packet)) = payload(head) else { return false };
    let behind = match ethertype {
        ETHERTYPE_ARP | ETHERTYPE_RARP => None,
        ETHERTYPE_IPV4 => packet.first().and_then(|first| {
            let header_bytes = usize::from(first & 15) * 4;
            packet.get(header_bytes.max(IPV4_BYTES)..)
        }),
        ETHERTYPE_IPV6 => match upper(packet) {
            Some(Upper::Icmp(message)) => {
                return start == head.len() - message.len() && offset == ICMP_CHECKSUM_AT;
            }
            Some(Upper::Other(rest)) => Some(rest),
            Some(Upper::Fragment) | None => None,
        },
        _ => Some(packet),
    };
    behind
        .map(|behind| head.len() - behind.len())
        .is_some_and(|at| start >= at && start + offset >= at + PORTS_BYTES)
}

/// Returns the EtherType behind tags, and what follows it.
fn payload(head: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = ETHERNET_BYTES;
    for _ in 0..=VLAN_TAGS_MAX {
        match u16::from_be_bytes(head.get(at - 2..at)?.try_into().ok()?) {
            ETHERTYPE_VLAN | ETHERTYPE_QINQ => at += VLAN_BYTES,
            ethertype => return Some((ethertype, &head[at..])),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Direction;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn sources() -> Sources {
        let ips = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        Sources { macs: vec![OWN], ips: ips.into() }
    }

    fn frame(mac: [u8; 6], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        [&[0xff; 6], &mac[..], &ethertype.to_be_bytes(), packet].concat()
    }

    fn arp(mac: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
        frame(OWN, ETHERTYPE_ARP, &[&[0, 1, 8, 0, 6, 4, 0, 2], &mac[..], &ip, &[0; 10]].concat())
    }

    fn ipv4(ip: [u8; 4], to_port: u16) -> Vec<u8> {
        let head = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0], &ip[..], &[255; 4], &[0, 68]].concat();
        frame(OWN, ETHERTYPE_IPV4, &[&head[..], &to_port.to_be_bytes(), &[0; 4]].concat())
    }

    fn ipv6(ip: &str, target: Option<&str>) -> Vec<u8> {
        let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let mut packet = [&[0x60, 0, 0, 0, 0, 24, 58, 255], &octets(ip)[..], &[0xff; 16]].concat();
        packet.extend([if target.is_some() { 136 } else { 135 }, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(octets(target.unwrap_or("::")));
        frame(OWN, ETHERTYPE_IPV6, &packet)
    }

    /// A packet whose ICMP lies behind a header of this kind.
    fn behind(header: u8, mut frame: Vec<u8>) -> Vec<u8> {
        frame[20] = header;
        frame.splice(54..54, [58, 0, 1, 4, 0, 0, 0, 0]);
        frame
    }

    /// The same message, of this kind, and with a link-layer address.
    fn message(kind: u8, mac: [u8; 6], mut frame: Vec<u8>) -> Vec<u8> {
        frame[54] = kind;
        [&frame[..], &[1, 1], &mac].concat()
    }

    #[test]
    fn a_device_sends_as_itself_alone() {
        let (other, sources) = ([2, 0, 0, 0, 0, 2], sources());
        let tagged = |frame: Vec<u8>| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        for (permitted, what, frame) in [
            (true, "its own address", ipv4([10, 0, 0, 1], 53)),
            (false, "another's", ipv4([10, 0, 0, 2], 53)),
            (true, "the same, with a tag", tagged(ipv4([10, 0, 0, 1], 53))),
            (false, "another's, with a tag", tagged(ipv4([10, 0, 0, 2], 53))),
            (true, "it asks for an address", ipv4([0; 4], 67)),
            (false, "no address, and no question", ipv4([0; 4], 53)),
            (true, "an answer to ARP", arp(OWN, [10, 0, 0, 1])),
            (true, "a probe", arp(OWN, [0; 4])),
            (false, "an answer for another", arp(OWN, [10, 0, 0, 2])),
            (false, "an answer with another's station", arp(other, [10, 0, 0, 1])),
            (true, "IPv6", ipv6("fd00::1", None)),
            (false, "another's IPv6", ipv6("fd00::2", None)),
            (true, "its own link-local address", ipv6("fe80::ff:fe00:1", None)),
            (false, "another link-local address", ipv6("fe80::ff:fe00:2", None)),
            (true, "its own advertisement", ipv6("fd00::1", Some("fd00::1"))),
            (false, "an advertisement for another", ipv6("fd00::1", Some("fd00::2"))),
            (true, "duplicate address detection", ipv6("::", None)),
            (false, "no address, and a ping", message(128, OWN, ipv6("::", None))),
            (true, "its own behind a header", behind(0, ipv6("fd00::1", Some("fd00::1")))),
            (false, "another's behind a header", behind(60, ipv6("fd00::1", Some("fd00::2")))),
            (false, "an advertisement in a fragment", behind(44, ipv6("fd00::1", Some("fd00::1")))),
            (true, "its station in a question", message(135, OWN, ipv6("fd00::1", None))),
            (false, "another station in a question", message(135, other, ipv6("fd00::1", None))),
            (false, "a router's advertisement", message(134, OWN, ipv6("fe80::ff:fe00:1", None))),
            (false, "a redirect", message(137, OWN, ipv6("fe80::ff:fe00:1", None))),
            (false, "neither IP nor ARP", frame(OWN, 0x88cc, &[0; 40])),
            (false, "another station", frame(other, ETHERTYPE_ARP, &arp(OWN, [10, 0, 0, 1])[14..])),
            (false, "three tags", tagged(tagged(tagged(ipv4([10, 0, 0, 1], 53))))),
            (false, "cut in the header", ipv4([10, 0, 0, 1], 53)[..20].to_vec()),
            (false, "no frame", vec![0; 13]),
        ] {
            assert_eq!(sources.permit(&frame), permitted, "{what}");
        }
        let any_ip = Sources { ips: Vec::new(), ..sources };
        assert!(any_ip.permit(&frame(OWN, 0x88cc, &[0; 40])) && any_ip.permit(&ipv4([10, 0, 0, 2], 53)));
        assert!(!any_ip.permit(&arp(other, [10, 0, 0, 1])));
    }

    #[test]
    fn a_checksum_to_be_filled_in_changes_no_address() {
        let any = Sources { ips: Vec::new(), ..sources() };
        let udp = |next: u8| {
            let mut frame = ipv6("fd00::1", None);
            frame[20] = next;
            frame
        };
        let short = |mut frame: Vec<u8>| {
            frame[14] = 0x40;
            frame
        };
        for (permitted, what, frame, start, offset) in [
            (true, "UDP's", ipv4([10, 0, 0, 1], 53), 34, 6),
            (true, "that of a packet in a tunnel", ipv4([10, 0, 0, 1], 53), 100, 16),
            (false, "the port", ipv4([0; 4], 67), 34, 2),
            (false, "the source of IPv4", ipv4([10, 0, 0, 1], 53), 26, 0),
            (false, "the source, by the offset", ipv4([10, 0, 0, 1], 53), 0, 28),
            (false, "the source behind a short header", short(ipv4([10, 0, 0, 1], 53)), 14, 14),
            (false, "the station", ipv4([10, 0, 0, 1], 53), 6, 0),
            (false, "the sender of ARP", arp(OWN, [10, 0, 0, 1]), 30, 0),
            (false, "behind ARP", arp(OWN, [10, 0, 0, 1]), 40, 16),
            (true, "UDP's over IPv6", udp(17), 54, 6),
            (false, "the source of IPv6", udp(17), 24, 0),
            (true, "ICMP's", ipv6("fd00::1", Some("fd00::1")), 54, 2),
            (false, "the target", ipv6("fd00::1", Some("fd00::1")), 54, 10),
            (false, "in a fragment", udp(44), 54, 6),
        ] {
            assert_eq!(sources().permit_unfinished(&frame, start, offset), permitted, "{what}");
        }
        assert!(any.permit_unfinished(&frame(OWN, 0x88cc, &[0; 40]), 30, 2));
        assert!(!any.permit_unfinished(&frame(OWN, 0x88cc, &[0; 40]), 6, 0));
    }

    #[test]
    fn wrong_addresses_are_one_line() {
        let registry = crate::registry::Registry::default();
        for (keys, wrong) in [
            ("mac=02:00:00:00:00:01+02:00:00:00:00:02,ip=10.0.0.1+fd00::1", None),
            ("mac=ff:ff:ff:ff:ff:ff", Some("no address of one station")),
            ("mac=2:0:0:0:0:1", Some("no address of one station")),
            ("mac=02:00:00:00:00", Some("no address of one station")),
            ("ip=10.0.0", Some("no IP address")),
            ("ip=", Some("no IP address")),
        ] {
            let spec = registry.parse_for(&format!("tap:a,{keys}"), Direction::Both).unwrap();
            let told = spec.check(Direction::Both).err().map(|error| error.to_string());
            assert!(told.as_deref().unwrap_or("").contains(wrong.unwrap_or("")), "{keys}: {told:?}");
            assert_eq!(told.is_some(), wrong.is_some(), "{keys}");
        }
    }
}
