//! The 16-byte segments of send entries.
//!
//! Layout: Linux `include/linux/mlx5/qp.h`, `struct mlx5_wqe_ctrl_seg`, `mlx5_wqe_eth_seg`,
//! `mlx5_wqe_data_seg` and `mlx5_wqe_inline_seg`. Big endian.

/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 16;
/// Bytes of a block, the unit of an entry's size.
pub const BLOCK_BYTES: usize = 64;
/// Segments in a block.
pub const BLOCK_SEGMENTS: u32 = (BLOCK_BYTES / SEGMENT_BYTES) as u32;
/// Most blocks of an entry: the control segment counts in six bits.
pub const BLOCKS_MAX: u32 = 15;
/// Most segments of an entry.
pub const SEGMENTS_MAX: u32 = BLOCKS_MAX * BLOCK_SEGMENTS;
/// Segments before the first pointer: control, Ethernet.
pub const HEAD_SEGMENTS: u32 = 2;
/// Most packets of an entry.
pub const POINTERS_MAX: u32 = SEGMENTS_MAX - HEAD_SEGMENTS;
/// Most bytes of a packet inside an entry: 16 segments, less the length (`MLX5E_XDP_INLINE_WQE_SZ_THRSD`).
pub const INLINE_BYTES_MAX: usize = 16 * SEGMENT_BYTES - INLINE_HEADER_BYTES;
/// Bytes before a packet inside an entry.
pub(super) const INLINE_HEADER_BYTES: usize = 4;

const INLINE: u32 = 1 << 31;
const SEGMENTS_MASK: u32 = 0x3f;
const COMPLETION: u8 = 2 << 2;
const INSERT_VLAN: u16 = 1 << 15;

/// One segment.
pub type Segment = [u8; SEGMENT_BYTES];

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No packet: fills the ring to its end, so that the next entry is in one piece.
    Nop,
    /// One packet.
    Send,
    /// One packet per pointer (`MLX5_OPCODE_ENHANCED_MPSW`).
    Multi,
}

impl Kind {
    fn to_bits(self) -> u8 {
        match self {
            Self::Nop => 0,
            Self::Send => 0x0a,
            Self::Multi => 0x29,
        }
    }

    fn from_bits(bits: u8) -> Option<Self> {
        [Self::Nop, Self::Send, Self::Multi].into_iter().find(|kind| kind.to_bits() == bits)
    }
}

/// The control segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// The kind of the entry.
    pub kind: Kind,
    /// The entry's first block, counted from the queue's start.
    pub index: u16,
    /// The queue's number, 24 bits.
    pub queue: u32,
    /// All segments, this one included.
    pub segments: u32,
    /// True if a completion is wanted.
    pub completion: bool,
}

fn word(segment: &Segment, at: usize) -> u32 {
    u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]])
}

impl Control {
    /// Returns the bytes of the segment.
    pub fn to_segment(self) -> Segment {
        let mut segment = [0; SEGMENT_BYTES];
        let first = u32::from(self.index) << 8 | u32::from(self.kind.to_bits());
        segment[0..4].copy_from_slice(&first.to_be_bytes());
        let second = self.queue << 8 | self.segments & SEGMENTS_MASK;
        segment[4..8].copy_from_slice(&second.to_be_bytes());
        segment[11] = if self.completion { COMPLETION } else { 0 };
        segment
    }

    /// Reads a control segment, or returns the unknown opcode.
    pub(super) fn from_segment(segment: &Segment) -> Result<Self, u8> {
        let (first, second) = (word(segment, 0), word(segment, 4));
        Ok(Self {
            kind: Kind::from_bits(first as u8).ok_or(first as u8)?,
            index: (first >> 8) as u16,
            queue: second >> 8,
            segments: second & SEGMENTS_MASK,
            completion: segment[11] & COMPLETION != 0,
        })
    }
}

/// The Ethernet segment: the offloads for each packet of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ethernet {
    /// Checksums to fill in (`cs_flags`).
    pub checksums: u8,
    /// Payload of the segments that a super-packet is cut into; 0 for none.
    pub mss: u16,
    /// Metadata for the flow tables: encryption, among others.
    pub metadata: u32,
    /// A VLAN tag to insert.
    pub vlan: Option<u16>,
}

impl Ethernet {
    /// True if a packet with it may share an entry.
    pub fn shares(&self) -> bool {
        self.mss == 0 && self.vlan.is_none() && self.metadata == 0
    }

    pub(super) fn to_segment(self) -> Segment {
        let mut segment = [0; SEGMENT_BYTES];
        segment[4] = self.checksums;
        segment[6..8].copy_from_slice(&self.mss.to_be_bytes());
        segment[8..12].copy_from_slice(&self.metadata.to_be_bytes());
        if let Some(tag) = self.vlan {
            segment[12..14].copy_from_slice(&INSERT_VLAN.to_be_bytes());
            segment[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        segment
    }

    pub(super) fn from_segment(segment: &Segment) -> Self {
        let last = word(segment, 12);
        Self {
            checksums: segment[4],
            mss: (word(segment, 4) & 0xffff) as u16,
            metadata: word(segment, 8),
            vlan: (last >> 16 & u32::from(INSERT_VLAN) != 0).then_some(last as u16),
        }
    }
}

/// The location of a packet, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub len_bytes: u32,
    /// The memory's key.
    pub key: u32,
}

impl Pointer {
    /// Returns the bytes of the segment.
    pub fn to_segment(self) -> Segment {
        let mut segment = [0; SEGMENT_BYTES];
        segment[0..4].copy_from_slice(&(self.len_bytes & !INLINE).to_be_bytes());
        segment[4..8].copy_from_slice(&self.key.to_be_bytes());
        segment[8..16].copy_from_slice(&self.address.to_be_bytes());
        segment
    }

    /// Reads a pointer; `None` if the packet's bytes follow instead.
    pub(crate) fn from_segment(segment: &Segment) -> Option<Self> {
        let len_bytes = word(segment, 0);
        let address = u64::from(word(segment, 8)) << 32 | u64::from(word(segment, 12));
        (len_bytes & INLINE == 0).then_some(Self { address, len_bytes, key: word(segment, 4) })
    }
}

/// Returns the header of a packet inside an entry.
pub(super) fn inline_header(len_bytes: usize) -> [u8; INLINE_HEADER_BYTES] {
    (len_bytes as u32 | INLINE).to_be_bytes()
}

/// Returns the length in such a header.
pub(super) fn inline_len_bytes(segment: &Segment) -> usize {
    (word(segment, 0) & !INLINE) as usize
}

/// Returns the segments of a packet of `len_bytes` inside an entry.
pub(super) fn inline_segments(len_bytes: usize) -> u32 {
    (len_bytes + INLINE_HEADER_BYTES).div_ceil(SEGMENT_BYTES) as u32
}
