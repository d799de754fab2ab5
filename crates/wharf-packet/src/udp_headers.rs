//! `UdpHeaders`: the headers of one flow of UDP datagrams, from Ethernet on, made once and written in front
//! of each payload.

use crate::checksum::{UDP_OFFSET, fold, from_sum, sum, update};
use crate::gso::{GSO_UDP, GsoRequest};
use crate::{
    ETHERNET_BYTES, Ecn, EthernetHeader, Front, IPV4_BYTES, IPV4_CHECKSUM_AT, IPV4_IDENTIFICATION_AT,
    IPV6_BYTES, IpHeader, NoRoom, UDP, UDP_BYTES, UdpHeader, VLAN_BYTES, VLAN_TAGS_MAX, datagram, put_word,
    replace_ip_word, word,
};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;

/// Offset of the total length in an IPv4 header.
const IPV4_LENGTH_AT: usize = 2;
/// Offset of flags and fragment offset in an IPv4 header, and the flag "don't fragment".
const IPV4_FLAGS_AT: usize = 6;
const DONT_FRAGMENT: u16 = 0x4000;
/// Offset of the payload length in an IPv6 header.
const IPV6_LENGTH_AT: usize = 4;
/// Offset of the length in a UDP header.
const UDP_LENGTH_AT: usize = 4;

/// The headers of a flow: Ethernet with or without VLAN tags, IPv4 or IPv6, UDP.
///
/// What all datagrams share is summed up once; lengths, identification and checksums are written for each
/// (RFC 1624).
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::{EthernetHeader, Headers, IpHeader, UDP, UdpHeader, UdpHeaders};
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
    /// The identification that [`UdpHeaders::put`] writes.
    identification: u16,
    /// Sum of pseudo header and UDP header without lengths.
    sum: u64,
}

impl UdpHeaders {
    /// Bytes of the longest headers: Ethernet with two VLAN tags, IPv6, UDP.
    pub const BYTES_MAX: usize = ETHERNET_BYTES + VLAN_TAGS_MAX * VLAN_BYTES + IPV6_BYTES + UDP_BYTES;

