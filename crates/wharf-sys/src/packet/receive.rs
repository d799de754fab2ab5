//! `BlockRing`: `PACKET_RX_RING`: blocks that the kernel fills with frames and hands over whole.
//!
//! This process owns a block from the moment its status says so until it gives the block back; the kernel
//! does not write it meanwhile. By version 3, the kernel hands over a block when it is full, or a fixed time after
//! its first frame. By version 2, a block here has one frame, which the kernel hands over at once.

use super::{PacketSocket, VNET_HEADER_BYTES};
use crate::cache_line::prefetch;
use crate::call::Pages;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};

const _: () = assert!(size_of::<libc::tpacket3_hdr>() == 48 && align_of::<libc::tpacket3_hdr>() == 4);
const _: () = assert!(size_of::<libc::tpacket_block_desc>() == 48 && size_of::<libc::tpacket_req3>() == 28);
const _: () = assert!(size_of::<libc::tpacket2_hdr>() == 32 && size_of::<libc::tpacket_req>() == 16);

/// In a block's description by version 3: its status, its number of frames, and the offset of the first.
const BLOCK_AT: usize = std::mem::offset_of!(libc::tpacket_block_desc, hdr);
const STATUS_AT: usize = BLOCK_AT + std::mem::offset_of!(libc::tpacket_hdr_v1, block_status);
const FRAMES_AT: usize = BLOCK_AT + std::mem::offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST_AT: usize = BLOCK_AT + std::mem::offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
/// Offset of the packet type in the socket address behind a frame's header.
const KIND_AT: usize = std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype);

/// Frames ahead of the next one whose first lines are prefetched.
const AHEAD_FRAMES: usize = 3;
const AHEAD_LINES: usize = 3;
const LINE_BYTES: usize = 64;

/// The version of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceiveVersion {
    /// `TPACKET_V3`: a block has many frames.
    #[default]
    V3,
    /// `TPACKET_V2`: a block has one frame.
    V2,
}

/// The dimensions of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveShape {
    /// Bytes of a block: a multiple of a page, and more than the longest frame with its header.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Time after which a block that is not full is handed over, milliseconds; unused by version 2.
    pub retire_ms: u32,
    /// The version.
    pub version: ReceiveVersion,
}

/// A receive ring.
#[derive(Debug)]
pub struct BlockRing {
    pages: Pages,
    socket: PacketSocket,
    shape: ReceiveShape,
    /// The current block, or the next one to look at.
    block: u32,
    /// True if this process owns the current block.
    is_ours: bool,
    /// Number of its frames that have not been read, and the offset of the first of them.
    left: u32,
    frame_at: usize,
}

/// One frame, as it lies in the ring.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The frame's bytes, without the VLAN tag that the kernel took out.
    pub bytes: &'a [u8],
    /// Length on the wire, bytes: more than `bytes` has if the frame was cut off.
    pub wire_bytes: u32,
    /// The virtio net header.
    pub vnet_header: [u8; VNET_HEADER_BYTES],
    /// The (outer) VLAN tag that was taken out: protocol and control information.
    pub vlan: Option<(u16, u16)>,
    /// Time of arrival, nanoseconds since 1970.
    pub time_ns: u64,
    /// True if this host sent the frame.
    pub is_outgoing: bool,
}

