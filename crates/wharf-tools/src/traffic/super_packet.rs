//! A super-packet of generated packets: one set of headers, then payload after payload, each with a stamp of its own. So each segment is
//! like any other packet at the receiver.
//!
//! UDP segmentation as the virtio net header asks for it (virtio 1.2, section 5.1.6, kind 5). The place of the UDP checksum holds the sum
//! of the pseudo-header; the segmenting device completes it.

use super::headers::Template;
use super::{GeneratorSpec, Stamp};
use wharf_mem::Meta;
use wharf_packet::checksum::{UDP_OFFSET, fold};
use wharf_packet::gso::GSO_UDP;
use wharf_packet::{IPV4_IDENTIFICATION_AT, replace_ip_word};

/// The headers and the packets of a generator's super-packets.
#[derive(Debug)]
pub(super) struct SuperTemplate {
    spec: GeneratorSpec,
    /// Template of one of its packets.
    piece: Template,
    /// Headers of a full one.
    headers: Box<[u8]>,
}

impl SuperTemplate {
    /// Makes that of packets of `len_bytes`, within the longest packet of IP.
    pub(super) fn new(spec: &GeneratorSpec, len_bytes: u32) -> Self {
        let mut template =
            Self { spec: *spec, piece: Template::new(spec, len_bytes), headers: Box::default() };
        template.headers = template.headers_of(spec.super_packets);
        template
    }

    /// Returns the packets of a full one.
    #[inline]
    pub(super) fn packets(&self) -> u16 {
        self.spec.super_packets
    }

    fn payload_bytes(&self) -> usize {
        self.piece.len_bytes() as usize - self.piece.payload_at()
    }

    /// Returns the bytes of one of `packets` packets.
    #[inline]
    pub(super) fn len_bytes(&self, packets: u16) -> u32 {
        (self.piece.payload_at() + self.payload_bytes() * usize::from(packets)) as u32
    }

    /// Returns the offloads that it asks of the device.
    pub(super) fn requests(&self) -> Meta {
        Meta {
            gso_bytes: self.payload_bytes() as u16,
            gso_kind: GSO_UDP,
            needs_checksum: true,
            checksum_start: self.spec.udp_at() as u16,
            checksum_offset: UDP_OFFSET as u16,
            time_ns: 0,
        }
    }

    /// Returns the headers before `packets` payloads, without source port.
    fn headers_of(&self, packets: u16) -> Box<[u8]> {
        let udp_len = (self.len_bytes(packets) as usize - self.spec.udp_at()) as u16;
        let mut bytes = self.spec.headers(udp_len);
        bytes[self.spec.udp_at() + UDP_OFFSET..]
            .copy_from_slice(&fold(self.spec.pseudo_sum(udp_len)).to_be_bytes());
        bytes.into()
    }

    /// Writes one of `packets` packets, the first of which has `stamp`, to `to`, which has its length.
    pub(super) fn write(&self, to: &mut [u8], port: u16, stamp: &Stamp, packets: u16) {
        let (headers, payloads) = to.split_at_mut(self.piece.payload_at());
        if packets == self.packets() {
            headers.copy_from_slice(&self.headers);
        } else {
            // The last one has the packets that are left.
            headers.copy_from_slice(&self.headers_of(packets));
        }
        headers[self.spec.udp_at()..][..2].copy_from_slice(&port.to_be_bytes());
        for (payload, number) in payloads.chunks_exact_mut(self.payload_bytes()).zip(stamp.number..) {
            payload.copy_from_slice(&self.piece.bytes()[self.piece.payload_at()..]);
            if let Some(place) = payload.first_chunk_mut() {
                Stamp { number, ..*stamp }.write(place);
            }
        }
    }

    /// Writes the packet with `stamp` as it is after segmentation: identifications count up within the super-packet.
    pub(super) fn write_piece(&self, to: &mut [u8], port: u16, stamp: &Stamp) {
        self.piece.write(to, port, stamp);
        if self.spec.source.is_ipv4() {
            let identification = (stamp.number % u64::from(self.packets())) as u16;
            let ip = &mut to[self.spec.ip_at()..];
            replace_ip_word(ip, true, IPV4_IDENTIFICATION_AT, identification);
        }
    }
}
