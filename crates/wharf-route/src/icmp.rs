//! ICMP errors of a router: what they say, and how many it sends.

use crate::reason::Reason;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wharf::net::checksum::{fold, sum};
use wharf::net::{Fragment, Headers, IPV4_BYTES, IPV6_BYTES, IpHeader};

/// As the kernel's `icmp_msgs_per_sec` and `icmp_msgs_burst`.
const PER_SECOND: u32 = 1000;
const AT_ONCE: u32 = 50;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ICMP_BYTES: usize = 8;
const REDIRECT_V6: u8 = 137;
/// The most bytes of an error: RFC 1812, 4.3.2.3, and RFC 4443, 2.4.
const ERROR_BYTES_MAX: [usize; 2] = [576, 1280];

/// A token bucket for errors.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
    since: Option<Instant>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: AT_ONCE, since: None }
    }
}

impl Budget {
    /// Takes one. Returns false if there is none.
    pub(crate) fn take(&mut self) -> bool {
        let now = Instant::now();
        let passed = now.saturating_duration_since(*self.since.get_or_insert(now));
        let earned =
            (passed.as_nanos() * u128::from(PER_SECOND) / 1_000_000_000).min(u128::from(AT_ONCE)) as u32;
        if earned > 0 {
            let spent = Duration::from_secs(1) / PER_SECOND * earned;
            self.since = self.since.map(|since| if earned == AT_ONCE { now } else { since + spent });
            self.left = (self.left + earned).min(AT_ONCE);
        }
        let has_one = self.left > 0;
        self.left -= u32::from(has_one);
        has_one
    }
}

/// An error about a packet.
pub(crate) struct Error {
    kind: u8,
    code: u8,
    /// The MTU that a packet was too long for.
    mtu_bytes: u32,
    is_v6: bool,
}

impl Error {
    /// Returns the error that a router sends for a reason. `None` for others.
    pub(crate) fn of(reason: Reason, mtu_bytes: u32, is_v6: bool) -> Option<Self> {
        let (kind, code) = match (reason, is_v6) {
            (Reason::Expired, false) => (11, 0),
            (Reason::Expired, true) => (3, 0),
            (Reason::TooBig, false) => (3, 4),
            (Reason::TooBig, true) => (2, 0),
            (Reason::NoRoute, false) => (3, 0),
            (Reason::NoRoute, true) => (1, 0),
            (Reason::Unreachable, false) => (3, 1),
            (Reason::Unreachable, true) => (1, 3),
            (Reason::Prohibited, false) => (3, 13),
            (Reason::Prohibited, true) => (1, 1),
            _ => return None,
        };
        Some(Self { kind, code, mtu_bytes, is_v6 })
    }

    /// Returns the length of the whole packet about `packet`.
    pub(crate) fn len_bytes(&self, packet: &[u8]) -> usize {
        let headers = ICMP_BYTES + if self.is_v6 { IPV6_BYTES } else { IPV4_BYTES };
        (headers + packet.len()).min(ERROR_BYTES_MAX[usize::from(self.is_v6)])
    }

    /// Writes the whole packet about `packet`, from this router to its sender, to `to`. `None` if it does not
    /// fit.
    pub(crate) fn write(
        &self, to: &mut [u8], source: IpAddr, destination: IpAddr, packet: &[u8],
    ) -> Option<()> {
        let ip = IpHeader::new(source, destination, if self.is_v6 { ICMPV6 } else { ICMP });
        let icmp_bytes = to.len().checked_sub(ip.len_bytes())?;
        let (ip_bytes, icmp) = to.split_at_mut(ip.len_bytes());
        ip.write(ip_bytes, icmp_bytes)?;
        let quoted = packet.get(..icmp_bytes.checked_sub(ICMP_BYTES)?)?;
        icmp[..4].copy_from_slice(&[self.kind, self.code, 0, 0]);
        // IPv4 has the MTU in the last two bytes (RFC 1191), IPv6 in all four.
        icmp[4..8].copy_from_slice(&self.mtu_bytes.to_be_bytes());
        icmp[8..].copy_from_slice(quoted);
        let pseudo = if self.is_v6 { ip.pseudo_sum(icmp_bytes) } else { 0 };
        let checksum = !fold(pseudo + sum(icmp));
        icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }
}

/// Returns true if no error may be sent about a packet: about errors, later fragments, and what comes from
/// or goes to more than one host (RFC 1812, 4.3.2.7; RFC 4443, 2.4).
pub(crate) fn is_exempt(packet: &[u8], headers: &Headers) -> bool {
    let Some((source, destination)) = headers.addresses(packet) else { return true };
    let is_later = matches!(headers.fragment, Fragment::Later);
    let kind = packet.get(headers.transport_at).copied().unwrap_or(0);
    let is_error = match headers.protocol {
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        ICMPV6 => kind < 128 || kind == REDIRECT_V6,
        _ => false,
    };
    let is_one = !source.is_unspecified() && !source.is_multicast() && !source.is_loopback();
    is_later || is_error || !is_one || destination.is_multicast()
}

#[cfg(test)]
mod tests;
