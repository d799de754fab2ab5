//! `UdpHeaders`: the headers of one flow of UDP datagrams, from Ethernet on, made once and written in front
//! of each payload.

use crate::checksum::{UDP_OFFSET, fold, from_sum, sum, update};
use crate::{
    ETHERNET_BYTES, EthernetHeader, IPV4_BYTES, IPV4_CHECKSUM_AT, IPV4_IDENTIFICATION_AT, IPV6_BYTES,
    IpHeader, UDP, UDP_BYTES, UdpHeader, VLAN_BYTES, word,
};
use core::net::SocketAddr;

/// Offset of the total length in an IPv4 header.
const IPV4_LENGTH_AT: usize = 2;
/// Offset of the payload length in an IPv6 header.
const IPV6_LENGTH_AT: usize = 4;
/// Offset of the length in a UDP header.
const UDP_LENGTH_AT: usize = 4;

/// The headers of a flow: Ethernet with or without a VLAN tag, IPv4 or IPv6, UDP.
///
/// What all datagrams share is summed up once; lengths, identification and checksums are written for each
/// (RFC 1624).
///
/// ```
/// use wharf_packet::{EthernetHeader, Headers, IpHeader, UDP, UdpHeader, UdpHeaders};
///
/// let ethernet = EthernetHeader { destination: [2; 6], source: [4; 6], vlan: None, ethertype: 0 };
/// let ip = IpHeader::new([192, 0, 2, 1].into(), [198, 51, 100, 1].into(), UDP);
/// let headers = UdpHeaders::new(ethernet, ip, UdpHeader { source: 5000, destination: 9 }).expect("one version of IP");
/// let mut frame = [0; 42 + 18];
/// frame[headers.len_bytes()..].copy_from_slice(b"eighteen bytes now");
/// assert_eq!(headers.write(&mut frame, 1), Some(42));
/// assert_eq!(Headers::parse(&frame)?.protocol, UDP);
/// # Ok::<(), wharf_packet::HeaderError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHeaders {
    /// The headers of a datagram whose length fields and identification are 0.
    bytes: [u8; Self::BYTES_MAX],
    len_bytes: usize,
    is_ipv4: bool,
    /// Sum of pseudo header and UDP header without lengths.
    sum: u64,
}

impl UdpHeaders {
    /// Bytes of the longest headers: Ethernet with a VLAN tag, IPv6, UDP.
    pub const BYTES_MAX: usize = ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES + UDP_BYTES;

    /// Makes the headers of a flow. EtherType and protocol follow from `ip` and UDP, whatever is set.
    ///
    /// `None` if the versions of the addresses differ.
    pub fn new(ethernet: EthernetHeader, ip: IpHeader, udp: UdpHeader) -> Option<Self> {
        let ethernet = EthernetHeader { ethertype: ip.ethertype(), ..ethernet };
        let ip = IpHeader { protocol: UDP, identification: 0, ..ip };
        let mut bytes = [0; Self::BYTES_MAX];
        let ip_at = ethernet.write(&mut bytes)?;
        let udp_at = ip_at + ip.write(&mut bytes[ip_at..], 0)?;
        let len_bytes = udp_at + udp.write(&mut bytes[udp_at..], 0)?;
        let is_ipv4 = ip.source.is_ipv4();
        if is_ipv4 {
            put(&mut bytes[ip_at..], IPV4_LENGTH_AT, 0);
            put(&mut bytes[ip_at..], IPV4_CHECKSUM_AT, 0);
            let checksum = !fold(sum(&bytes[ip_at..udp_at]));
            put(&mut bytes[ip_at..], IPV4_CHECKSUM_AT, checksum);
        }
        put(&mut bytes[udp_at..], UDP_LENGTH_AT, 0);
        let sum = ip.pseudo_sum(0) + sum(&bytes[udp_at..len_bytes]);
        Some(Self { bytes, len_bytes, is_ipv4, sum })
    }

