//! Ethernet, VLAN, IPv4, IPv6 and UDP headers of a generated packet, and its checksums.
//!
//! RFC 768 (UDP), 791 (IPv4), 1071 (the checksum), 8200 (IPv6; the UDP checksum is not optional there).

use super::GeneratorSpec;
use super::stamp::{MAGIC, STAMP_BYTES};
use wharf_packet::checksum::{self, UDP_OFFSET, fold, from_sum};
use wharf_packet::{EthernetHeader, IpHeader, UDP, UDP_BYTES, UdpHeader};

/// The discard protocol (RFC 863).
pub(super) const PORT_DISCARD: u16 = 9;

impl GeneratorSpec {
    fn ethernet(&self) -> EthernetHeader {
        let (destination, source) = (self.destination_mac, self.source_mac);
        EthernetHeader { destination, source, vlan: self.vlan, ethertype: self.ip().ethertype() }
    }

    fn ip(&self) -> IpHeader {
        let ip = IpHeader::new(self.source, self.destination, UDP);
        IpHeader { traffic_class: self.tos, dont_fragment: true, ..ip }
    }

    /// Returns the bytes before the IP header.
    pub(super) fn ip_at(&self) -> usize {
        self.ethernet().len_bytes()
    }

    /// Returns the bytes before the UDP header.
    pub(super) fn udp_at(&self) -> usize {
        self.ip_at() + self.ip().len_bytes()
    }

    /// Returns the sum of the pseudo-header of a datagram of `udp_len` bytes (RFC 768, 8200).
    pub(super) fn pseudo_sum(&self, udp_len: u16) -> u64 {
        self.ip().pseudo_sum(udp_len.into())
    }

    /// Returns all headers before the payload of a datagram of `udp_len` bytes, without source port and UDP checksum.
    pub(super) fn headers(&self, udp_len: u16) -> Vec<u8> {
        let (mut bytes, ip_at, udp_at) =
            (vec![0; self.headers_bytes() as usize], self.ip_at(), self.udp_at());
        let udp = UdpHeader { source: 0, destination: PORT_DISCARD };
        let written = [
            self.ethernet().write(&mut bytes),
            self.ip().write(&mut bytes[ip_at..], udp_len.into()),
            udp.write(&mut bytes[udp_at..], usize::from(udp_len) - UDP_BYTES),
        ];
        debug_assert!(written.iter().all(Option::is_some), "of one IP version, and within IP's lengths");
        bytes
    }

    /// Returns the bytes before the payload.
    pub fn headers_bytes(&self) -> u32 {
        (self.udp_at() + UDP_BYTES) as u32
    }

    /// Returns the bytes of the shortest frame that has room for a stamp; Ethernet's least is 60.
    pub fn shortest_bytes(&self) -> u32 {
        (self.headers_bytes() + STAMP_BYTES as u32).max(60)
    }
}

/// A whole packet of one length. Its source port, stamp and UDP checksum are zero.
#[derive(Debug)]
pub(super) struct Template {
    bytes: Box<[u8]>,
    udp_at: usize,
    /// Sum of all words that the UDP checksum covers, folded to 16 bits.
    sum: u64,
}

impl Template {
    /// Makes that of frames of `len_bytes`, from [`GeneratorSpec::shortest_bytes`] to below 64 KiB.
    pub(super) fn new(spec: &GeneratorSpec, len_bytes: u32) -> Self {
        let udp_at = spec.udp_at();
        let udp_len = len_bytes as u16 - udp_at as u16;
        let mut bytes = spec.headers(udp_len);
        bytes.reserve_exact(len_bytes as usize - bytes.len());
        bytes.extend(MAGIC);
        bytes.extend([0; STAMP_BYTES - MAGIC.len()]);
        let filler = (0..len_bytes as usize - bytes.len()).map(|at| at as u8);
        bytes.extend(filler);
        let sum = spec.pseudo_sum(udp_len) + checksum::sum(&bytes[udp_at..]);
        Self { bytes: bytes.into(), udp_at, sum: u64::from(fold(sum)) }
    }

    #[inline]
    pub(super) fn len_bytes(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the place of the stamp.
    pub(super) fn payload_at(&self) -> usize {
        self.udp_at + UDP_BYTES
    }

    /// Writes the packet with this source port and stamp to `to`, which has its length.
    #[inline]
    pub(super) fn write(&self, to: &mut [u8], port: u16, stamp: &super::Stamp) {
        to.copy_from_slice(&self.bytes);
        // All three lie at even places of the datagram, so that their words add up as they are.
        let sum = self.sum + u64::from(port) + halves(stamp.sequence()) + halves(stamp.time_ns);
        let checksum = from_sum(sum, UDP_OFFSET);
        let udp = to.get_mut(self.udp_at..).and_then(<[u8]>::first_chunk_mut::<{ UDP_BYTES + STAMP_BYTES }>);
        debug_assert!(udp.is_some(), "as long as a template is");
        let Some((header, payload)) = udp.and_then(|udp| udp.split_first_chunk_mut::<UDP_BYTES>()) else {
            return;
        };
        header[..2].copy_from_slice(&port.to_be_bytes());
        header[UDP_OFFSET..].copy_from_slice(&checksum.to_be_bytes());
        payload.first_chunk_mut().into_iter().for_each(|payload| stamp.write(payload));
    }
}

/// Adds the upper and lower 32 bits; after folding, the sum equals that of the four 16-bit words.
#[inline]
fn halves(number: u64) -> u64 {
    (number >> 32) + (number & 0xffff_ffff)
}
