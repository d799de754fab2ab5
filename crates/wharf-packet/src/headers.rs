//! `Headers`: the offsets of a packet's headers, from Ethernet to the transport.

use crate::checksum::sum;
use crate::extensions::{self, Upper};
use crate::ip::{Fragment, HeaderError, IPV4_BYTES, IPV6_BYTES};
use crate::{IpPacket, ip_packet, word};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of TCP (RFC 9293).
pub const TCP: u8 = 6;
/// Protocol number of UDP (RFC 768).
pub const UDP: u8 = 17;
/// Protocol number of SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;
/// Bytes of a TCP header without options.
pub const TCP_BYTES: usize = 20;
/// Bytes of SCTP's common header.
pub const SCTP_BYTES: usize = 12;
/// Offset of the data offset in a TCP header, whose upper half counts 32-bit words.
pub const TCP_LENGTH_AT: usize = 12;
/// Offset of the lower eight flags in a TCP header: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN.
pub const TCP_FLAGS_AT: usize = 13;

/// Offsets of the headers of one packet, bytes from the start of the slice that was parsed.
///
/// IPv6 extension headers are walked in any order (RFC 8200, section 4.1): hop-by-hop options, which count
/// only directly behind the IPv6 header, destination options, routing, fragment, and the authentication
/// header of either IP version (RFC 4302). The walk ends at a fragment header that belongs to a real
/// fragment.
///
/// Lengths that IP and transport claim are not checked here: see [`Headers::transport_len`]. A method that
/// takes `frame` is given the slice that was parsed, and returns `None` where another one is too short.
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::{Headers, UDP};
///
/// // Ethernet, IPv6, destination options, UDP from port 1 to port 9.
/// let mut frame = [0; 14 + 40 + 8 + 8];
/// frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
/// frame[18..21].copy_from_slice(&[0, 16, 60]); // 16 bytes of payload, which begins with destination options
/// frame[54] = UDP;
/// frame[62..66].copy_from_slice(&[0, 1, 0, 9]);
///
/// let headers = Headers::parse(&frame)?;
/// assert_eq!((headers.ip_at, headers.transport_at, headers.protocol), (14, 62, UDP));
/// assert_eq!(headers.ports(&frame), Some((1, 9)));
/// assert_eq!(headers.transport_len(&frame), Some(8));
/// # Ok::<(), wharf_packet::HeaderError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Headers {
    /// Offset of the IP header.
    pub ip_at: usize,
    /// Offset of the transport header; in a fragment, of the first byte behind IP's headers.
    pub transport_at: usize,
    /// Offset of the address that the packet is finally for, of 4 or 16 bytes: the IP destination, or the
    /// last hop of a routing header with segments left. `None` for a routing type whose last hop cannot be
    /// told.
    pub final_destination_at: Option<usize>,
    /// True for IPv6, false for IPv4.
    pub is_ipv6: bool,
    /// Protocol number of what is at `transport_at` (IANA, protocol numbers).
    pub protocol: u8,
    /// The part of the packet that this is.
    pub fragment: Fragment,
    /// True if an authentication header was walked, so that no byte behind it may change.
    pub is_authenticated: bool,
}

impl Headers {
    /// Reads the headers of an Ethernet frame behind up to two VLAN tags.
    ///
    /// `frame` may end early, as long as IP's headers are whole; the transport header need not be there.
    ///
    /// # Errors
    /// [`HeaderError`].
    #[inline(always)]
    pub fn parse(frame: &[u8]) -> Result<Self, HeaderError> {
        match ip_packet(frame) {
            Some(packet) => Self::parse_packet(packet, frame.len() - packet.bytes().len()),
            None => Err(HeaderError::NotIp),
        }
    }