    /// Makes the headers of a flow. EtherType and protocol follow from `ip` and UDP, whatever is set.
    ///
    /// `None` if the versions of the addresses differ.
    pub fn new(ethernet: EthernetHeader, ip: IpHeader, udp: UdpHeader) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        let ip_at = EthernetHeader { ethertype: ip.ethertype(), ..ethernet }.write(&mut bytes)?;
        Self::behind(bytes, ip_at, ip, udp)
    }

    /// Writes IP and UDP behind the Ethernet header, which ends at `ip_at`.
    fn behind(mut bytes: [u8; Self::BYTES_MAX], ip_at: usize, ip: IpHeader, udp: UdpHeader) -> Option<Self> {
        let identification = ip.identification;
        let ip = IpHeader { protocol: UDP, identification: 0, ..ip };
        let udp_at = ip_at + ip.write(&mut bytes[ip_at..], 0)?;
        let len_bytes = udp_at + udp.write(&mut bytes[udp_at..], 0)?;
        let is_ipv4 = ip.source.is_ipv4();
        if is_ipv4 {
            put_word(&mut bytes[ip_at..], IPV4_LENGTH_AT, 0);
            put_word(&mut bytes[ip_at..], IPV4_CHECKSUM_AT, 0);
            let checksum = !fold(sum(&bytes[ip_at..udp_at]));
            put_word(&mut bytes[ip_at..], IPV4_CHECKSUM_AT, checksum);
        }
        put_word(&mut bytes[udp_at..], UDP_LENGTH_AT, 0);
        let sum = ip.pseudo_sum(0) + sum(&bytes[udp_at..len_bytes]);
        Some(Self { bytes, len_bytes, is_ipv4, identification, sum })
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

    /// Makes the headers of an answer to the UDP datagram in `frame`, an Ethernet frame, and returns them
    /// with the range of its payload: MAC addresses, IP addresses and ports are swapped, VLAN tags are
    /// kept. IP options and extension headers are left out. As those of the kernel's sockets, an answer is
    /// not to be fragmented, and has hop limit 64.
    ///
    /// Returns `None` where [`Datagram::parse`](crate::Datagram::parse) does, and where no answer can go:
    /// from or to a group (multicast, broadcast), to port 0, or while hops of a source route are left.
    ///
    /// ```
    /// # mod wharf { pub use wharf_packet as net; }
    /// use wharf::net::{Datagram, UdpHeaders};
    ///
    /// let (client, server) = ("192.0.2.1:5000".parse().unwrap(), "198.51.100.1:9".parse().unwrap());
    /// let mut question = *b"..........................................what?";
    /// UdpHeaders::between(client, server).expect("one version of IP").write(&mut question, 0);
    ///
    /// let (headers, payload) = UdpHeaders::reply_to(&question).expect("a whole datagram");
    /// assert_eq!(&question[payload], b"what?");
    /// let mut answer = *b"..........................................that";
    /// headers.write(&mut answer, 0);
    /// assert_eq!(Datagram::parse(&answer).map(|answer| answer.destination), Some(client));
    /// ```
    pub fn reply_to(frame: &[u8]) -> Option<(Self, Range<usize>)> {
        let (headers, payload) = datagram::whole(frame)?;
        let ((from, to), ports) = (headers.addresses(frame)?, headers.ports(frame)?);
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..headers.ip_at].copy_from_slice(frame.get(..headers.ip_at)?);
        let (destination, source) = bytes[..12].split_at_mut(6);
        destination.swap_with_slice(source);
        let is_to_many = (source[0] | destination[0]) & 1 != 0 || is_group(from) || is_group(to);
        let is_nowhere = from.is_unspecified() || ports.0 == 0;
        if is_to_many || is_nowhere || headers.is_source_routed() {
            return None;
        }
        let ip = IpHeader { dont_fragment: true, ..IpHeader::new(to, from, UDP) };
        let udp = UdpHeader { source: ports.1, destination: ports.0 };
        Some((Self::behind(bytes, headers.ip_at, ip, udp)?, payload))
    }

    /// Sets the MAC addresses, for a device that sends whole frames (`xdp`, `packet`, `tap`).
    #[must_use]
    pub fn macs(mut self, source: [u8; 6], destination: [u8; 6]) -> Self {
        self.bytes[..6].copy_from_slice(&destination);
        self.bytes[6..12].copy_from_slice(&source);
        self
    }

    /// Sets the ECN codepoint.
    #[must_use]
    pub fn ecn(self, ecn: Ecn) -> Self {
        // The traffic class of IPv6 begins four bits further left.
        let shift = if self.is_ipv4 { 0 } else { 4 };
        self.with_ip_word(0, 3 << shift, (ecn as u16) << shift)
    }

    /// Forbids routers to fragment the datagrams, as they never do over IPv6.
    #[must_use]
    pub fn dont_fragment(self) -> Self {
        if self.is_ipv4 { self.with_ip_word(IPV4_FLAGS_AT, 0, DONT_FRAGMENT) } else { self }
    }

    /// Sets the identification of the datagrams that [`UdpHeaders::put`] writes over IPv4. Those that may be
    /// fragmented have to differ (RFC 6864); for others the default, 0, will do.
    #[must_use]
    pub fn identification(mut self, identification: u16) -> Self {
        self.identification = identification;
        self
    }

    /// Replaces the bits `mask` of a word of the IP header that no pseudo header has.
    fn with_ip_word(mut self, at: usize, mask: u16, bits: u16) -> Self {
        let (ip_at, is_ipv4) = (self.ip_at(), self.is_ipv4);
        let ip = &mut self.bytes[ip_at..];
        let old = u16::from_be_bytes([ip[at], ip[at + 1]]);
        replace_ip_word(ip, is_ipv4, at, old & !mask | bits);
        self
    }

    /// Puts the headers in front of a packet that is the payload, with both checksums in full. Of a chain,
    /// all parts count. What the packet's metadata left to a device is finished before ([`Front::finish`]).
    ///
    /// # Errors
    /// [`NoRoom`] in front of the packet, or in IP's length of 16 bits. The packet has its bytes then, and no
    /// request of a device.
    pub fn put(&self, packet: &mut impl Front) -> Result<(), NoRoom> {
        let (mut headers, udp_bytes) = self.of_payload(packet.len_bytes())?;
        // The length is in the pseudo header and in the header.
        let checksum = from_sum(self.sum + 2 * u64::from(udp_bytes) + packet.finish(), UDP_OFFSET);
        put_word(&mut headers, self.checksum_at(), checksum);
        packet.prepend(self.len_bytes)?.copy_from_slice(&headers[..self.len_bytes]);
        Ok(())
    }

    /// Puts the headers in front of a packet that is the payload of several datagrams, each of
    /// `segment_bytes`, the last of what is left: a super-packet, which the device cuts, or the path where
    /// the device cannot. Identifications count up. A payload of one datagram, or `segment_bytes` of 0, is
    /// [`UdpHeaders::put`].
    ///
    /// # Errors
    /// Those of [`UdpHeaders::put`]: all datagrams together have at most about 65 500 bytes.
    pub fn put_segmented(&self, packet: &mut impl Front, segment_bytes: u16) -> Result<(), NoRoom> {
        let payload_bytes = packet.len_bytes();
        if segment_bytes == 0 || payload_bytes <= segment_bytes.into() {
            return self.put(packet);
        }
        let (mut headers, udp_bytes) = self.of_payload(payload_bytes)?;
        packet.complete();
        put_word(&mut headers, self.checksum_at(), self.partial(udp_bytes));
        packet.prepend(self.len_bytes)?.copy_from_slice(&headers[..self.len_bytes]);
        let request = GsoRequest { kind: GSO_UDP, segment_bytes, is_checksum_partial: true };
        packet.request(&request, (self.len_bytes - UDP_BYTES) as u16);
        Ok(())
    }

    /// Returns the headers of a datagram of `payload_bytes` without UDP's checksum, and the bytes of UDP.
    fn of_payload(&self, payload_bytes: usize) -> Result<([u8; Self::BYTES_MAX], u16), NoRoom> {
        let mut headers = [0; Self::BYTES_MAX];
        let counted = UDP_BYTES + if self.is_ipv4 { IPV4_BYTES } else { 0 };
        let no_room = NoRoom { bytes: payload_bytes, max_bytes: usize::from(u16::MAX) - counted };
        let frame_bytes = payload_bytes.saturating_add(self.len_bytes);
        let udp_bytes = self.write_but_checksum(&mut headers, frame_bytes, self.identification);
        Ok((headers, udp_bytes.ok_or(no_room)?))
    }

    /// Returns the bytes of the headers: 42 to 70.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Writes the headers to the start of `frame`, in which the payload lies already, up to its end. Returns
    /// their length. Both checksums are complete; `identification` is IPv4's.
    ///
    /// `None` if `frame` is shorter than the headers, or too long for IP.
    pub fn write(&self, frame: &mut [u8], identification: u16) -> Option<usize> {
        let payload_sum = sum(frame.get(self.len_bytes..)?);
        let udp_bytes = self.write_but_checksum(frame, frame.len(), identification)?;
        // The length is in the pseudo header and in the header.
        let checksum = from_sum(self.sum + 2 * u64::from(udp_bytes) + payload_sum, UDP_OFFSET);
        put_word(frame, self.checksum_at(), checksum);
        Some(self.len_bytes)
    }

    /// Works like [`UdpHeaders::write`], and leaves UDP's checksum to the device: the sum of the pseudo
    /// header stands in the field (`CHECKSUM_PARTIAL`). Returns the offset where the summed bytes start; the
    /// checksum lies [`UDP_OFFSET`](crate::checksum::UDP_OFFSET) behind.
    pub fn write_partial(&self, frame: &mut [u8], identification: u16) -> Option<usize> {
        let udp_bytes = self.write_but_checksum(frame, frame.len(), identification)?;
        put_word(frame, self.checksum_at(), self.partial(udp_bytes));
        Some(self.len_bytes - UDP_BYTES)
    }

    /// Returns the sum of the pseudo header of a datagram of `udp_bytes`.
    fn partial(&self, udp_bytes: u16) -> u16 {
        let ports = sum(&self.bytes[self.len_bytes - UDP_BYTES..self.len_bytes]);
        // The sum less the ports: the complement adds up to all ones, which is 0.
        fold(self.sum + u64::from(!fold(ports)) + u64::from(udp_bytes))
    }

    /// Writes all but UDP's checksum, which is 0, to the start of a frame that has `frame_bytes` in all.
    /// Returns the bytes of the datagram.
    fn write_but_checksum(&self, frame: &mut [u8], frame_bytes: usize, identification: u16) -> Option<u16> {
        let (ip_at, udp_at) = (self.ip_at(), self.len_bytes - UDP_BYTES);
        let headers = frame.get_mut(..self.len_bytes)?;
        // IPv4's length counts its own header, IPv6's does not.
        let counted_from = if self.is_ipv4 { ip_at } else { udp_at };
        let ip_bytes = u16::try_from(frame_bytes - counted_from).ok()?;
        let udp_bytes = (frame_bytes - udp_at) as u16;
        headers.copy_from_slice(&self.bytes[..self.len_bytes]);
        let ip = &mut headers[ip_at..];
        if self.is_ipv4 {
            let checksum = update(update(word(ip, IPV4_CHECKSUM_AT)?, 0, ip_bytes), 0, identification);
            put_word(ip, IPV4_LENGTH_AT, ip_bytes);
            put_word(ip, IPV4_IDENTIFICATION_AT, identification);
            put_word(ip, IPV4_CHECKSUM_AT, checksum);
        } else {
            put_word(ip, IPV6_LENGTH_AT, ip_bytes);
        }
        put_word(headers, udp_at + UDP_LENGTH_AT, udp_bytes);
        Some(udp_bytes)
    }

    fn ip_at(&self) -> usize {
        self.len_bytes - UDP_BYTES - if self.is_ipv4 { IPV4_BYTES } else { IPV6_BYTES }
    }

    fn checksum_at(&self) -> usize {
        self.len_bytes - UDP_BYTES + UDP_OFFSET
    }
}

/// True if `address` is not that of one machine.
fn is_group(address: IpAddr) -> bool {
    address.is_multicast() || address == Ipv4Addr::BROADCAST
}
