//! Super-packets of every shape, as a kernel makes them: the sum of the pseudo header in place of the
//! checksum.

use wharf_core::pool::{Cache, Packet};
use wharf_mem::{Frame, Meta};
use wharf_packet::checksum::{fold, sum};
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP, GsoPlan};

/// Source address.
pub const NEAR: [u8; 4] = [10, 9, 0, 1];
/// Destination address.
pub const FAR: [u8; 4] = [10, 9, 0, 2];

/// Bytes that no two places share.
pub fn data(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).take(len).collect()
}

/// The shape of a super-packet.
#[derive(Debug, Clone)]
pub struct Shape {
    /// UDP in place of TCP.
    pub is_udp: bool,
    /// IPv6 in place of IPv4.
    pub is_ipv6: bool,
    /// VLAN tags, up to two.
    pub tags: usize,
    /// IPv4 options, bytes, a multiple of 4 up to 40.
    pub ip_options: usize,
    /// Numbers of IPv6 extension headers, of 8 bytes each: 0, 43, 60.
    pub extensions: Vec<u8>,
    /// TCP options, bytes, a multiple of 4 up to 40.
    pub tcp_options: usize,
    /// TCP flags.
    pub tcp_flags: u8,
    /// IPv4 identification.
    pub identification: u16,
    /// TCP sequence number.
    pub sequence: u32,
    /// Payload, bytes.
    pub payload: usize,
    /// Payload of a segment, bytes.
    pub gso_bytes: u16,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            is_udp: false,
            is_ipv6: false,
            tags: 0,
            ip_options: 0,
            extensions: vec![],
            tcp_options: 12,
            tcp_flags: 0x18,
            identification: 0x1234,
            sequence: 0xffff_ff00,
            payload: 20_000,
            gso_bytes: 1400,
        }
    }
}

impl Shape {
    fn kind(&self) -> u8 {
        match (self.is_udp, self.is_ipv6) {
            (true, _) => GSO_UDP,
            (false, true) => GSO_TCPV6,
            (false, false) => GSO_TCPV4,
        }
    }

    /// The frame, and its request.
    pub fn packet(&self) -> (Vec<u8>, Meta) {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in 0..self.tags {
            bytes.extend(if tag + 1 < self.tags { [0x88, 0xa8, 0, 7] } else { [0x81, 0, 0x20, 5] });
        }
        let transport = if self.is_udp { 8 } else { 20 + self.tcp_options } + self.payload;
        let addresses =
            if self.is_ipv6 { self.ipv6(&mut bytes, transport) } else { self.ipv4(&mut bytes, transport) };
        let start = bytes.len();
        let protocol = if self.is_udp { 17 } else { 6 };
        let pseudo = fold(sum(&addresses) + protocol + transport as u64).to_be_bytes();
        if self.is_udp {
            bytes.extend([4, 0, 0, 9]);
            bytes.extend((transport as u16).to_be_bytes());
            bytes.extend(pseudo);
        } else {
            bytes.extend([4, 0, 0, 80]);
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend([0, 0, 0, 1, ((20 + self.tcp_options) * 4) as u8, self.tcp_flags, 1, 0]);
            bytes.extend(pseudo);
            bytes.extend([0, 0]);
            bytes.extend(vec![1; self.tcp_options]);
        }
        bytes.extend(data(self.payload));
        let meta = Meta {
            gso_bytes: self.gso_bytes,
            gso_kind: self.kind(),
            needs_checksum: true,
            checksum_start: start as u16,
            checksum_offset: if self.is_udp { 6 } else { 16 },
            time_ns: 0,
        };
        (bytes, meta)
    }

    fn ipv4(&self, bytes: &mut Vec<u8>, transport: usize) -> Vec<u8> {
        let header_bytes = 20 + self.ip_options;
        let protocol = if self.is_udp { 17 } else { 6 };
        let mut ip = vec![0x40 | (header_bytes / 4) as u8, 0];
        ip.extend(((header_bytes + transport) as u16).to_be_bytes());
        ip.extend(self.identification.to_be_bytes());
        ip.extend([0x40, 0, 64, protocol, 0, 0]);
        ip.extend([NEAR, FAR].concat());
        ip.extend(vec![1; self.ip_options]);
        let checksum = !fold(sum(&ip));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend([8, 0]);
        bytes.extend(ip);
        [NEAR, FAR].concat()
    }

    fn ipv6(&self, bytes: &mut Vec<u8>, transport: usize) -> Vec<u8> {
        let last = if self.is_udp { 17 } else { 6 };
        let next = |at: usize| self.extensions.get(at).copied().unwrap_or(last);
        let addresses: Vec<u8> = (0x20..0x40).collect();
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        bytes.extend(((8 * self.extensions.len() + transport) as u16).to_be_bytes());
        bytes.extend([next(0), 64]);
        bytes.extend(&addresses);
        for at in 0..self.extensions.len() {
            // Padding as an option, or a routing header of an unknown type that leads nowhere further.
            let body = if self.extensions[at] == 43 { [253, 0, 0, 0, 0, 0] } else { [1, 4, 0, 0, 0, 0] };
            bytes.extend([next(at + 1), 0]);
            bytes.extend(body);
        }
        addresses
    }
}

/// Returns its segments.
pub fn cut(packet: &[u8], meta: &Meta) -> Vec<Vec<u8>> {
    let cut = GsoPlan::of_start(packet, packet.len(), &wharf_core::offload::gso_request(meta)).unwrap();
    let segment = |at| {
        let mut bytes = vec![0; cut.segment_bytes(at)];
        cut.write(packet, at, &mut bytes);
        bytes
    };
    (0..cut.segments()).map(segment).collect()
}

/// A frame of `bytes`, in buffers of up to `chunk_bytes`; `None` where there is no memory for it.
pub fn frame_of(cache: &mut Cache, bytes: &[u8], chunk_bytes: usize, meta: Option<&Meta>) -> Option<Frame> {
    let (region, mut one, mut whole) =
        (cache.pool().region().clone(), wharf_mem::Batch::new(1), None::<Frame>);
    for chunk in bytes.chunks(chunk_bytes.min(region.data_bytes_max() as usize)) {
        if cache.take(&mut one, 1, chunk.len() as u32).is_err() {
            whole.into_iter().for_each(|frame| cache.give_one(frame).unwrap());
            return None;
        }
        let mut piece = one.pop().unwrap();
        region.bytes_mut(&mut piece).unwrap().copy_from_slice(chunk);
        match &mut whole {
            None => whole = Some(piece),
            Some(head) => region.link(head, piece).unwrap(),
        }
    }
    if let (Some(frame), Some(meta)) = (&mut whole, meta) {
        region.set_meta(frame, meta).unwrap();
    }
    whole
}

/// A packet of pieces that `take` gives, of so many bytes each.
pub fn packet_of(bytes: &[u8], meta: Option<&Meta>, mut take: impl FnMut(u32) -> Packet) -> Packet {
    let mut whole: Option<Packet> = None;
    for chunk in bytes.chunks(1500) {
        let mut piece = take(chunk.len() as u32);
        piece.bytes_mut().copy_from_slice(chunk);
        match &mut whole {
            None => whole = Some(piece),
            Some(whole) => whole.append(piece).unwrap(),
        }
    }
    let mut whole = whole.unwrap();
    meta.into_iter().for_each(|meta| whole.set_meta(meta));
    whole
}