    /// Reads the headers of a bare IP packet, which begins at byte `ip_at` of `bytes`; the version is that of
    /// its first byte.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn parse_ip(bytes: &[u8], ip_at: usize) -> Result<Self, HeaderError> {
        let ip = bytes.get(ip_at..).unwrap_or_default();
        match ip.first().map(|first| first >> 4) {
            Some(4) => Self::parse_packet(IpPacket::V4(ip), ip_at),
            Some(6) => Self::parse_packet(IpPacket::V6(ip), ip_at),
            Some(_) => Err(HeaderError::NotIp),
            None => Err(HeaderError::Truncated),
        }
    }

    /// Reads the headers of `packet`, which begins at byte `ip_at`.
    #[inline(always)]
    pub(crate) fn parse_packet(packet: IpPacket<'_>, ip_at: usize) -> Result<Self, HeaderError> {
        let is_ipv6 = matches!(packet, IpPacket::V6(_));
        let Upper { at, protocol, fragment, destination_at, is_authenticated } = extensions::upper(packet)?;
        Ok(Self {
            ip_at,
            transport_at: ip_at + at,
            final_destination_at: destination_at.map(|at| ip_at + at),
            is_ipv6,
            protocol,
            fragment,
            is_authenticated,
        })
    }

    /// Returns true if this is no fragment.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.fragment == Fragment::Whole
    }

    /// Returns the offset behind the IP packet by the length in its header: padding begins there. May lie
    /// behind the frame's end, where the frame was cut short. A jumbogram (RFC 2675) claims no length, so
    /// that its end is wrong.
    #[inline]
    pub fn packet_end(&self, frame: &[u8]) -> Option<usize> {
        let len = if self.is_ipv6 {
            IPV6_BYTES + usize::from(word(frame, self.ip_at + 4)?)
        } else {
            usize::from(word(frame, self.ip_at + 2)?)
        };
        Some(self.ip_at + len)
    }

    /// Returns the bytes from the transport header to the end of the IP packet, by the length in its header;
    /// `None` where that is shorter than its own headers.
    #[inline]
    pub fn transport_len(&self, frame: &[u8]) -> Option<usize> {
        self.packet_end(frame)?.checked_sub(self.transport_at)
    }

    /// Returns the offset behind the header of TCP (options included), UDP or SCTP, up to which `frame` is
    /// whole.
    ///
    /// `None` for other protocols, for fragments, for a TCP data offset below 5 and where `frame` ends
    /// before.
    #[inline]
    pub fn payload_at(&self, frame: &[u8]) -> Option<usize> {
        let transport = frame.get(self.transport_at..).filter(|_| self.is_whole())?;
        let bytes = match self.protocol {
            TCP => usize::from(transport.get(TCP_LENGTH_AT)? >> 4) * 4,
            UDP => UDP_BYTES,
            SCTP => SCTP_BYTES,
            _ => return None,
        };
        let is_there = bytes <= transport.len() && (self.protocol != TCP || bytes >= TCP_BYTES);
        is_there.then_some(self.transport_at + bytes)
    }

    /// Returns source and destination port of TCP, UDP or SCTP; `None` for other protocols and for fragments.
    #[inline]
    pub fn ports(&self, frame: &[u8]) -> Option<(u16, u16)> {
        let has_ports = self.is_whole() && matches!(self.protocol, TCP | UDP | SCTP);
        let at = self.transport_at;
        if has_ports { Some((word(frame, at)?, word(frame, at + 2)?)) } else { None }
    }

    /// Returns the source address in the IP header.
    #[inline]
    pub fn source(&self, frame: &[u8]) -> Option<IpAddr> {
        self.address(frame, self.ip_at + if self.is_ipv6 { 8 } else { 12 })
    }

    /// Returns the destination address in the IP header: with a routing header, the next hop.
    #[inline]
    pub fn destination(&self, frame: &[u8]) -> Option<IpAddr> {
        self.address(frame, self.ip_at + if self.is_ipv6 { 24 } else { 16 })
    }

    /// Returns [`Headers::source`] and [`Headers::destination`], in fewer instructions.
    #[inline(always)]
    pub fn addresses(&self, frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
        let ip = frame.get(self.ip_at..)?;
        Some(if self.is_ipv6 {
            let header: &[u8; IPV6_BYTES] = ip.first_chunk()?;
            let address = |at: usize| header[at..].first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes));
            (address(8)?.into(), address(24)?.into())
        } else {
            let header: &[u8; IPV4_BYTES] = ip.first_chunk()?;
            let address = |at: usize| header[at..].first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes));
            (address(12)?.into(), address(16)?.into())
        })
    }

    /// Returns true if a routing header or source route has hops left, so that the IP destination is one of
    /// them.
    #[inline]
    pub fn is_source_routed(&self) -> bool {
        self.final_destination_at != Some(self.ip_at + if self.is_ipv6 { 24 } else { 16 })
    }

    #[inline]
    fn address(&self, frame: &[u8], at: usize) -> Option<IpAddr> {
        let bytes = frame.get(at..)?;
        Some(if self.is_ipv6 {
            Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()
        } else {
            Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()
        })
    }

    /// Returns the TOS byte or traffic class: see [`traffic_class`](crate::traffic_class).
    #[inline]
    pub fn traffic_class(&self, frame: &[u8]) -> Option<u8> {
        let &[first, second] = frame.get(self.ip_at..)?.first_chunk()?;
        Some(if self.is_ipv6 { first << 4 | second >> 4 } else { second })
    }

    /// Sums up the pseudo header of a transport segment of `len` bytes, to be
    /// [`fold`](crate::checksum::fold)ed: source, final destination, protocol and length (RFC 9293, section
    /// 3.1; RFC 8200, section 8.1).
    ///
    /// `None` where the final destination cannot be told. A home address option (RFC 6275) is not looked for.
    #[inline]
    pub fn pseudo_sum(&self, frame: &[u8], len: usize) -> Option<u64> {
        let destination_at = self.final_destination_at?;
        let addresses = match (self.is_source_routed(), self.is_ipv6) {
            (false, false) => address_sum::<8>(frame, self.ip_at + 12)?,
            (false, true) => address_sum::<32>(frame, self.ip_at + 8)?,
            (true, false) => {
                address_sum::<4>(frame, self.ip_at + 12)? + address_sum::<4>(frame, destination_at)?
            }
            (true, true) => {
                address_sum::<16>(frame, self.ip_at + 8)? + address_sum::<16>(frame, destination_at)?
            }
        };
        Some(addresses + u64::from(self.protocol) + len as u64)
    }
}

#[inline]
fn address_sum<const BYTES: usize>(frame: &[u8], at: usize) -> Option<u64> {
    Some(sum(frame.get(at..)?.first_chunk::<BYTES>()?))
}
