//! `SlotRing`: PACKET_TX_RING, version 2: slots that we fill and the kernel empties.
//!
//! A slot is ours while its status is available. [`SlotRing::request`] hands it over; the kernel looks at it only
//! inside [`SlotRing::ring_doorbell`], in order, and gives it back when the frame has left: that is a real completion.
//! What the kernel did not take in a doorbell still stands as requested.

use super::mapped::{BLOCK_BYTES, Mapped};
use super::{PacketSocket, VNET_HEADER_BYTES};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const _: () = assert!(size_of::<libc::tpacket2_hdr>() == 32 && libc::TPACKET2_HDRLEN == 52);
const _: () = assert!(size_of::<libc::tpacket_req>() == 16);

/// Where a frame begins in its slot, bytes, without PACKET_TX_HAS_OFF: the socket address is not kept there.
const DATA_AT: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();
const STATUS_AT: usize = std::mem::offset_of!(libc::tpacket2_hdr, tp_status);
const LEN_AT: usize = std::mem::offset_of!(libc::tpacket2_hdr, tp_len);
const LINE_BYTES: usize = 64;

/// Who has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// We, to fill: its frame has left.
    Available,
    /// We asked for it to be sent, and the kernel has not looked yet.
    Requested,
    /// The kernel: its frame is on its way.
    Sending,
    /// The kernel cannot send it as it is, and will look at nothing behind it.
    Refused,
}

/// A transmit ring. Each frame in it is a header of [`VNET_HEADER_BYTES`] and then its bytes.
#[derive(Debug)]
pub struct SlotRing {
    mapped: Mapped,
    /// Where each slot begins.
    starts: Box<[u32]>,
    slot_bytes: usize,
}

impl SlotRing {
    /// A ring of `slots` slots for frames of up to `frame_bytes`. The socket has its vnet header enabled, and is bound.
    ///
    /// # Errors
    /// EINVAL for a ring of no slots, or frames beyond 65 000 bytes; ENOMEM.
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
        let mapped = Mapped::new(socket, blocks as usize * BLOCK_BYTES)?;
        let start =
            |slot: u32| (slot / per_block) * BLOCK_BYTES as u32 + (slot % per_block) * slot_bytes as u32;
        let starts = (0..blocks * per_block).map(start).collect();
        Ok(Self { mapped, starts, slot_bytes })
    }

    /// The socket.
    pub fn socket(&self) -> &PacketSocket {
        self.mapped.socket()
    }

    /// Slots that there are: at least as many as asked for, in whole blocks. The kernel goes round all of them.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Longest frame, bytes.
    pub fn frame_bytes_max(&self) -> usize {
        self.slot_bytes - DATA_AT - VNET_HEADER_BYTES
    }

    #[inline]
    fn start(&self, slot: u32) -> usize {
        self.starts[slot as usize] as usize
    }

    /// Who has slot `slot`.
    #[inline]
    pub fn state(&self, slot: u32) -> SlotState {
        // Acquire pairs with the kernel's barrier before it gives a slot back: (A) in `room`.
        let status = self.mapped.word(self.start(slot) + STATUS_AT).load(Acquire);
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

    /// The bytes of slot `slot`, vnet header first, to fill; `None` while it is not ours.
    #[inline]
    pub fn room(&mut self, slot: u32) -> Option<&mut [u8]> {
        if self.state(slot) != SlotState::Available {
            return None;
        }
        let len = self.slot_bytes - DATA_AT;
        let place = self.mapped.place(self.start(slot) + DATA_AT, len);
        // SAFETY: (A) the slot is available: the kernel reads it only after `request`, and not before the doorbell;
        // both borrow the ring mutably, which this slice does already. Any bit pattern is a valid byte.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), len) })
    }

    /// Asks for slot `slot`, filled with `len` bytes (vnet header included), to be sent at the next doorbell.
    #[inline]
    pub fn request(&mut self, slot: u32, len: usize) {
        let start = self.start(slot);
        self.mapped.word(start + LEN_AT).store(len.min(self.slot_bytes - DATA_AT) as u32, Relaxed);
        self.mapped.word(start + STATUS_AT).store(libc::TP_STATUS_SEND_REQUEST, Release);
    }

    /// Takes slot `slot` back that the kernel has not taken; whether it was such a one.
    pub fn withdraw(&mut self, slot: u32) -> bool {
        let is_ours = matches!(self.state(slot), SlotState::Requested | SlotState::Refused);
        if is_ours {
            self.mapped.word(self.start(slot) + STATUS_AT).store(libc::TP_STATUS_AVAILABLE, Release);
        }
        is_ours
    }

    /// Moves the frame of slot `from`, which the kernel has not taken, into slot `to`, which is ours, as a request;
    /// `from` is ours then. Whether it was so.
    pub fn shift(&mut self, from: u32, to: u32) -> bool {
        let len = self.mapped.word(self.start(from) + LEN_AT).load(Relaxed) as usize;
        if self.state(to) != SlotState::Available || !self.withdraw(from) {
            return false;
        }
        let (source, target) = (self.start(from) + DATA_AT, self.start(to) + DATA_AT);
        let room = self.slot_bytes - DATA_AT;
        let (source, target) = (self.mapped.place(source, room), self.mapped.place(target, room));
        // SAFETY: both slots are ours, as just checked, are within the mapping, and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), len.min(room)) };
        self.request(to, len);
        true
    }

    /// Lets the kernel take what was requested, in order, as far as it has room.
    ///
    /// # Errors
    /// EAGAIN and ENOBUFS when it has none now, ENETDOWN, ENXIO when the interface is gone, and EINVAL and the like for
    /// a refused slot. Slots before the one that it failed at were taken.
    #[inline]
    pub fn ring_doorbell(&mut self) -> io::Result<()> {
        self.mapped.kick().map(drop)
    }
}

/// Whole cache lines, and an odd number of them, so that slots do not all begin in the same few sets of a cache.
fn slot_bytes(frame_bytes: usize) -> usize {
    let lines = (DATA_AT + VNET_HEADER_BYTES + frame_bytes).div_ceil(LINE_BYTES);
    (lines | 1) * LINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_their_frames_in_an_odd_number_of_lines() {
        for frame_bytes in [60, 1514, 1522, 9018, 65_000] {
            let bytes = slot_bytes(frame_bytes);
            assert!(bytes >= frame_bytes + DATA_AT + VNET_HEADER_BYTES && bytes <= BLOCK_BYTES);
            assert_eq!(bytes / LINE_BYTES % 2, 1);
        }
    }
}
