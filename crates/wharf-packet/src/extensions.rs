//! The way from an IP header to the transport: IPv4 options, IPv6 extension headers, the authentication
//! header.

use crate::ip::{Fragment, HeaderError, IPV4_BYTES, IPV6_BYTES};
use crate::{IpPacket, word};

/// IPv6 extension headers that are walked before a packet is refused.
pub const EXTENSIONS_MAX: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

const IPV4_DESTINATION_AT: usize = 16;
const IPV6_DESTINATION_AT: usize = 24;

/// Routing types: source route (RFC 5095 deprecates it), Mobile IPv6 (RFC 6275), RPL (RFC 6554), segments
/// (RFC 8754).
const ROUTE_SOURCE: u8 = 0;
const ROUTE_MOBILE: u8 = 2;
const ROUTE_RPL: u8 = 3;
const ROUTE_SEGMENTS: u8 = 4;

/// IPv4 options (RFC 791, section 3.1): end of list, no operation, loose and strict source route.
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_LOOSE_ROUTE: u8 = 131;
const OPTION_STRICT_ROUTE: u8 = 137;

/// Offsets are bytes from the IP header's start.
pub(crate) struct Upper {
    pub(crate) at: usize,
    pub(crate) protocol: u8,
    pub(crate) fragment: Fragment,
    pub(crate) destination_at: Option<usize>,
    pub(crate) is_authenticated: bool,
}

/// The IPv4 header of a packet that has no more before its transport: no options, no authentication; no
/// fragment.
#[inline(always)]
pub(crate) fn plain_ipv4(ip: &[u8]) -> Option<&[u8; IPV4_BYTES]> {
    let header: &[u8; IPV4_BYTES] = ip.first_chunk()?;
    let is_fragment = u16::from_ne_bytes([header[6], header[7]]) & u16::to_be(0x3fff) != 0;
    (header[0] == 0x45 && !is_fragment && header[9] != AUTHENTICATION).then_some(header)
}

/// The IPv6 header of a packet without extension headers.
#[inline(always)]
pub(crate) fn plain_ipv6(ip: &[u8]) -> Option<&[u8; IPV6_BYTES]> {
    let header: &[u8; IPV6_BYTES] = ip.first_chunk()?;
    let is_extension =
        matches!(header[6], HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS);
    (header[0] >> 4 == 6 && !is_extension).then_some(header)
}

/// The way from the IP header to the transport.
///
/// # Errors
/// [`HeaderError`], but not `NotIp`.
#[inline(always)]
pub(crate) fn upper(packet: IpPacket<'_>) -> Result<Upper, HeaderError> {
    let (at, protocol, destination_at) = match packet {
        IpPacket::V4(ip) => match plain_ipv4(ip) {
            Some(header) => (IPV4_BYTES, header[9], IPV4_DESTINATION_AT),
            None => return upper_of_ipv4(ip),
        },
        IpPacket::V6(ip) => match plain_ipv6(ip) {
            Some(header) => (IPV6_BYTES, header[6], IPV6_DESTINATION_AT),
            None => return walk(ip),
        },
    };
    let destination_at = Some(destination_at);
    Ok(Upper { at, protocol, fragment: Fragment::Whole, destination_at, is_authenticated: false })
}

#[inline(never)]
fn upper_of_ipv4(ip: &[u8]) -> Result<Upper, HeaderError> {
    let header: &[u8; IPV4_BYTES] = ip.first_chunk().ok_or(HeaderError::Truncated)?;
    let at = usize::from(header[0] & 0xf) * 4;
    if at < IPV4_BYTES {
        return Err(HeaderError::Length);
    }
    let options = ip.get(IPV4_BYTES..at).ok_or(HeaderError::Truncated)?;
    let fragment = fragment_of(u16::from_be_bytes([header[6], header[7]]) & 0x3fff, 0x1fff);
    let (protocol, destination_at) = (header[9], last_hop_of_options(options));
    let mut upper = Upper { at, protocol, fragment, destination_at, is_authenticated: false };
    if protocol == AUTHENTICATION && fragment == Fragment::Whole {
        let [next, words] = extension_at(ip, at)?;
        upper.at = authentication_end(ip, at, words)?;
        upper.protocol = next;
        upper.is_authenticated = true;
    }
    Ok(upper)
}

/// Whole, first or later, by the word with offset and more-fragments flag, of which `offset_mask` is the
/// offset.
#[inline]
fn fragment_of(word: u16, offset_mask: u16) -> Fragment {
    match word {
        0 => Fragment::Whole,
        word if word & offset_mask == 0 => Fragment::First,
        _ => Fragment::Later,
    }
}

