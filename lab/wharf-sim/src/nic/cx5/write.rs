//! The driver's side of a send queue: writes entries, and counts the outstanding ones.
//!
//! With multi-packet entries, packets gather in an open session. It closes if the Ethernet segment differs,
//! the packet is in pieces or wants a tag, segmentation or encryption, the entry is full, or the doorbell is
//! due. Entries are in one piece: where one might not fit before the ring's end, empty ones fill the rest.
//! (Linux `mlx5/core/en/xdp.c`, `en_tx.c`. One difference: there a session of packets inside the entry counts
//! as full once the longest would not fit; here, once the next does not.)

use super::segment::{
    BLOCK_BYTES, BLOCK_SEGMENTS, BLOCKS_MAX, Control, Ethernet, HEAD_SEGMENTS, INLINE_BYTES_MAX, Kind,
    SEGMENT_BYTES, SEGMENTS_MAX, inline_header, inline_segments,
};
use super::send_half::{NotOutstanding, Outgoing, SendHalf, Spec, WriteError};
use crate::nic::host_memory::{HostMemory, MemoryFault};
use crate::nic::ring::Ring;
use std::collections::VecDeque;

/// Outstanding packets down to which packets are written into entries, once that has begun
/// (`MLX5E_XDP_INLINE_WATERMARK_LOW`).
const INLINE_UNTIL: usize = 10;

/// The kind of entries written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Several packets per entry: `xdp_tx_mpwqe`, `skb_tx_mpwqe`.
    pub multi: bool,
    /// Outstanding packets from which on packets travel inside the entry (only with `multi`); `None` for
    /// never.
    pub inline_from: Option<usize>,
    /// True if every entry asks for a completion, not only the last before a doorbell.
    pub completion_each: bool,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    ethernet: Ethernet,
    segments: u32,
    packets: u32,
    inline: bool,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    index: u16,
    blocks: u32,
    packets: u32,
}

/// A writer of one send queue.
#[derive(Debug)]
pub struct EntryWriter {
    ring: Ring,
    /// The queue's number, 24 bits.
    queue: u32,
    mode: Mode,
    /// The start of the next or the open entry.
    next: u16,
    session: Option<Session>,
    /// The control segment of the last entry, if no doorbell was rung for it.
    unrung: Option<Control>,
    written: VecDeque<Written>,
    /// Blocks and packets outstanding, without those of the open session.
    blocks: u32,
    packets: usize,
    /// True while packets travel inside the entries.
    inline: bool,
}

impl EntryWriter {
    /// Creates a writer for this queue.
    pub fn new(ring: Ring, queue: u32, mode: Mode) -> Self {
        let written = VecDeque::with_capacity(ring.units as usize);
        Self {
            ring,
            queue,
            mode,
            next: 0,
            session: None,
            unrung: None,
            written,
            blocks: 0,
            packets: 0,
            inline: false,
        }
    }

    /// Begins as if `index` blocks had been used already: indices wrap at 2^16.
    #[must_use]
    pub fn starting_at(self, index: u16) -> Self {
        Self { next: index, ..self }
    }

    /// Returns the number of outstanding packets.
    pub fn outstanding(&self) -> usize {
        self.packets + self.session.map_or(0, |session| session.packets as usize)
    }

    fn fits(&self, blocks: u32) -> bool {
        Self::room_at(&self.ring, self.next, self.blocks, blocks)
    }

    /// True if `blocks` in one piece fit at `next`, with `used` blocks in use.
    fn room_at(ring: &Ring, next: u16, used: u32, blocks: u32) -> bool {
        let edge = ring.to_edge(next.into());
        let nops = if edge < blocks { edge } else { 0 };
        used + nops + blocks <= ring.units
    }

    /// Switches between pointers and bytes by the number of outstanding packets.
    fn watch(&mut self) {
        let outstanding = self.outstanding();
        self.inline = match self.mode.inline_from {
            Some(from) if outstanding >= from => true,
            Some(_) => self.inline && outstanding > INLINE_UNTIL,
            None => false,
        };
    }

    fn full(&self) -> WriteError {
        WriteError::Full { blocks: self.ring.units }
    }

    /// Makes sure that `blocks` are free in one piece at `next`.
    fn reserve(&mut self, blocks: u32, memory: &mut HostMemory) -> Result<(), WriteError> {
        if !self.fits(blocks) {
            return Err(self.full());
        }
        while self.ring.to_edge(self.next.into()) < blocks {
            self.write_head(Kind::Nop, Ethernet::default(), 1, 0, memory)?;
        }
        Ok(())
    }

    fn open(&mut self, ethernet: Ethernet, memory: &mut HostMemory) -> Result<(), WriteError> {
        self.reserve(BLOCKS_MAX, memory)?;
        let inline = self.inline;
        self.session = Some(Session { ethernet, segments: HEAD_SEGMENTS, packets: 0, inline });
        Ok(())
    }

    fn close(&mut self, memory: &mut HostMemory) -> Result<(), MemoryFault> {
        let Some(Session { ethernet, segments, packets, .. }) = self.session.take() else { return Ok(()) };
        if packets == 0 {
            return Ok(());
        }
        self.write_head(Kind::Multi, ethernet, segments, packets, memory)
    }

