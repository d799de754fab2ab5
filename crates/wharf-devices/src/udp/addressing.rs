//! `Addressing`: the destination and the source address of a frame's datagram.

use super::datagram::Datagram;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Reason: the frame's destination is of another IP version than the socket.
pub(super) const OTHER_FAMILY: &str = "other-family";
/// Source addresses that are remembered.
const SOURCES: usize = 16;

/// Destination and source address; `None` where the socket decides.
pub(super) type Place = (Option<SocketAddr>, Option<IpAddr>);

/// The rule by which datagrams get their destination.
#[derive(Debug)]
pub enum Addressing {
    /// To the peer that the socket is connected to.
    Connected,
    /// To the frame's destination.
    ByFrame(ByFrame),
}

impl Addressing {
    /// Returns the addressing of a datagram, found in the frame that begins with `first`.
    #[inline]
    pub(super) fn place(&mut self, datagram: &Datagram, first: &[u8]) -> Result<Place, &'static str> {
        match self {
            Addressing::Connected => Ok((None, None)),
            Addressing::ByFrame(by_frame) => by_frame.place(datagram, first),
        }
    }

    /// Forgets the known source addresses: the kernel has rejected one.
    pub(super) fn forget(&mut self) {
        if let Addressing::ByFrame(by_frame) = self {
            by_frame.sources.clear();
        }
    }
}

/// Addressing by the frame's own headers.
#[derive(Debug)]
pub struct ByFrame {
    is_ipv6: bool,
    /// Set if the socket has no address of its own: the frame's source counts, if it is one of this
    /// machine's.
    is_wildcard: bool,
    sources: Vec<(IpAddr, bool)>,
    next: usize,
}

impl ByFrame {
    /// Makes the addressing for a socket bound to `local`.
    pub fn new(local: SocketAddr) -> Self {
        let sources = Vec::with_capacity(SOURCES);
        Self { is_ipv6: local.is_ipv6(), is_wildcard: local.ip().is_unspecified(), sources, next: 0 }
    }

    #[inline]
    fn place(&mut self, datagram: &Datagram, first: &[u8]) -> Result<Place, &'static str> {
        let (source, to) = datagram.ends(first).ok_or(super::datagram::NOT_UDP)?;
        if to.is_ipv6() && !self.is_ipv6 {
            return Err(OTHER_FAMILY);
        }
        let source = (self.is_wildcard && self.is_ours(source)).then_some(source);
        Ok((Some(self.mapped(to)), source.map(|source| self.mapped((source, 0).into()).ip())))
    }

    /// Returns an IPv4 address as an IPv6 socket represents it.
    fn mapped(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.is_ipv6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            address => address,
        }
    }

    /// Returns true if a source address is one of this machine's.
    #[inline]
    fn is_ours(&mut self, source: IpAddr) -> bool {
        match self.sources.iter().find(|(known, _)| *known == source) {
            Some((_, is_ours)) => *is_ours,
            None => self.ask(source),
        }
    }

    /// A socket can only be bound to an address of this machine.
    #[cold]
    fn ask(&mut self, source: IpAddr) -> bool {
        let is_ours =
            !source.is_unspecified() && !source.is_multicast() && UdpSocket::bind((source, 0)).is_ok();
        if self.sources.len() < SOURCES {
            self.sources.push((source, is_ours));
        } else {
            self.sources[self.next] = (source, is_ours);
            self.next = (self.next + 1) % SOURCES;
        }
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::Headers;
    use super::*;

    fn place(by_frame: &mut ByFrame, from: &str, to: &str) -> Result<Place, &'static str> {
        let headers = Headers::new(from.parse().unwrap(), to.parse().unwrap(), 0, 0).unwrap();
        let frame = &headers.finish(&[], 0)[..headers.len_bytes()];
        by_frame.place(&Datagram::find(frame, frame.len()).unwrap(), frame)
    }

    #[test]
    fn the_source_counts_where_the_socket_has_none_and_it_is_ours() {
        let mut wildcard = ByFrame::new("0.0.0.0:53".parse().unwrap());
        let to = "192.0.2.7:9";
        let wanted = |from: Option<&str>| Ok((to.parse().ok(), from.and_then(|from| from.parse().ok())));
        for _ in 0..2 {
            assert_eq!(place(&mut wildcard, "127.0.0.1:1", to), wanted(Some("127.0.0.1")));
            assert_eq!(place(&mut wildcard, "192.0.2.1:1", to), wanted(None));
            assert_eq!(place(&mut wildcard, "0.0.0.0:1", to), wanted(None));
        }
        assert_eq!(wildcard.sources.len(), 3);
        let mut bound = ByFrame::new("127.0.0.1:53".parse().unwrap());
        assert_eq!(place(&mut bound, "127.0.0.1:1", to), wanted(None));
        assert_eq!(place(&mut bound, "[::1]:1", "[::1]:2"), Err(OTHER_FAMILY));
        let mut both = ByFrame::new("[::]:53".parse().unwrap());
        let mapped = Ok(("[::ffff:192.0.2.7]:9".parse().ok(), "::ffff:127.0.0.1".parse().ok()));
        assert_eq!(place(&mut both, "127.0.0.1:1", to), mapped);
    }

    #[test]
    fn many_sources_are_forgotten_in_turn() {
        let mut by_frame = ByFrame::new("0.0.0.0:53".parse().unwrap());
        for number in 0..3 * SOURCES {
            let ours = format!("127.0.0.{}", number % 40 + 1).parse().unwrap();
            assert!(by_frame.is_ours(ours) && by_frame.sources.len() <= SOURCES);
        }
    }
}