/// Offset of the final destination with IPv4 options `options`; `None` where a source route is malformed.
fn last_hop_of_options(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        match kind {
            OPTION_END => break,
            OPTION_NOP => at += 1,
            _ => {
                let Some(&len) = options.get(at + 1) else { break };
                let len = usize::from(len);
                if matches!(kind, OPTION_LOOSE_ROUTE | OPTION_STRICT_ROUTE) {
                    let pointer = usize::from(*options.get(at + 2)?);
                    let is_well_formed = len % 4 == 3 && at + len <= options.len() && pointer >= 4;
                    return match is_well_formed {
                        false => None,
                        true if pointer > len => Some(IPV4_DESTINATION_AT),
                        true => Some(IPV4_BYTES + at + len - 4),
                    };
                }
                if len < 2 {
                    break;
                }
                at += len;
            }
        }
    }
    Some(IPV4_DESTINATION_AT)
}

/// Walks extension headers to the first that is none, or to the data of a fragment.
#[inline(never)]
fn walk(ip: &[u8]) -> Result<Upper, HeaderError> {
    let header: &[u8; IPV6_BYTES] = ip.first_chunk().ok_or(HeaderError::Truncated)?;
    let (at, protocol, fragment) = (IPV6_BYTES, header[6], Fragment::Whole);
    let destination_at = Some(IPV6_DESTINATION_AT);
    let mut upper = Upper { at, protocol, fragment, destination_at, is_authenticated: false };
    for walked in 0..=EXTENSIONS_MAX {
        let (kind, at) = (upper.protocol, upper.at);
        let is_extension = match kind {
            HOP_BY_HOP => walked == 0,
            ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS => true,
            _ => false,
        };
        if !is_extension {
            return Ok(upper);
        }
        if walked == EXTENSIONS_MAX {
            break;
        }
        let [next, units] = extension_at(ip, at)?;
        let end = match kind {
            AUTHENTICATION => authentication_end(ip, at, units)?,
            // The second byte of a fragment header is reserved (RFC 8200, section 4.5).
            FRAGMENT => end_within(ip, at + 8)?,
            _ => end_within(ip, at + 8 + 8 * usize::from(units))?,
        };
        (upper.protocol, upper.at) = (next, end);
        upper.is_authenticated |= kind == AUTHENTICATION;
        if kind == ROUTING {
            upper.destination_at =
                last_hop(&ip[at..end]).map_or(upper.destination_at, |hop| hop.map(|hop| at + hop));
        }
        if kind == FRAGMENT {
            upper.fragment = fragment_of(word(ip, at + 2).unwrap_or(0) & 0xfff9, 0xfff8);
            if upper.fragment != Fragment::Whole {
                return Ok(upper);
            }
        }
    }
    Err(HeaderError::TooManyExtensions)
}

#[inline]
fn extension_at(ip: &[u8], at: usize) -> Result<[u8; 2], HeaderError> {
    ip.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(HeaderError::Truncated)
}

/// An authentication header counts 32-bit words, less two, of which at least one is there (RFC 4302, section
/// 2.2).
fn authentication_end(ip: &[u8], at: usize, words: u8) -> Result<usize, HeaderError> {
    if words == 0 { Err(HeaderError::Length) } else { end_within(ip, at + 4 * (usize::from(words) + 2)) }
}

fn end_within(ip: &[u8], end: usize) -> Result<usize, HeaderError> {
    if end <= ip.len() { Ok(end) } else { Err(HeaderError::Truncated) }
}

/// Offset of the last hop in a routing header with segments left: `None` where none are left, `Some(None)`
/// where it cannot be told.
fn last_hop(routing: &[u8]) -> Option<Option<usize>> {
    let (kind, left) = (routing[2], usize::from(routing[3]));
    if left == 0 {
        return None;
    }
    let hops = (routing.len() - 8) / 16;
    let is_whole = hops > 0 && left <= hops && (routing.len() - 8).is_multiple_of(16);
    Some(match kind {
        ROUTE_SOURCE | ROUTE_MOBILE if is_whole => Some(routing.len() - 16),
        // Compressed addresses lack the bytes that they share with the IP destination; padding is behind the
        // last.
        ROUTE_RPL if is_whole && routing[4] == 0 && routing[5] & 0xf0 == 0 => Some(routing.len() - 16),
        // The list is in reverse order, with TLVs behind it; a reduced one lacks the first segment.
        ROUTE_SEGMENTS if usize::from(routing[4]) < hops && left <= usize::from(routing[4]) + 1 => Some(8),
        _ => None,
    })
}
