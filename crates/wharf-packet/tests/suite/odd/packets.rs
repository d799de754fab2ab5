//! Packets that parsers disagree about, each with UDP from port 7 to port 9 and a payload of 26 bytes where it has any.

/// A packet, by name, and the transport that a parser should find.
pub struct Odd {
    pub name: &'static str,
    pub frame: Vec<u8>,
    /// Offset and protocol of the transport, and the last byte of the final destination; `None` where there is none.
    pub transport: Option<(usize, u8, Option<u8>)>,
}

pub const PAYLOAD: &[u8; 26] = b"WH\0\0\0\0\0\0\0\x07\0\0\x01\0\0\0\0\0........";

pub fn udp() -> Vec<u8> {
    [&[0, 7, 0, 9, 0, 34, 0, 0][..], PAYLOAD].concat()
}

pub fn ethernet(tags: usize, ethertype: u16, ip: &[u8]) -> Vec<u8> {
    let tag: &[u8] = &[0x81, 0, 0, 5];
    [&[2; 12][..], &tag.repeat(tags), &ethertype.to_be_bytes(), ip].concat()
}

/// An IPv4 packet from 192.0.2.1 to 198.51.100.2.
pub fn ipv4(protocol: u8, options: &[u8], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let len = (20 + options.len() + payload.len()) as u16;
    let mut ip = vec![0x45 + (options.len() / 4) as u8, 0];
    ip.extend(len.to_be_bytes());
    ip.extend([0, 1]);
    ip.extend(fragment.to_be_bytes());
    ip.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
    [&ip[..], options, payload].concat()
}

/// An IPv6 packet from 2001:db8::1 to 2001:db8::2, with these extension headers: number and bytes but for the first.
pub fn ipv6(extensions: &[(u8, Vec<u8>)], last: u8, payload: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    for (at, (_, bytes)) in extensions.iter().enumerate() {
        rest.push(extensions.get(at + 1).map_or(last, |next| next.0));
        rest.extend(bytes);
    }
    rest.extend(payload);
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((rest.len() as u16).to_be_bytes());
    ip.extend([extensions.first().map_or(last, |first| first.0), 64]);
    ip.extend(address(1));
    ip.extend(address(2));
    [ip, rest].concat()
}

pub fn address(last: u8) -> [u8; 16] {
    [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
}

pub fn options(kind: u8) -> (u8, Vec<u8>) {
    (kind, vec![0, 1, 4, 0, 0, 0, 0])
}

/// A routing header of type `kind` with hops ::a, ::b ..., of which `left` are left.
pub fn routing(kind: u8, hops: u8, left: u8) -> (u8, Vec<u8>) {
    let last_entry = if kind == 4 { hops - 1 } else { 0 };
    let mut bytes = vec![2 * hops, kind, left, last_entry, 0, 0, 0];
    (0..hops).for_each(|hop| bytes.extend(address(0xa + hop)));
    (43, bytes)
}

pub fn fragment(offset_and_more: u16) -> (u8, Vec<u8>) {
    let [high, low] = offset_and_more.to_be_bytes();
    (44, vec![0, high, low, 0, 0, 0, 9])
}

pub fn authentication() -> (u8, Vec<u8>) {
    (51, vec![4, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
}

/// The packets.
pub fn odd_packets() -> Vec<Odd> {
    let mut odd = ipv4_packets();
    odd.extend(ipv6_packets());
    odd
}

fn ipv4_packets() -> Vec<Odd> {
    let of = |name, tags, ip: Vec<u8>, transport| Odd { name, frame: ethernet(tags, 0x800, &ip), transport };
    let (udp, there) = (udp(), |at| Some((at, 17, Some(2))));
    let changed = |byte| {
        let mut ip = ipv4(17, &[], 0, &udp);
        ip[0] = byte;
        ip
    };
    let route = [131, 11, 4, 10, 0, 0, 7, 10, 0, 0, 8, 0];
    let mut done = route;
    done[2] = 12;
    let ah = [&[17][..], &authentication().1, &udp].concat();
    vec![
        of("IPv4", 0, ipv4(17, &[], 0, &udp), there(34)),
        of("one tag", 1, ipv4(17, &[], 0, &udp), there(38)),
        of("two tags", 2, ipv4(17, &[], 0, &udp), there(42)),
        of("three tags", 3, ipv4(17, &[], 0, &udp), None),
        of("IPv4 options", 0, ipv4(17, &[1; 8], 0, &udp), there(42)),
        of("IPv4 source route, hops left", 0, ipv4(17, &route, 0, &udp), Some((46, 17, Some(8)))),
        of("IPv4 source route, at its end", 0, ipv4(17, &done, 0, &udp), there(46)),
        of("IPv4 first fragment", 0, ipv4(17, &[], 0x2000, &udp), None),
        of("IPv4 later fragment", 0, ipv4(17, &[], 0x0003, &udp), None),
        of("IPv4 header of 16 bytes", 0, changed(0x44), None),
        of("IPv4 header of 60 bytes in 54", 0, changed(0x4f)[..54].to_vec(), None),
        of("version 6 in EtherType IPv4", 0, changed(0x65), None),
        of("IPv4 authentication", 0, ipv4(51, &[], 0, &ah), there(58)),
        of("IPv4 SCTP", 0, ipv4(132, &[], 0, &udp), Some((34, 132, Some(2)))),
    ]
}

fn ipv6_packets() -> Vec<Odd> {
    let udp = udp();
    let of = |name, extensions: &[(u8, Vec<u8>)], transport| {
        let ip = ipv6(extensions, 17, &udp);
        Odd { name, frame: ethernet(0, 0x86dd, &ip), transport }
    };
    let there = |at| Some((at, 17, Some(2)));
    let to = |at, last| Some((at, 17, last));
    let sctp = |extensions: &[(u8, Vec<u8>)], name, at| {
        let ip = ipv6(extensions, 132, &udp);
        Odd { name, frame: ethernet(0, 0x86dd, &ip), transport: Some((at, 132, Some(2))) }
    };
    vec![
        of("IPv6", &[], there(54)),
        of("hop-by-hop", &[options(0)], there(62)),
        of("destination options", &[options(60)], there(62)),
        of("hop-by-hop, destination options", &[options(0), options(60)], there(70)),
        of("destination options, hop-by-hop", &[options(60), options(0)], Some((62, 0, Some(2)))),
        of("routing type 0, at its end", &[routing(0, 2, 0)], there(94)),
        of("routing type 0, 2 left", &[routing(0, 2, 2)], to(94, Some(0xb))),
        of("routing type 2, 1 left", &[routing(2, 1, 1)], to(78, Some(0xa))),
        of("routing type 4, 2 left", &[routing(4, 3, 2)], to(110, Some(0xa))),
        of("routing type 4, 4 left of 2", &[routing(4, 2, 4)], to(94, None)),
        of("routing type 200, 1 left", &[routing(200, 1, 1)], to(78, None)),
        of("all three", &[options(0), options(60), routing(2, 1, 1), options(60)], to(102, Some(0xa))),
        of("atomic fragment", &[fragment(0)], there(62)),
        of("first fragment", &[fragment(1)], None),
        of("later fragment", &[fragment(8)], None),
        of("fragment behind routing", &[routing(2, 1, 0), fragment(1)], None),
        of("authentication", &[authentication()], there(78)),
        of("5 extension headers", &vec![options(60); 5], there(94)),
        of("8 extension headers", &vec![options(60); 8], there(118)),
        of("9 extension headers", &vec![options(60); 9], None),
        sctp(&[], "SCTP", 54),
        sctp(&[options(60)], "SCTP behind destination options", 62),
    ]
}
