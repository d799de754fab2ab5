//! A completion of 64 bytes, and the mini completion of 8 bytes.
//!
//! Layout: Linux `include/linux/mlx5/device.h`, `struct mlx5_cqe64` and `struct mlx5_mini_cqe8`. Big endian.

/// Bytes of a completion, and of a slot with an array of mini completions.
pub const COMPLETION_BYTES: usize = 64;
/// Bytes of a mini completion.
pub const MINI_BYTES: usize = 8;
/// Mini completions in a slot (`MLX5_MINI_CQE_ARRAY_SIZE`).
pub const MINIS: usize = COMPLETION_BYTES / MINI_BYTES;
/// The byte that holds opcode, format and owner (`op_own`).
pub const OWNER_AT: usize = 63;
/// That byte in a slot never written: opcode "invalid", and not the owner of the first pass.
pub const OWNER_UNWRITTEN: u8 = 0xf1;

/// The type of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Opcode {
    /// An entry was sent (`MLX5_CQE_REQ`).
    #[default]
    Sent,
    /// A packet was received (`MLX5_CQE_RESP_SEND`).
    Received,
    /// An entry was not sent (`MLX5_CQE_REQ_ERR`).
    SendError,
    /// A packet was not received (`MLX5_CQE_RESP_ERR`).
    ReceiveError,
}

impl Opcode {
    fn to_bits(self) -> u8 {
        match self {
            Self::Sent => 0,
            Self::Received => 2,
            Self::SendError => 13,
            Self::ReceiveError => 14,
        }
    }

    fn from_bits(bits: u8) -> Option<Self> {
        [Self::Sent, Self::Received, Self::SendError, Self::ReceiveError]
            .into_iter()
            .find(|opcode| opcode.to_bits() == bits)
    }
}

/// The format of a slot (bits 2 and 3 of `op_own`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A completion.
    Plain,
    /// The title of a compressed session: its byte count is the number of completions in it.
    Title,
}

/// A completion of an entry sent or a packet received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// Its type.
    pub opcode: Opcode,
    /// The entry (`wqe_counter`); with striding receive, the stride.
    pub counter: u16,
    /// The entry of many strides (`wqe_id`).
    pub entry: u16,
    /// Bytes received.
    pub byte_count: u32,
    /// Hash of the flow (`rss_hash_result`).
    pub hash: u32,
    /// The fields that the hash covers.
    pub hash_type: u8,
    /// Checksum over the packet.
    pub checksum: u16,
    /// Headers found (`l4_l3_hdr_type`).
    pub headers: u8,
    /// The VLAN tag that was stripped.
    pub vlan: u16,
    /// The queue (`sop_drop_qpn`), 24 bits.
    pub queue: u32,
}

/// A slot that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable(pub u8);

fn u16_at(slot: &[u8; COMPLETION_BYTES], at: usize) -> u16 {
    u16::from_be_bytes([slot[at], slot[at + 1]])
}

fn u32_at(slot: &[u8; COMPLETION_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]])
}

impl Completion {
    /// Creates a completion of entry `counter` of a queue; all else is 0.
    pub fn new(opcode: Opcode, counter: u16, byte_count: u32, queue: u32) -> Self {
        Self { opcode, counter, byte_count, queue, ..Self::default() }
    }

    /// Returns the bytes in memory; `owner` is 0 or 1.
    pub(super) fn to_slot(self, format: Format, owner: u8) -> [u8; COMPLETION_BYTES] {
        let mut slot = [0; COMPLETION_BYTES];
        slot[2..4].copy_from_slice(&self.entry.to_be_bytes());
        slot[12..16].copy_from_slice(&self.hash.to_be_bytes());
        slot[16] = self.hash_type;
        slot[20..22].copy_from_slice(&self.checksum.to_be_bytes());
        slot[29] = self.headers;
        slot[30..32].copy_from_slice(&self.vlan.to_be_bytes());
        slot[44..48].copy_from_slice(&self.byte_count.to_be_bytes());
        slot[56..60].copy_from_slice(&(self.queue & 0xff_ffff).to_be_bytes());
        slot[60..62].copy_from_slice(&self.counter.to_be_bytes());
        let format = if format == Format::Title { 3 } else { 0 };
        slot[OWNER_AT] = self.opcode.to_bits() << 4 | format << 2 | owner;
        slot
    }

    /// Reads a slot.
    pub(super) fn from_slot(slot: &[u8; COMPLETION_BYTES]) -> Result<(Self, Format), Unreadable> {
        let own = slot[OWNER_AT];
        let opcode = Opcode::from_bits(own >> 4).ok_or(Unreadable(own))?;
        let format = match own >> 2 & 3 {
            0 => Format::Plain,
            3 => Format::Title,
            _ => return Err(Unreadable(own)), // data inside the completion, which was not asked for
        };
        let completion = Self {
            opcode,
            counter: u16_at(slot, 60),
            entry: u16_at(slot, 2),
            byte_count: u32_at(slot, 44),
            hash: u32_at(slot, 12),
            hash_type: slot[16],
            checksum: u16_at(slot, 20),
            headers: slot[29],
            vlan: u16_at(slot, 30),
            queue: u32_at(slot, 56) & 0xff_ffff,
        };
        Ok((completion, format))
    }
}

/// The field of a mini completion besides the byte count; all else must be as in the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// The flow's hash. Counters go up by one.
    Hash,
    /// The checksum. Counters go up by one.
    Checksum,
    /// The checksum and the counter, which is a stride's number.
    Stride,
}

impl Selected {
    /// Returns the mini completion of `completion`.
    pub(super) fn mini(self, completion: &Completion) -> [u8; MINI_BYTES] {
        let first = match self {
            Self::Hash => completion.hash.to_be_bytes(),
            Self::Checksum | Self::Stride => {
                let [a, b] = completion.checksum.to_be_bytes();
                let [c, d] = if self == Self::Stride { completion.counter.to_be_bytes() } else { [0; 2] };
                [a, b, c, d]
            }
        };
        let [e, f, g, h] = completion.byte_count.to_be_bytes();
        let [a, b, c, d] = first;
        [a, b, c, d, e, f, g, h]
    }

    /// Returns the completion that `title` and the `nth` mini completion of its session describe.
    pub(super) fn expand(self, title: &Completion, nth: u32, mini: [u8; MINI_BYTES]) -> Completion {
        let [a, b, c, d, e, f, g, h] = mini;
        let mut completion = Completion {
            byte_count: u32::from_be_bytes([e, f, g, h]),
            counter: title.counter.wrapping_add(nth as u16),
            ..*title
        };
        match self {
            Self::Hash => completion.hash = u32::from_be_bytes([a, b, c, d]),
            Self::Checksum => completion.checksum = u16::from_be_bytes([a, b]),
            Self::Stride => {
                completion.checksum = u16::from_be_bytes([a, b]);
                completion.counter = u16::from_be_bytes([c, d]);
            }
        }
        completion
    }
}
