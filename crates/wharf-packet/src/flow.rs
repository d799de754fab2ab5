//! Which flow a frame belongs to, and which of several transmit queues a flow goes by.

use crate::{IpPacket, ip_packet};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

const IPV6_HOP_BY_HOP: u8 = 0;
const IPV6_ROUTING: u8 = 43;
const IPV6_DESTINATION: u8 = 60;
/// Extension headers looked through before giving up on ports.
const EXTENSIONS_MAX: usize = 4;

/// Hashes the flow of an Ethernet frame: IP addresses, protocol, and the ports of TCP, UDP and SCTP.
///
/// VLAN tags are read past. All fragments of one packet have the same hash, without ports. A frame that is not IP is
/// hashed by MAC addresses and EtherType. The hash is the same on every machine. It is not RSS: no Toeplitz hash, and
/// not the one of any NIC.
#[inline]
pub fn flow_hash(frame: &[u8]) -> u64 {
    flow_hash_seeded(frame, 0)
}

/// Hashes the flow as [`flow_hash`] does, in a way that depends on `seed` (the kernel's `perturbation`).
///
/// With another seed other flows collide. The hash is fast and not cryptographic: a sender that knows the seed can make
/// flows that collide.
#[inline]
pub fn flow_hash_seeded(frame: &[u8], seed: u64) -> u64 {
    let mut hash = Hash(seed);
    if add_ip(&mut hash, frame).is_none() {
        hash = Hash(seed);
        hash.add(frame.get(..14).unwrap_or(frame));
    }
    hash.finish()
}

/// Which transmit queue a frame goes by on a device that has several: the same one for all frames of a flow, as long as
/// the number of queues stays. Both directions of a connection may go by different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueMap {
    queues: u32,
}

impl QueueMap {
    /// Over `queues` queues, at least one.
    pub fn new(queues: u32) -> Self {
        Self { queues: queues.max(1) }
    }

    /// The queue of an Ethernet frame, from 0.
    #[inline]
    pub fn queue_of(self, frame: &[u8]) -> usize {
        if self.queues == 1 {
            return 0;
        }
        // The high half of the hash, as a fraction of the queues.
        (((flow_hash(frame) >> 32) * u64::from(self.queues)) >> 32) as usize
    }
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
mod tests;
