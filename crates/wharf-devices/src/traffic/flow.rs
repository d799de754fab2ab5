//! Which flow a frame belongs to.

use wharf_core::qdisc::{IpPacket, band_of_bytes, ip_packet};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

const IPV6_HOP_BY_HOP: u8 = 0;
const IPV6_ROUTING: u8 = 43;
const IPV6_DESTINATION: u8 = 60;
/// Extension headers looked through before giving up on ports.
const EXTENSIONS_MAX: usize = 4;

/// A hash of an Ethernet frame's flow: addresses, protocol and ports, as far as there are any; MAC addresses
/// and EtherType for what is not IP. Pieces of one fragmented packet have the same hash, without ports.
/// VLAN tags are looked through. The same on every machine.
pub fn flow_hash(frame: &[u8]) -> u64 {
    let mut hash = Hash(0);
    if add_ip(&mut hash, frame).is_none() {
        hash = Hash(0);
        hash.add(frame.get(..14).unwrap_or(frame));
    }
    hash.finish()
}

/// Which of `senders` senders, and of their `bands` bands, a frame of a shared capture goes by.
pub(super) fn lane_of(frame: &[u8], senders: usize, bands: usize) -> usize {
    let sender = if senders == 1 { 0 } else { (flow_hash(frame) % senders as u64) as usize };
    if bands == 1 { sender } else { sender * bands + usize::from(band_of_bytes(frame)).min(bands - 1) }
}

fn add_ip(hash: &mut Hash, frame: &[u8]) -> Option<()> {
    match ip_packet(frame)? {
        IpPacket::V4(ip) => add_ipv4(hash, ip),
        IpPacket::V6(ip) => add_ipv6(hash, ip),
    }
}

fn add_ipv4(hash: &mut Hash, ip: &[u8]) -> Option<()> {
    let header_bytes = usize::from(ip.first()? & 0xf) * 4;
    let protocol = *ip.get(9)?;
    hash.add(ip.get(12..20)?);
    hash.add(&[protocol]);
    let is_fragment = u16_at(ip, 6)? & 0x3fff != 0;
    if !is_fragment {
        add_ports(hash, protocol, ip, header_bytes);
    }
    Some(())
}

fn add_ipv6(hash: &mut Hash, ip: &[u8]) -> Option<()> {
    hash.add(ip.get(8..40)?);
    let (mut next, mut at) = (*ip.get(6)?, 40);
    for _ in 0..EXTENSIONS_MAX {
        if !matches!(next, IPV6_HOP_BY_HOP | IPV6_ROUTING | IPV6_DESTINATION) {
            break;
        }
        let Some(&[following, units]) = ip.get(at..at + 2).and_then(|bytes| bytes.first_chunk::<2>()) else {
            break;
        };
        (next, at) = (following, at + 8 + 8 * usize::from(units));
    }
    hash.add(&[next]);
    add_ports(hash, next, ip, at);
    Some(())
}

fn add_ports(hash: &mut Hash, protocol: u8, ip: &[u8], at: usize) {
    if matches!(protocol, TCP | UDP | SCTP) {
        hash.add(ip.get(at..at + 4).unwrap_or_default());
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Multiply and rotate, as compilers hash small keys; the end mixes the high bits into the low ones.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn finish(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, fragment: u16, ports: [u8; 4], tagged: bool) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if tagged {
            frame.extend([0x81, 0, 0, 100]);
        }
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
        frame.extend(ports);
        frame
    }

    #[test]
    fn ports_tell_flows_apart_and_tags_do_not() {
        let one = flow_hash(&ipv4(UDP, 0, [0, 1, 0, 9], false));
        assert_eq!(one, flow_hash(&ipv4(UDP, 0, [0, 1, 0, 9], true)));
        assert_ne!(one, flow_hash(&ipv4(UDP, 0, [0, 2, 0, 9], false)));
        assert_ne!(one, flow_hash(&ipv4(TCP, 0, [0, 1, 0, 9], false)));
    }

    #[test]
    fn pieces_of_one_packet_stay_together() {
        let first = flow_hash(&ipv4(UDP, 0x2000, [0, 1, 0, 9], false));
        let later = flow_hash(&ipv4(UDP, 0x00b9, [7, 7, 7, 7], false));
        assert_eq!(first, later);
    }

    #[test]
    fn every_length_of_every_frame_has_a_hash() {
        for frame in [
            ipv4(UDP, 0, [0, 1, 0, 9], true),
            [vec![0; 12], vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0]].concat(),
        ] {
            for len in 0..frame.len() {
                flow_hash(&frame[..len]);
                assert!(lane_of(&frame[..len], 3, 3) < 9);
            }
        }
    }

    #[test]
    fn flows_spread_over_senders() {
        let mut seen = [0; 4];
        for port in 0..=255 {
            seen[lane_of(&ipv4(UDP, 0, [0, port, 0, 9], false), 4, 1)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 32), "{seen:?}");
    }
}
