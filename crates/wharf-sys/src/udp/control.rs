//! Control messages: `cmsg(3)`. A header (length with itself, level, type) and data, each at a multiple of a
//! word.

use super::address::array;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const WORD: usize = size_of::<usize>();
const HEADER: usize = size_of::<libc::cmsghdr>();
const LEVEL_AT: usize = std::mem::offset_of!(libc::cmsghdr, cmsg_level);
const TYPE_AT: usize = std::mem::offset_of!(libc::cmsghdr, cmsg_type);
const _: () = assert!(HEADER.is_multiple_of(WORD) && HEADER >= TYPE_AT + 4);
const _: () = assert!(size_of::<libc::in_pktinfo>() == 12 && size_of::<libc::in6_pktinfo>() == 20);

/// Room for more than all that is ever asked for at once: packet information of IPv4 and IPv6, and a segment
/// size, or the report of an error with its address.
const CONTROL_BYTES: usize = 128;

/// The control messages of one message.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_BYTES]);

impl Control {
    pub(super) const EMPTY: Self = Self([0; CONTROL_BYTES]);

    /// Appends a message behind the first `len` bytes, and returns the new length.
    fn push(&mut self, len: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let to = &mut self.0[len..];
        to[..HEADER].fill(0);
        to[..WORD].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        to[LEVEL_AT..LEVEL_AT + 4].copy_from_slice(&level.to_ne_bytes());
        to[TYPE_AT..TYPE_AT + 4].copy_from_slice(&kind.to_ne_bytes());
        to[HEADER..HEADER + data.len()].copy_from_slice(data);
        len + (HEADER + data.len()).next_multiple_of(WORD)
    }

    /// Appends the segment size: `UDP_SEGMENT`, `udp(7)`.
    pub(super) fn push_segment(&mut self, len: usize, bytes: u16) -> usize {
        self.push(len, libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes())
    }

    /// Appends the source address: `IP_PKTINFO`, `ip(7)`, or `IPV6_PKTINFO`, `ipv6(7)`.
    pub(super) fn push_source(&mut self, len: usize, source: IpAddr) -> usize {
        match source {
            IpAddr::V4(source) => {
                let mut data = [0; size_of::<libc::in_pktinfo>()];
                data[4..8].copy_from_slice(&source.octets());
                self.push(len, libc::IPPROTO_IP, libc::IP_PKTINFO, &data)
            }
            IpAddr::V6(source) => {
                let mut data = [0; size_of::<libc::in6_pktinfo>()];
                data[..16].copy_from_slice(&source.octets());
                self.push(len, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
            }
        }
    }

    /// Reads the `len` bytes that the kernel has written.
    pub(super) fn read(&self, len: usize) -> ControlInfo {
        let mut info = ControlInfo::default();
        let mut rest = self.0.get(..len).unwrap_or(&self.0);
        while let Some((level, kind, data, behind)) = first(rest) {
            info.note(level, kind, data);
            rest = behind;
        }
        info
    }
}

/// The contents of a datagram's control messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ControlInfo {
    /// The destination address, and the number of the receiving interface.
    pub(super) to: Option<IpAddr>,
    pub(super) interface: u32,
    /// Bytes of each datagram that the kernel has coalesced.
    pub(super) segment_bytes: Option<usize>,
    /// The report of an earlier datagram, of a message of the error queue.
    pub(super) report: Option<ErrorReport>,
}

/// A report from a socket's error queue (`sock_extended_err`, `ip(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorReport {
    /// Error number, `errno(3)`.
    pub errno: i32,
    /// True if it is about a datagram that the kernel had taken: ICMP reported it, from another host or, without a
    /// neighbour, from this one. Otherwise the call that sent the datagram has returned the error.
    pub is_late: bool,
}

/// Origins of reports by ICMP (`SO_EE_ORIGIN_ICMP`, `SO_EE_ORIGIN_ICMP6`).
const ICMP_ORIGINS: [u8; 2] = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6];

impl ControlInfo {
    fn note(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let bytes = array(data, 0).map(i32::from_ne_bytes);
                self.segment_bytes =
                    bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|&bytes| bytes > 0);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let (Some(interface), Some(to)) = (array(data, 0), array::<4>(data, 8)) else { return };
                (self.interface, self.to) = (u32::from_ne_bytes(interface), Some(Ipv4Addr::from(to).into()));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let (Some(to), Some(interface)) = (array::<16>(data, 0), array(data, 16)) else { return };
                (self.interface, self.to) = (u32::from_ne_bytes(interface), Some(Ipv6Addr::from(to).into()));
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                let (Some(errno), Some([origin])) = (array(data, 0), array(data, 4)) else { return };
                let is_late = ICMP_ORIGINS.contains(&origin);
                self.report = Some(ErrorReport { errno: i32::from_ne_bytes(errno), is_late });
            }
            _ => {}
        }
    }
}

/// Returns the first message of `bytes` (level, type and data), and the bytes behind it.
fn first(bytes: &[u8]) -> Option<(libc::c_int, libc::c_int, &[u8], &[u8])> {
    let len = usize::from_ne_bytes(array(bytes, 0)?);
    let (level, kind) =
        (i32::from_ne_bytes(array(bytes, LEVEL_AT)?), i32::from_ne_bytes(array(bytes, TYPE_AT)?));
    let data = bytes.get(HEADER..len)?;
    let behind = bytes.get(len.checked_next_multiple_of(WORD)?..).unwrap_or_default();
    Some((level, kind, data, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_written_are_read() {
        let mut control = Control::EMPTY;
        let len = control.push_segment(0, 1200);
        let len = control.push_source(len, "2001:db8::7".parse().unwrap());
        assert_eq!(len, HEADER.next_multiple_of(WORD) + WORD + HEADER + 24);
        let info = control.read(len);
        assert_eq!((info.to, info.interface), (Some("2001:db8::7".parse().unwrap()), 0));
        assert_eq!(info.segment_bytes, None, "that was a request");
        let len = control.push(0, libc::SOL_UDP, libc::UDP_GRO, &1452i32.to_ne_bytes());
        let data = [2, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 9];
        let len = control.push(len, libc::IPPROTO_IP, libc::IP_PKTINFO, &data);
        let wanted = ControlInfo {
            to: Some("192.0.2.9".parse().unwrap()),
            interface: u32::from_ne_bytes([2, 0, 0, 0]),
            segment_bytes: Some(1452),
            report: None,
        };
        assert_eq!(control.read(len), wanted);
        for (origin, is_late) in
            [(libc::SO_EE_ORIGIN_ICMP, true), (libc::SO_EE_ORIGIN_ICMP6, true), (1, false)]
        {
            let mut data = [0; 44];
            data[..4].copy_from_slice(&libc::EHOSTUNREACH.to_ne_bytes());
            data[4] = origin;
            let len = control.push(0, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &data);
            let wanted = ErrorReport { errno: libc::EHOSTUNREACH, is_late };
            assert_eq!(control.read(len).report, Some(wanted));
            assert_eq!(control.read(HEADER + 4).report, None, "cut short");
        }
    }

    #[test]
    fn a_message_with_a_wrong_length_is_ignored() {
        let mut control = Control::EMPTY;
        let len = control.push(0, libc::SOL_UDP, libc::UDP_GRO, &(-5i32).to_ne_bytes());
        for len in 0..=len {
            assert_eq!(control.read(len), ControlInfo::default());
        }
        for lie in [0, 1, HEADER - 1, CONTROL_BYTES + 1, usize::MAX] {
            control.0[..WORD].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(control.read(CONTROL_BYTES), ControlInfo::default(), "{lie}");
        }
    }
}
