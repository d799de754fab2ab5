//! A super-packet of generated packets: one set of headers, then payload after payload, each with a stamp of its own. So each segment is
//! like any other packet at the receiver.
//!
//! UDP segmentation as the virtio net header asks for it (virtio 1.2, section 5.1.6, kind 5). The place of the UDP checksum holds the sum
//! of the pseudo-header; the segmenting device completes it.

use super::Stamp;
use super::headers::{Ends, Template};
use wharf_mem::Meta;
use wharf_packet::checksum::{UDP_OFFSET, fold, update};
use wharf_packet::gso::GSO_UDP;
use wharf_packet::{IPV4_CHECKSUM_AT, IPV4_IDENTIFICATION_AT};

/// Fields that all super-packets of a generator share.
#[derive(Debug)]
pub(super) struct SuperTemplate {
    ends: Ends,
    /// Template of one of its packets.
    piece: Template,
    /// Packets of a full one.
    packets: u16,
    /// Headers of a full one.
    headers: Box<[u8]>,
}

impl SuperTemplate {
    /// Makes that of `packets` packets of `len_bytes`, within the longest packet of IP.
    pub(super) fn new(ends: &Ends, len_bytes: u32, packets: u16) -> Self {
        let (ends, piece) = (*ends, Template::new(ends, len_bytes));
        let mut template = Self { ends, piece, packets, headers: Box::default() };
        template.headers = template.headers_of(packets);
        template
    }

    /// Returns the packets of a full one.
    #[inline]
    pub(super) fn packets(&self) -> u16 {
        self.packets
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
            checksum_start: self.ends.udp_at() as u16,
            checksum_offset: UDP_OFFSET as u16,
            time_ns: 0,
        }
    }

    /// Returns the headers before `packets` payloads, without source port.
    fn headers_of(&self, packets: u16) -> Box<[u8]> {
        let udp_len = (self.len_bytes(packets) as usize - self.ends.udp_at()) as u16;
        let mut bytes = self.ends.headers(udp_len);
        bytes[self.ends.udp_at() + UDP_OFFSET..]
            .copy_from_slice(&fold(self.ends.pseudo_sum(udp_len)).to_be_bytes());
        bytes.into()
    }

    /// Writes one of `packets` packets, the first of which has `stamp`, to `to`, which has its length.
    pub(super) fn write(&self, to: &mut [u8], port: u16, stamp: &Stamp, packets: u16) {
        let (headers, payloads) = to.split_at_mut(self.piece.payload_at());
        if packets == self.packets {
            headers.copy_from_slice(&self.headers);
        } else {
            // The last one has the packets that are left.
            headers.copy_from_slice(&self.headers_of(packets));
        }
        headers[self.ends.udp_at()..][..2].copy_from_slice(&port.to_be_bytes());
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
        if self.ends.source.is_ipv4() {
            let identification = (stamp.number % u64::from(self.packets)) as u16;
            let ip = &mut to[self.ends.ip_at()..];
            let checksum = u16::from_be_bytes([ip[IPV4_CHECKSUM_AT], ip[IPV4_CHECKSUM_AT + 1]]);
            // It was made with an identification of 0.
            let checksum = update(checksum, 0, identification);
            ip[IPV4_IDENTIFICATION_AT..][..2].copy_from_slice(&identification.to_be_bytes());
            ip[IPV4_CHECKSUM_AT..][..2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GeneratorSpec, Sizes, Source};
    use wharf_packet::gso::GsoPlan;

    #[test]
    fn segments_match_the_expectation_of_the_receiver() {
        let ipv4 = GeneratorSpec {
            sizes: Sizes::Fixed(201),
            super_packets: 7,
            flows: 3,
            ..GeneratorSpec::default()
        };
        let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        for spec in [ipv4, GeneratorSpec { source, destination, vlan: Some(5), tos: 0x10, ..ipv4 }] {
            let mut generator = spec.generators().unwrap().remove(0).ending_after(7 * 3 + 2);
            let (expects, mut number) = (generator.clone(), 0);
            for packets in [7, 7, 7, 2] {
                assert_eq!(generator.remaining(), 4 - number / 7);
                let mut whole = vec![0xee; generator.len_bytes() as usize];
                let requests = generator.requests().unwrap();
                generator.write(&mut whole, 1000);
                let cut = GsoPlan::new(&whole, requests.gso_kind, requests.gso_bytes).unwrap();
                assert_eq!(cut.segments(), packets);
                for at in 0..packets {
                    let mut piece = vec![0; cut.segment_bytes(at)];
                    cut.write(&whole, at, &mut piece);
                    let mut expected = vec![0; expects.len_of(number) as usize];
                    expects.write_packet(&mut expected, number, 1000);
                    assert_eq!(piece, expected, "packet {number}");
                    number += 1;
                }
            }
            assert_eq!(generator.remaining(), 0);
        }
    }

    #[test]
    fn super_packets_stay_within_the_longest_ip_packet() {
        let spec = GeneratorSpec { sizes: Sizes::Fixed(1514), ..GeneratorSpec::default() };
        assert_eq!(spec.super_packets_max(), 44);
        assert_eq!(GeneratorSpec { sizes: Sizes::Imix, ..spec }.super_packets_max(), 1);
        for (super_packets, is_good) in [(0, false), (1, true), (44, true), (45, false)] {
            assert_eq!(
                GeneratorSpec { super_packets, ..spec }.generators().is_ok(),
                is_good,
                "{super_packets}"
            );
        }
        let longest = GeneratorSpec { super_packets: 44, ..spec };
        assert_eq!(longest.longest_bytes(), longest.generators().unwrap()[0].longest_bytes());
    }
}
