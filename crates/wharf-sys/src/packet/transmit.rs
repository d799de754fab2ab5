//! `SlotRing`: `PACKET_TX_RING`, version 2: slots that this process fills and the kernel empties.
//!
//! This process owns a slot while its status is available. [`SlotRing::request`] hands it over. The kernel
//! looks at it only inside [`SlotRing::ring_doorbell`], in order, and gives it back when the frame has left:
//! that is a real completion. A slot that a doorbell did not take stays requested.

use super::{PacketSocket, VNET_HEADER_BYTES};
use crate::call::{Pages, kick};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const _: () = assert!(size_of::<libc::tpacket2_hdr>() == 32 && libc::TPACKET2_HDRLEN == 52);
const _: () = assert!(size_of::<libc::tpacket_req>() == 16);

/// Offset of a frame in its slot, bytes, without `PACKET_TX_HAS_OFF`: the socket address is not kept there.
const DATA_AT: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();
const STATUS_AT: usize = std::mem::offset_of!(libc::tpacket2_hdr, tp_status);
const LEN_AT: usize = std::mem::offset_of!(libc::tpacket2_hdr, tp_len);
const LINE_BYTES: usize = 64;
/// Bytes of a ring's block, a multiple of any page: a ring of ordinary frames needs few blocks.
const BLOCK_BYTES: usize = 64 << 10;

/// The owner of a slot, and its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// This process: the slot's frame has left, and it may be filled.
    Available,
    /// The kernel, which has not looked at it yet.
    Requested,
    /// The kernel, which is sending it.
    Sending,
    /// The kernel cannot send it as it is, and looks at no slot behind it.
    Refused,
}

/// A transmit ring. Each frame in it is a header of [`VNET_HEADER_BYTES`], then its bytes.
#[derive(Debug)]
pub struct SlotRing {
    pages: Pages,
    socket: PacketSocket,
    /// Offset of each slot.
    starts: Box<[u32]>,
    slot_bytes: usize,
}

impl SlotRing {
    /// Makes a ring of at least `slots` slots for frames of up to `frame_bytes`. The socket has its vnet
    /// header enabled, and is bound.
    ///
    /// # Errors
    /// `EINVAL` for 0 slots, or frames of more than 65,000 bytes; `ENOMEM`.
    pub fn new(socket: PacketSocket, slots: u32, frame_bytes: usize) -> io::Result<Self> {
        let slot_bytes = slot_bytes(frame_bytes);
        if slots == 0 || slot_bytes > BLOCK_BYTES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let per_block = (BLOCK_BYTES / slot_bytes) as u32;
        let blocks = slots.div_ceil(per_block);
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: blocks * per_block,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_TX_RING, &request)?;
        let pages = socket.map_ring(blocks as usize * BLOCK_BYTES)?;
        let start =
            |slot: u32| (slot / per_block) * BLOCK_BYTES as u32 + (slot % per_block) * slot_bytes as u32;
        let starts = (0..blocks * per_block).map(start).collect();
        Ok(Self { pages, socket, starts, slot_bytes })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Returns the number of slots: at least as many as asked for, in whole blocks. The kernel goes round all
    /// of them.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Returns the length of the longest frame, bytes.
    pub fn frame_bytes_max(&self) -> usize {
        self.slot_bytes - DATA_AT - VNET_HEADER_BYTES
    }

    #[inline]
    fn start(&self, slot: u32) -> usize {
        self.starts[slot as usize] as usize
    }

    /// Returns the owner of slot `slot`.
    #[inline]
    pub fn state(&self, slot: u32) -> SlotState {
        // Acquire pairs with the kernel's barrier before it gives a slot back: (A) in `room`.
        let status = self.pages.word(self.start(slot) + STATUS_AT).load(Acquire);
        if status & libc::TP_STATUS_WRONG_FORMAT != 0 {
            SlotState::Refused
        } else if status & libc::TP_STATUS_SENDING != 0 {
            SlotState::Sending
        } else if status & libc::TP_STATUS_SEND_REQUEST != 0 {
            SlotState::Requested
        } else {
            SlotState::Available
        }
    }

    /// Returns the bytes of slot `slot`, vnet header first, to fill; `None` unless it is available.
    #[inline]
    pub fn room(&mut self, slot: u32) -> Option<&mut [u8]> {
        if self.state(slot) != SlotState::Available {
            return None;
        }
        let len = self.slot_bytes - DATA_AT;
        let place = self.pages.place(self.start(slot) + DATA_AT, len);
        // SAFETY: (A) the slot is available: the kernel reads it only after `request`, and not before the
        // doorbell. Both borrow the ring mutably, as this slice does. Any bits are a valid byte.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), len) })
    }

    /// Requests that slot `slot`, filled with `len` bytes (vnet header included), is sent at the next
    /// doorbell.
    #[inline]
    pub fn request(&mut self, slot: u32, len: usize) {
        let start = self.start(slot);
        self.pages.word(start + LEN_AT).store(len.min(self.slot_bytes - DATA_AT) as u32, Relaxed);
        self.pages.word(start + STATUS_AT).store(libc::TP_STATUS_SEND_REQUEST, Release);
    }

    /// Takes back slot `slot`, if the kernel has not taken it, and returns true if so.
    pub fn withdraw(&mut self, slot: u32) -> bool {
        let is_ours = matches!(self.state(slot), SlotState::Requested | SlotState::Refused);
        if is_ours {
            self.pages.word(self.start(slot) + STATUS_AT).store(libc::TP_STATUS_AVAILABLE, Release);
        }
        is_ours
    }

    /// Moves the frame of slot `from`, if the kernel has not taken it, into the available slot `to`, as a
    /// request; `from` is available then. Returns true if so.
    pub fn shift(&mut self, from: u32, to: u32) -> bool {
        let len = self.pages.word(self.start(from) + LEN_AT).load(Relaxed) as usize;
        if self.state(to) != SlotState::Available || !self.withdraw(from) {
            return false;
        }
        let (source, target) = (self.start(from) + DATA_AT, self.start(to) + DATA_AT);
        let room = self.slot_bytes - DATA_AT;
        let (source, target) = (self.pages.place(source, room), self.pages.place(target, room));
        // SAFETY: this process owns both slots, as just checked. They are inside the mapping, and do not
        // overlap.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), len.min(room)) };
        self.request(to, len);
        true
    }

    /// Makes the kernel take requested slots, in order, as far as it has room.
    ///
    /// # Errors
    /// `EAGAIN` and `ENOBUFS` if it has no room now, `ENETDOWN`, `ENXIO` if the interface is gone, `EINVAL`
    /// and the like for a refused slot. Slots before the failing one were taken.
    #[inline]
    pub fn ring_doorbell(&mut self) -> io::Result<()> {
        kick(self.socket.fd())
    }
}

/// Returns the bytes of a slot: an odd number of cache lines, so that slots do not all begin in the same few
/// cache sets.
fn slot_bytes(frame_bytes: usize) -> usize {
    let lines = (DATA_AT + VNET_HEADER_BYTES + frame_bytes).div_ceil(LINE_BYTES);
    (lines | 1) * LINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_an_odd_number_of_lines_with_room_for_its_frame() {
        for frame_bytes in [60, 1514, 1522, 9018, 65_000] {
            let bytes = slot_bytes(frame_bytes);
            assert!(bytes >= frame_bytes + DATA_AT + VNET_HEADER_BYTES && bytes <= BLOCK_BYTES);
            assert_eq!(bytes / LINE_BYTES % 2, 1);
        }
    }
}
