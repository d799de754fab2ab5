//! `Pieces`: the segments of a super-packet, also of one in a UDP tunnel (VXLAN, Geneve).
//!
//! The sender has left the inner segment to be segmented, as the start of the checksum shows. Each piece has
//! the tunnel's headers, changed as in the kernel (`__skb_udp_tunnel_segment`, `inet_gso_segment`): the
//! identification counts up, lengths and checksums are new; a UDP checksum of 0, which means none, stays.

use wharf_core::offload::gso_request;
use wharf_mem::Meta;
use wharf_packet::checksum::{UDP_OFFSET, fold, from_sum, sum};
use wharf_packet::gso::GsoPlan;
use wharf_packet::tunnel::{self, Inner};
use wharf_packet::{Headers, IPV6_BYTES, UDP, UDP_BYTES, put_word, word};

const IP_BYTES_MAX: usize = 65535;

#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    /// Plan for the frame from byte `inner_at` on.
    plan: GsoPlan,
    inner_at: usize,
    outer: Option<Outer>,
}

/// The tunnel's headers.
#[derive(Debug, Clone, Copy)]
struct Outer {
    ip_at: usize,
    is_ipv6: bool,
    identification: u16,
    udp_at: usize,
    /// Sum of the pseudo header, without the length; `None` without a checksum.
    pseudo: Option<u64>,
}

impl Pieces {
    /// Plans a whole frame whose checksum starts at byte `checksum_start`; `None` if it cannot be segmented
    /// as `meta` asks.
    pub(super) fn new(packet: &[u8], checksum_start: usize, meta: &Meta) -> Option<Self> {
        let (inner_at, outer) = match Outer::read(packet, checksum_start) {
            Some((inner_at, outer)) => (inner_at, Some(outer)),
            None => (0, None),
        };
        let plan =
            GsoPlan::of_start(&packet[inner_at..], packet.len() - inner_at, &gso_request(meta)).ok()?;
        let ip_bytes = outer.map_or(0, |outer| inner_at - outer.ip_at + plan.segment_bytes(0));
        (ip_bytes <= IP_BYTES_MAX).then_some(Self { plan, inner_at, outer })
    }

    pub(super) fn are_tunnelled(&self) -> bool {
        self.outer.is_some()
    }

    pub(super) fn count(&self) -> usize {
        self.plan.segments()
    }

    /// Returns the bytes of piece `at`.
    pub(super) fn bytes(&self, at: usize) -> usize {
        self.inner_at + self.plan.segment_bytes(at)
    }

    /// Writes piece `at` of `packet`, the one that this was made for, to `to`, which has [`Pieces::bytes`].
    pub(super) fn write(&self, packet: &[u8], at: usize, to: &mut [u8]) {
        let (around, piece) = to.split_at_mut(self.inner_at);
        self.plan.write(&packet[self.inner_at..], at, piece);
        around.copy_from_slice(&packet[..self.inner_at]);
        if let Some(outer) = &self.outer {
            outer.write(to, at);
        }
    }
}

impl Outer {
    /// Returns the tunnel's headers and the start of the inner frame; `None` unless the checksum is that of a
    /// segment in a UDP tunnel.
    fn read(packet: &[u8], checksum_start: usize) -> Option<(usize, Self)> {
        let headers = Headers::parse(packet).ok().filter(|headers| headers.protocol == UDP)?;
        let Headers { ip_at, transport_at: udp_at, is_ipv6, .. } = headers;
        let Inner::Ethernet(inner_at) = tunnel::inner(packet, &headers)? else { return None };
        let is_sane = headers.transport_len(packet).is_some() && !headers.is_authenticated;
        if !is_sane || inner_at >= checksum_start || inner_at >= packet.len() {
            return None;
        }
        let has_checksum = word(packet, udp_at + UDP_OFFSET)? != 0;
        let pseudo = if has_checksum { Some(headers.pseudo_sum(packet, 0)?) } else { None };
        let identification = word(packet, ip_at + 4)?;
        Some((inner_at, Self { ip_at, is_ipv6, identification, udp_at, pseudo }))
    }

    /// Changes the headers to those of piece `at`, which is complete otherwise.
    fn write(&self, piece: &mut [u8], at: usize) {
        let (headers, udp) = piece.split_at_mut(self.udp_at);
        let udp_bytes = udp.len() as u16;
        let ip = &mut headers[self.ip_at..];
        if self.is_ipv6 {
            put_word(ip, 4, (ip.len() - IPV6_BYTES) as u16 + udp_bytes);
        } else {
            put_word(ip, 2, ip.len() as u16 + udp_bytes);
            put_word(ip, 4, self.identification.wrapping_add(at as u16));
            put_word(ip, 10, 0);
            put_word(ip, 10, !fold(sum(ip)));
        }
        put_word(udp, UDP_BYTES - 4, udp_bytes);
        put_word(udp, UDP_OFFSET, 0);
        if let Some(pseudo) = self.pseudo {
            put_word(udp, UDP_OFFSET, from_sum(pseudo + u64::from(udp_bytes) + sum(udp), UDP_OFFSET));
        }
    }
}