    fn push_alone(&mut self, packet: &Outgoing<'_>, memory: &mut HostMemory) -> Result<(), WriteError> {
        let pieces = packet.pieces.len();
        if !(1..=(SEGMENTS_MAX - HEAD_SEGMENTS) as usize).contains(&pieces) {
            return Err(WriteError::Pieces { pieces, most: SEGMENTS_MAX - HEAD_SEGMENTS });
        }
        self.close(memory)?;
        let segments = HEAD_SEGMENTS + pieces as u32;
        self.reserve(segments.div_ceil(BLOCK_SEGMENTS), memory)?;
        let first = self.ring.at(self.next.into()) + u64::from(HEAD_SEGMENTS) * SEGMENT_BYTES as u64;
        for (piece, at) in packet.pieces.iter().zip((first..).step_by(SEGMENT_BYTES)) {
            memory.write(at, &piece.to_segment())?;
        }
        Ok(self.write_head(Kind::Send, packet.ethernet, segments, 1, memory)?)
    }

    /// Writes control and Ethernet segment of the entry at `next`, and advances behind it.
    fn write_head(
        &mut self, kind: Kind, ethernet: Ethernet, segments: u32, packets: u32, memory: &mut HostMemory,
    ) -> Result<(), MemoryFault> {
        let completion = self.mode.completion_each && kind != Kind::Nop;
        let control = Control { kind, index: self.next, queue: self.queue, segments, completion };
        let at = self.ring.at(self.next.into());
        memory.write(at, &control.to_segment())?;
        if kind != Kind::Nop {
            memory.write(at + SEGMENT_BYTES as u64, &ethernet.to_segment())?;
        }
        let blocks = segments.div_ceil(BLOCK_SEGMENTS);
        self.written.push_back(Written { index: self.next, blocks, packets });
        self.unrung = Some(control);
        self.blocks += blocks;
        self.packets += packets as usize;
        self.next = self.next.wrapping_add(blocks as u16);
        Ok(())
    }
}

impl SendHalf for EntryWriter {
    const NAME: &'static str = "cx5";

    fn new(queue: u32, spec: &Spec, memory: &mut HostMemory) -> (Self, Ring) {
        let ring = Ring::allocate(spec.log_send_blocks, BLOCK_BYTES, memory);
        let Spec { xdp_tx_mpwqe: multi, inline_from, completion_each, .. } = *spec;
        (Self::new(ring, queue, Mode { multi, inline_from, completion_each }), ring)
    }

    fn has_room(&self) -> bool {
        if !self.mode.multi {
            return self.fits(1);
        }
        let open = self.session.map_or(0, |session| session.segments.div_ceil(BLOCK_SEGMENTS));
        Self::room_at(&self.ring, self.next.wrapping_add(open as u16), self.blocks + open, BLOCKS_MAX)
    }

    fn push(&mut self, packet: &Outgoing<'_>, memory: &mut HostMemory) -> Result<(), WriteError> {
        self.watch();
        if !(self.mode.multi && packet.pieces.len() == 1 && packet.ethernet.shares()) {
            return self.push_alone(packet, memory);
        }
        let bytes = packet.bytes.filter(|bytes| self.inline && bytes.len() <= INLINE_BYTES_MAX);
        let segments = bytes.map_or(1, |bytes| inline_segments(bytes.len()));
        let goes_on = self.session.is_some_and(|session| {
            session.ethernet == packet.ethernet
                && session.inline == self.inline
                && session.segments + segments <= SEGMENTS_MAX
        });
        if !goes_on {
            self.close(memory)?;
            self.open(packet.ethernet, memory)?;
        }
        let Some(session) = &mut self.session else { return Err(self.full()) };
        let at = self.ring.at(self.next.into()) + u64::from(session.segments) * SEGMENT_BYTES as u64;
        match bytes {
            Some(bytes) => {
                memory.write(at, &inline_header(bytes.len()))?;
                memory.write(at + 4, bytes)?;
            }
            None => memory.write(at, &packet.pieces[0].to_segment())?,
        }
        session.segments += segments;
        session.packets += 1;
        if session.segments == SEGMENTS_MAX { self.close(memory).map_err(Into::into) } else { Ok(()) }
    }

    fn ring(&mut self, memory: &mut HostMemory) -> Result<Option<u32>, MemoryFault> {
        self.close(memory)?;
        let Some(control) = self.unrung.take() else { return Ok(None) };
        let control = Control { completion: true, ..control };
        memory.write(self.ring.at(control.index.into()), &control.to_segment())?;
        Ok(Some(self.next.into()))
    }

    fn completed(&mut self, index: u16) -> Result<usize, NotOutstanding> {
        let outstanding = self.written.len();
        let found = self.written.iter().position(|written| written.index == index);
        let last = found.ok_or(NotOutstanding { index, outstanding })?;
        let mut packets = 0;
        for written in self.written.drain(..=last) {
            packets += written.packets as usize;
            self.blocks -= written.blocks;
        }
        self.packets -= packets;
        Ok(packets)
    }
}
