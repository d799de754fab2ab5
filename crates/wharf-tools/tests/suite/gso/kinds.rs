//! Random packets: each with its request, and the frames that should leave of it.

use proptest::prelude::*;
use wharf_mem::Meta;
use wharf_packet::checksum;
use wharf_packet::gso::GsoPlan;
use wharf_testkit::packets::{Shape, cut, data};

/// Bytes of a buffer, without headroom.
pub const BUFFER_BYTES: u32 = 512;

/// One packet of a test.
#[derive(Debug, Clone)]
pub enum Kind {
    Plain {
        len: usize,
        stamped: bool,
    },
    /// Its checksum is left to the device.
    Unfinished {
        len: usize,
    },
    /// Several buffers of so many bytes.
    Chain {
        len: usize,
        chunk: usize,
    },
    Super {
        shape: Shape,
        chunk: usize,
    },
    /// A super-packet that lies about itself.
    Lie {
        at: usize,
        byte: u8,
        gso_bytes: u16,
        kind: u8,
    },
}

/// The frames that leave of a packet; an error if none does.
pub type Leaves = Result<Vec<Vec<u8>>, ()>;

/// A packet, its request, and the frames that should leave.
pub struct Packet {
    pub bytes: Vec<u8>,
    pub chunk: usize,
    pub meta: Option<Meta>,
    pub leaves: Leaves,
}

fn unfinished(len: usize) -> (Vec<u8>, Meta) {
    let meta = Meta { needs_checksum: true, checksum_start: 34, checksum_offset: 6, ..Meta::default() };
    (data(len), meta)
}

impl Kind {
    pub fn packet(&self, segments_max: u16) -> Packet {
        let buffers = |bytes: usize| bytes.div_ceil(BUFFER_BYTES as usize) <= usize::from(segments_max);
        match self {
            Kind::Plain { len, stamped } => {
                let (bytes, meta) = (data(*len), Meta { time_ns: 7, ..Meta::default() });
                Packet { leaves: Ok(vec![bytes.clone()]), bytes, chunk: 512, meta: stamped.then_some(meta) }
            }
            Kind::Unfinished { len } => {
                let (bytes, meta) = unfinished(*len);
                let mut done = bytes.clone();
                let is_done = checksum::complete(&mut done, 34, 6);
                Packet { bytes, chunk: 512, meta: Some(meta), leaves: is_done.then(|| vec![done]).ok_or(()) }
            }
            Kind::Chain { len, chunk } => {
                let bytes = data(*len);
                let fits = len.div_ceil(*chunk) <= usize::from(segments_max) || buffers(*len);
                Packet {
                    leaves: fits.then(|| vec![bytes.clone()]).ok_or(()),
                    bytes,
                    chunk: *chunk,
                    meta: None,
                }
            }
            Kind::Super { shape, chunk } => {
                let (bytes, meta) = shape.packet();
                let pieces = cut(&bytes, &meta);
                let leaves = buffers(pieces[0].len()).then_some(pieces).ok_or(());
                Packet { bytes, chunk: *chunk, meta: Some(meta), leaves }
            }
            Kind::Lie { at, byte, gso_bytes, kind } => lie(*at, *byte, *gso_bytes, *kind, buffers),
        }
    }
}

/// A super-packet of which byte `at` is another, and its request.
fn lie(at: usize, byte: u8, gso_bytes: u16, gso_kind: u8, buffers: impl Fn(usize) -> bool) -> Packet {
    let (mut bytes, meta) = Shape { payload: 3000, ..Shape::default() }.packet();
    bytes[at] = byte;
    let meta = Meta { gso_bytes, gso_kind, ..meta };
    let leaves = match GsoPlan::of_start(&bytes, bytes.len(), &wharf_core::offload::gso_request(&meta)) {
        Ok(first) if buffers(first.segment_bytes(0)) => Ok(cut(&bytes, &meta)),
        _ => Err(()),
    };
    assert!(meta.gso_bytes > 0 || meta.gso_kind > 0);
    Packet { bytes, chunk: 512, meta: Some(meta), leaves }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let ip = (any::<bool>(), any::<bool>(), 0usize..3, any::<u16>(), 0usize..4);
    let tcp = (0usize..11, any::<u8>(), any::<u32>());
    (ip, tcp, 0usize..6000, 50u16..2000).prop_map(|(ip, tcp, payload, gso_bytes)| {
        let (is_udp, is_ipv6, tags, identification, more) = ip;
        Shape {
            is_udp,
            is_ipv6,
            tags,
            identification,
            ip_options: 4 * more,
            extensions: [0, 60, 43][..more.min(3)].to_vec(),
            tcp_options: 4 * tcp.0.min(10),
            tcp_flags: tcp.1,
            sequence: tcp.2,
            payload,
            gso_bytes,
        }
    })
}

pub fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => (14usize..512, any::<bool>()).prop_map(|(len, stamped)| Kind::Plain { len, stamped }),
        1 => (14usize..512).prop_map(|len| Kind::Unfinished { len }),
        1 => (600usize..4000, 100usize..512).prop_map(|(len, chunk)| Kind::Chain { len, chunk }),
        4 => (shapes(), prop::sample::select(vec![40usize, 100, 300, 512])).prop_map(|(shape, chunk)| Kind::Super { shape, chunk }),
        1 => (12usize..60, any::<u8>(), any::<u16>(), 1u8..7)
            .prop_map(|(at, byte, gso_bytes, kind)| Kind::Lie { at, byte, gso_bytes: gso_bytes % 3000, kind }),
    ]
}
