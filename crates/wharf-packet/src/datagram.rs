//! `Datagram`: a whole UDP datagram of a frame, with its two ends.

use crate::{Ecn, Headers, UDP, UDP_BYTES, word};
use core::net::SocketAddr;
use core::ops::Range;

/// A UDP datagram and where it goes.
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::{Datagram, UdpHeaders};
///
/// let (client, server) = ("192.0.2.1:5000".parse().unwrap(), "198.51.100.1:9".parse().unwrap());
/// let headers = UdpHeaders::between(client, server).expect("one version of IP");
/// let mut frame = *b"..........................................payload";
/// headers.write(&mut frame, 0);
/// let datagram = Datagram::parse(&frame).expect("a whole datagram");
/// assert_eq!((datagram.source, datagram.destination), (client, server));
/// assert_eq!(datagram.payload, b"payload");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// The ECN codepoint.
    pub ecn: Ecn,
    /// The bytes behind the UDP header, by its length.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads the datagram of an Ethernet frame behind up to two VLAN tags.
    ///
    /// Returns `None` for a fragment, for another protocol, and where a length claims more bytes than there
    /// are. The checksum is not verified: a sender on this machine may have left it to the device.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let (headers, payload) = whole(frame)?;
        let ((source, destination), ports) = (headers.addresses(frame)?, headers.ports(frame)?);
        Some(Self {
            source: SocketAddr::new(source, ports.0),
            destination: SocketAddr::new(destination, ports.1),
            ecn: Ecn::of(headers.traffic_class(frame)?),
            payload: frame.get(payload)?,
        })
    }
}

/// Returns the headers of a whole datagram, and where its payload is.
pub(crate) fn whole(frame: &[u8]) -> Option<(Headers, Range<usize>)> {
    let headers =
        Headers::parse(frame).ok().filter(|headers| headers.protocol == UDP && headers.is_whole())?;
    let (udp_at, ip_bytes) = (headers.transport_at, headers.transport_len(frame)?);
    let udp_bytes = usize::from(word(frame, udp_at + 4)?);
    let is_there = (UDP_BYTES..=ip_bytes).contains(&udp_bytes) && udp_at + ip_bytes <= frame.len();
    is_there.then_some((headers, udp_at + UDP_BYTES..udp_at + udp_bytes))
}