impl ReceiveVersion {
    fn request(self, socket: &PacketSocket, shape: ReceiveShape) -> io::Result<()> {
        let (tp_block_size, tp_block_nr) = (shape.block_bytes, shape.blocks);
        let version = match self {
            Self::V3 => libc::tpacket_versions::TPACKET_V3,
            Self::V2 => libc::tpacket_versions::TPACKET_V2,
        };
        if shape.blocks > 0 {
            socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &(version as libc::c_int))?;
        }
        if self == Self::V2 {
            let (tp_frame_size, tp_frame_nr) = (tp_block_size, tp_block_nr);
            let request = libc::tpacket_req { tp_block_size, tp_block_nr, tp_frame_size, tp_frame_nr };
            return socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request);
        }
        let request = libc::tpacket_req3 {
            tp_block_size,
            tp_block_nr,
            // Version 3 ignores it, but it must divide the block.
            tp_frame_size: 4096,
            tp_frame_nr: (tp_block_size / 4096).saturating_mul(tp_block_nr),
            tp_retire_blk_tov: shape.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
    }

    /// Returns the offset of the status in a block, and the bytes of a frame's header, which the socket address follows.
    fn layout(self) -> (usize, usize) {
        match self {
            Self::V3 => (STATUS_AT, size_of::<libc::tpacket3_hdr>()),
            Self::V2 => {
                (std::mem::offset_of!(libc::tpacket2_hdr, tp_status), size_of::<libc::tpacket2_hdr>())
            }
        }
    }
}

/// Says what a header of version 2 says by one of version 3. No frame follows it in its block.
fn converted(header: &libc::tpacket2_hdr) -> libc::tpacket3_hdr {
    // SAFETY: `tpacket3_hdr` is plain numbers, for which zero is valid.
    let mut to: libc::tpacket3_hdr = unsafe { std::mem::zeroed() };
    (to.tp_sec, to.tp_nsec) = (header.tp_sec, header.tp_nsec);
    (to.tp_snaplen, to.tp_len) = (header.tp_snaplen, header.tp_len);
    (to.tp_status, to.tp_mac) = (header.tp_status, header.tp_mac);
    (to.hv1.tp_vlan_tci, to.hv1.tp_vlan_tpid) = (header.tp_vlan_tci.into(), header.tp_vlan_tpid);
    to
}

impl BlockRing {
    /// Makes a ring. The socket has its vnet header enabled, and is not bound yet.
    ///
    /// # Errors
    /// `EINVAL` for impossible dimensions; `ENOMEM`.
    pub fn new(socket: PacketSocket, shape: ReceiveShape) -> io::Result<Self> {
        shape.version.request(&socket, shape)?;
        let pages = socket.map_ring(shape.block_bytes as usize * shape.blocks as usize)?;
        Ok(Self { pages, socket, shape, block: 0, is_ours: false, left: 0, frame_at: 0 })
    }

    /// Makes the ring anew, on the same socket. Frames in it are lost, and so are those that arrive meanwhile.
    ///
    /// # Errors
    /// Those of [`BlockRing::new`].
    pub fn renewed(self) -> io::Result<Self> {
        let Self { pages, socket, shape, .. } = self;
        // The kernel frees no ring that is mapped.
        drop(pages);
        shape.version.request(&socket, ReceiveShape { block_bytes: 0, blocks: 0, ..shape })?;
        Self::new(socket, shape)
    }