    /// Makes the headers of a flow between two sockets, for devices whose kernel writes the Ethernet header
    /// itself (`udp:`): that header is zeros here.
    ///
    /// `None` if the versions of the addresses differ.
    pub fn between(source: SocketAddr, destination: SocketAddr) -> Option<Self> {
        let ethernet = EthernetHeader { destination: [0; 6], source: [0; 6], vlan: None, ethertype: 0 };
        let ip = IpHeader::new(source.ip(), destination.ip(), UDP);
        Self::new(ethernet, ip, UdpHeader { source: source.port(), destination: destination.port() })
    }

    /// Returns the bytes of the headers: 42 to 66.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Writes the headers to the start of `frame`, in which the payload lies already, up to its end. Returns
    /// their length. Both checksums are complete; `identification` is IPv4's.
    ///
    /// `None` if `frame` is shorter than the headers, or too long for IP.
    pub fn write(&self, frame: &mut [u8], identification: u16) -> Option<usize> {
        let payload_sum = sum(frame.get(self.len_bytes..)?);
        let udp_bytes = self.write_but_checksum(frame, identification)?;
        // The length is in the pseudo header and in the header.
        let checksum = from_sum(self.sum + 2 * u64::from(udp_bytes) + payload_sum, UDP_OFFSET);
        put(frame, self.checksum_at(), checksum);
        Some(self.len_bytes)
    }

    /// Works like [`UdpHeaders::write`], and leaves UDP's checksum to the device: the sum of the pseudo
    /// header stands in the field (`CHECKSUM_PARTIAL`). Returns the offset where the summed bytes start; the
    /// checksum lies [`UDP_OFFSET`](crate::checksum::UDP_OFFSET) behind.
    pub fn write_partial(&self, frame: &mut [u8], identification: u16) -> Option<usize> {
        let udp_bytes = self.write_but_checksum(frame, identification)?;
        let udp_at = self.len_bytes - UDP_BYTES;
        let ports = sum(&self.bytes[udp_at..self.len_bytes]);
        // The sum less the ports: the complement adds up to all ones, which is 0.
        let pseudo = fold(self.sum + u64::from(!fold(ports)) + u64::from(udp_bytes));
        put(frame, self.checksum_at(), pseudo);
        Some(udp_at)
    }

    /// Writes all but UDP's checksum, which is 0. Returns the bytes of the datagram.
    fn write_but_checksum(&self, frame: &mut [u8], identification: u16) -> Option<u16> {
        let (frame_bytes, udp_at) = (frame.len(), self.len_bytes - UDP_BYTES);
        let headers = frame.get_mut(..self.len_bytes)?;
        let ip_at = udp_at - if self.is_ipv4 { IPV4_BYTES } else { IPV6_BYTES };
        // IPv4's length counts its own header, IPv6's does not.
        let counted_from = if self.is_ipv4 { ip_at } else { udp_at };
        let ip_bytes = u16::try_from(frame_bytes - counted_from).ok()?;
        let udp_bytes = (frame_bytes - udp_at) as u16;
        headers.copy_from_slice(&self.bytes[..self.len_bytes]);
        let ip = &mut headers[ip_at..];
        if self.is_ipv4 {
            let checksum = update(update(word(ip, IPV4_CHECKSUM_AT)?, 0, ip_bytes), 0, identification);
            put(ip, IPV4_LENGTH_AT, ip_bytes);
            put(ip, IPV4_IDENTIFICATION_AT, identification);
            put(ip, IPV4_CHECKSUM_AT, checksum);
        } else {
            put(ip, IPV6_LENGTH_AT, ip_bytes);
        }
        put(headers, udp_at + UDP_LENGTH_AT, udp_bytes);
        Some(udp_bytes)
    }

    fn checksum_at(&self) -> usize {
        self.len_bytes - UDP_BYTES + UDP_OFFSET
    }
}

fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}
