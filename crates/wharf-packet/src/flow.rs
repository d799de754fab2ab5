//! Flow hash: the flow of a frame as one number, and the transmit queue of a flow.

use crate::ether::by_ethertype;
use crate::extensions::{self, FRAGMENT};
use crate::ip::{IPV4_BYTES, IPV6_BYTES};
use crate::{ETHERNET_BYTES, Headers, IpPacket, SCTP, TCP, UDP, ip_packet};

/// Hashes the flow of an Ethernet frame: IP addresses, protocol, and the ports of TCP, UDP and SCTP.
///
/// VLAN tags are read past. All fragments of one packet have the same hash, without ports. A frame that is
/// not IP is hashed by MAC addresses and EtherType. The hash is the same on every machine. It is not RSS: no
/// Toeplitz hash, and not the one of any NIC.
#[inline]
pub fn flow_hash(frame: &[u8]) -> u64 {
    flow_hash_seeded(frame, 0)
}

/// Hashes the flow as [`flow_hash`] does, in a way that depends on `seed` (the kernel's `perturbation`).
///
/// With another seed other flows collide. The hash is fast and not cryptographic: a sender that knows the
/// seed can make flows that collide, and some pairs of IPv6 addresses collide under every seed.
#[inline]
pub fn flow_hash_seeded(frame: &[u8], seed: u64) -> u64 {
    plain_hash(frame, seed).unwrap_or_else(|| careful_hash(frame, seed))
}

/// Returns the number, below `count`, of the flow of this hash: its high half, as a fraction.
#[inline]
pub fn index_of(hash: u64, count: u32) -> u32 {
    (((hash >> 32) * u64::from(count)) >> 32) as u32
}

/// The map from flows to the transmit queues of a device: all frames of a flow go by one queue while the
/// number of queues stays. The two directions of a connection may go by different queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueMap {
    queues: u32,
}

impl QueueMap {
    /// Makes a map to `queues` queues; 0 counts as 1.
    pub fn new(queues: u32) -> Self {
        Self { queues: queues.max(1) }
    }

    /// Returns the queue of an Ethernet frame, from 0.
    #[inline]
    pub fn queue_of(self, frame: &[u8]) -> usize {
        if self.queues == 1 {
            return 0;
        }
        index_of(flow_hash(frame), self.queues) as usize
    }
}

/// The hash of a packet that has nothing between its IP header and its transport; `None` for others.
#[inline(always)]
fn plain_hash(frame: &[u8], seed: u64) -> Option<u64> {
    let mut hash = Hash(seed);
    let (protocol, transport) = match by_ethertype(frame)? {
        IpPacket::V4(ip) => {
            let header = extensions::plain_ipv4(ip)?;
            hash.add_words::<1>(header, 12);
            (header[9], &ip[IPV4_BYTES..])
        }
        IpPacket::V6(ip) => {
            let header = extensions::plain_ipv6(ip)?;
            hash.add_words::<4>(header, 8);
            (header[6], &ip[IPV6_BYTES..])
        }
    };
    hash.add_word(protocol.into());
    hash.add_ports(protocol, transport);
    Some(hash.finish())
}

/// The hash of any frame.
#[inline(never)]
fn careful_hash(frame: &[u8], seed: u64) -> u64 {
    let mut hash = Hash(seed);
    if add_ip(&mut hash, frame).is_none() {
        hash = Hash(seed);
        hash.add_bytes(frame.get(..ETHERNET_BYTES).unwrap_or(frame));
    }
    hash.finish()
}

fn add_ip(hash: &mut Hash, frame: &[u8]) -> Option<()> {
    let packet = ip_packet(frame)?;
    let (ip, first_protocol) = match packet {
        IpPacket::V4(ip) => {
            hash.add_words::<1>(ip.get(..IPV4_BYTES)?, 12);
            (ip, ip[9])
        }
        IpPacket::V6(ip) => {
            hash.add_words::<4>(ip.get(..IPV6_BYTES)?, 8);
            (ip, ip[6])
        }
    };
    match Headers::parse_packet(packet, 0) {
        Ok(headers) if headers.is_whole() => {
            hash.add_word(headers.protocol.into());
            hash.add_ports(headers.protocol, ip.get(headers.transport_at..)?);
        }
        // Fragments of one packet may name different next headers (RFC 8200, section 4.5).
        Ok(headers) if headers.is_ipv6 => hash.add_word(FRAGMENT.into()),
        _ => hash.add_word(first_protocol.into()),
    }
    Some(())
}

/// Multiply and rotate, as `rustc` hashes small keys; the end mixes the high bits into the low ones.
struct Hash(u64);

impl Hash {
    #[inline]
    fn add_word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Adds `WORDS` words of `header` from byte `at` on, which is long enough.
    #[inline]
    fn add_words<const WORDS: usize>(&mut self, header: &[u8], at: usize) {
        for word in header[at..at + 8 * WORDS].as_chunks().0 {
            self.add_word(u64::from_le_bytes(*word));
        }
    }

    #[inline]
    fn add_ports(&mut self, protocol: u8, transport: &[u8]) {
        if let (TCP | UDP | SCTP, Some(ports)) = (protocol, transport.first_chunk()) {
            self.add_word(u32::from_le_bytes(*ports).into());
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add_word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }
}