    /// Returns the socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    fn block_start(&self) -> usize {
        self.block as usize * self.shape.block_bytes as usize
    }

    /// Returns the number of unread frames of the current block. If there are none, gives that block back and
    /// takes the next.
    #[inline]
    pub fn ready(&mut self) -> u32 {
        while self.left == 0 && self.next_block() {}
        self.left
    }

    /// Takes the next block, and returns true if there was one.
    fn next_block(&mut self) -> bool {
        let start = self.block_start();
        let status_at = start + self.shape.version.layout().0;
        if self.is_ours {
            // Release: all reads of the block are done before the kernel may write it again.
            self.pages.word(status_at).store(libc::TP_STATUS_KERNEL, Release);
            self.block = (self.block + 1) % self.shape.blocks;
            self.is_ours = false;
            return true;
        }
        // Acquire pairs with the kernel's barrier before it hands the block over.
        self.is_ours = self.pages.word(status_at).load(Acquire) & libc::TP_STATUS_USER != 0;
        if self.is_ours {
            (self.left, self.frame_at) = match self.shape.version {
                ReceiveVersion::V3 => (
                    self.pages.word(start + FRAMES_AT).load(Acquire),
                    self.pages.word(start + FIRST_AT).load(Acquire) as usize,
                ),
                ReceiveVersion::V2 => (1, 0),
            };
        }
        self.is_ours
    }

    /// Returns the header of the first unread frame; `None` if there is none, or it is not inside the block.
    #[inline]
    fn header(&self) -> Option<libc::tpacket3_hdr> {
        let room = self.shape.version.layout().1 + KIND_AT + 1;
        let fits = self.frame_at.checked_add(room)? <= self.shape.block_bytes as usize;
        if self.left == 0 || !fits || !self.frame_at.is_multiple_of(4) {
            return None;
        }
        let place = self.pages.place(self.block_start() + self.frame_at, room);
        // SAFETY: inside the mapping and aligned, as just checked. This process owns the block: nothing
        // writes it. Volatile, once: what is checked is what is used.
        Some(unsafe {
            match self.shape.version {
                ReceiveVersion::V3 => place.cast::<libc::tpacket3_hdr>().as_ptr().read_volatile(),
                ReceiveVersion::V2 => converted(&place.cast::<libc::tpacket2_hdr>().as_ptr().read_volatile()),
            }
        })
    }

    /// Returns the first unread frame: see [`BlockRing::ready`]. `None` if there is none, or it is not inside
    /// its block.
    #[inline]
    pub fn frame(&self) -> Option<Received<'_>> {
        let header = self.header()?;
        let (mac_at, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let vnet_at = mac_at.checked_sub(VNET_HEADER_BYTES)?;
        let end = self.frame_at.checked_add(mac_at)?.checked_add(len)?;
        if end > self.shape.block_bytes as usize {
            return None;
        }
        let start = self.block_start() + self.frame_at;
        let (data, vnet) =
            (self.pages.place(start + mac_at, len), self.pages.place(start + vnet_at, VNET_HEADER_BYTES));
        let kind = self.pages.place(start + self.shape.version.layout().1 + KIND_AT, 1);
        // SAFETY: all inside the block, which this process owns until `next_block` gives it back. That wants
        // `&mut self`, and these borrow `&self`: until then the kernel does not write it. Any bits are a
        // valid byte.
        let (bytes, vnet_header, kind) = unsafe {
            (
                std::slice::from_raw_parts(data.as_ptr(), len),
                vnet.cast::<[u8; VNET_HEADER_BYTES]>().as_ptr().read_volatile(),
                kind.as_ptr().read_volatile(),
            )
        };
        Some(Received {
            bytes,
            wire_bytes: header.tp_len,
            vnet_header,
            vlan: vlan(&header),
            time_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            is_outgoing: kind == libc::PACKET_OUTGOING,
        })
    }

    /// Moves on to the next frame.
    #[inline]
    pub fn advance(&mut self) {
        let next = self.header().map_or(0, |header| header.tp_next_offset as usize);
        self.frame_at = self.frame_at.saturating_add(next);
        // Without an offset of the next frame, the rest of the block is lost.
        self.left = if next == 0 { 0 } else { self.left - 1 };
        // Frames of one length lie at one distance: a processor that received them has their lines.
        let ahead = self.block_start() + self.frame_at + AHEAD_FRAMES * next;
        let place = self.pages.start().as_ptr().cast_const();
        (0..AHEAD_LINES).for_each(|line| prefetch(place.wrapping_add(ahead + line * LINE_BYTES)));
    }
}

fn vlan(header: &libc::tpacket3_hdr) -> Option<(u16, u16)> {
    let has = |bit: u32| header.tp_status & bit != 0;
    let protocol = if has(libc::TP_STATUS_VLAN_TPID_VALID) { header.hv1.tp_vlan_tpid } else { 0x8100 };
    has(libc::TP_STATUS_VLAN_VALID).then_some((protocol, header.hv1.tp_vlan_tci as u16))
}
