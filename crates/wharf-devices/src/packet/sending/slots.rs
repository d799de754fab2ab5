//! `Slots`: the ring and the frame in each of its slots.
//!
//! Slots from the oldest held one up to the head are in this order: sent (available again), on their way,
//! rejected (at most one), requested. The kernel's own position in the ring is the first slot that it has not
//! taken. So the slots behind it may be withdrawn, from the head backwards, and filled again.

use super::super::header_to_send;
use std::io;
use wharf_mem::{Frame, MemError, Meta, Region};
use wharf_sys::packet::{PacketSocket, SlotRing, SlotState, VNET_HEADER_BYTES};

#[derive(Debug)]
pub(super) struct Slots {
    ring: SlotRing,
    /// The frame in each slot.
    table: Box<[Option<Frame>]>,
    /// The next slot to fill, and the number held before it.
    head: u32,
    held: u32,
    /// Frames posted, without those that were withdrawn.
    posted: u64,
}

impl Slots {
    pub(super) fn new(ring: SlotRing) -> Self {
        let table = (0..ring.slots()).map(|_| None).collect();
        Self { ring, table, head: 0, held: 0, posted: 0 }
    }

    pub(super) fn socket(&self) -> &PacketSocket {
        self.ring.socket()
    }

    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Returns the number of frames posted so far.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Returns the number of them that have been given back.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.posted - u64::from(self.held)
    }

    /// Returns the longest frame that a slot holds, bytes.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.ring.frame_bytes_max()
    }

    #[inline]
    fn after(&self, slot: u32) -> u32 {
        if slot + 1 == self.ring.slots() { 0 } else { slot + 1 }
    }

    #[inline]
    fn before(&self, slot: u32) -> u32 {
        if slot == 0 { self.ring.slots() - 1 } else { slot - 1 }
    }

    /// Returns the oldest slot held.
    #[inline]
    fn tail(&self) -> u32 {
        if self.head >= self.held { self.head - self.held } else { self.head + self.ring.slots() - self.held }
    }

    /// Writes a frame into the next slot, which must be free, and requests it.
    ///
    /// # Errors
    /// The frame is of another pool, or too long for a slot.
    #[inline]
    pub(super) fn post(&mut self, frame: Frame, region: &Region) -> Result<(), (&'static str, Frame)> {
        let len = frame.len_bytes() as usize;
        let Some((header, room)) =
            self.ring.room(self.head).and_then(|room| room.split_first_chunk_mut::<VNET_HEADER_BYTES>())
        else {
            return Err(("no-slot", frame));
        };
        let Some(room) = room.get_mut(..len) else { return Err(("too-long", frame)) };
        let copied = if frame.has_meta() {
            copy_chunks(&frame, region, header, room)
        } else {
            region.bytes(&frame).map(|bytes| {
                *header = header_to_send(len as u32, &Meta::default()).bytes();
                room.copy_from_slice(bytes);
            })
        };
        if copied.is_err() {
            return Err(("foreign-pool", frame));
        }
        self.ring.request(self.head, VNET_HEADER_BYTES + len);
        self.table[self.head as usize] = Some(frame);
        (self.head, self.held, self.posted) = (self.after(self.head), self.held + 1, self.posted + 1);
        Ok(())
    }

    /// Lets the kernel take the requested frames. Returns true if it took all.
    ///
    /// # Errors
    /// The errors of [`SlotRing::ring_doorbell`].
    #[inline]
    pub(super) fn doorbell(&mut self) -> io::Result<bool> {
        self.ring.ring_doorbell()?;
        Ok(self.held == 0 || self.ring.state(self.before(self.head)) != SlotState::Requested)
    }

    /// Returns the oldest frame, if it has left.
    #[inline]
    pub(super) fn next_sent(&mut self) -> Option<Frame> {
        if self.held == 0 {
            return None;
        }
        let tail = self.tail();
        if self.ring.state(tail) != SlotState::Available {
            return None;
        }
        self.held -= 1;
        self.table[tail as usize].take()
    }

    /// Takes back the last frame that the kernel has not taken.
    #[cold]
    pub(super) fn withdraw_last(&mut self) -> Option<Frame> {
        let last = self.before(self.head);
        if self.held == 0 || !self.ring.withdraw(last) {
            return None;
        }
        (self.head, self.held, self.posted) = (last, self.held - 1, self.posted - 1);
        self.table[last as usize].take()
    }

    /// Removes the frame that the kernel rejects; the frames behind it move up.
    #[cold]
    pub(super) fn take_refused(&mut self) -> Option<Frame> {
        let mut slot = self.tail();
        for left in (0..self.held).rev() {
            if self.ring.state(slot) != SlotState::Refused {
                slot = self.after(slot);
                continue;
            }
            self.ring.withdraw(slot);
            let refused = self.table[slot as usize].take();
            for _ in 0..left {
                let next = self.after(slot);
                let shifted = self.ring.shift(next, slot);
                debug_assert!(shifted, "slots behind a rejected one are requested");
                self.table[slot as usize] = self.table[next as usize].take();
                slot = next;
            }
            (self.head, self.held, self.posted) = (slot, self.held - 1, self.posted - 1);
            return refused;
        }
        None
    }

    /// Returns all frames still held.
    pub(super) fn into_held(mut self) -> impl Iterator<Item = Frame> {
        let tail = self.tail() as usize;
        self.table.rotate_left(tail);
        self.table.into_iter().flatten()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.table.iter().flatten().for_each(see);
    }
}

/// Writes a frame with a row in the side table: its chunks, and its requests.
#[cold]
fn copy_chunks(
    frame: &Frame, region: &Region, header: &mut [u8; VNET_HEADER_BYTES], room: &mut [u8],
) -> Result<(), MemError> {
    *header = header_to_send(frame.len_bytes(), &region.meta(frame)?).bytes();
    let mut rest = room;
    for chunk in region.chunks(frame)? {
        let (to, behind) = rest.split_at_mut(chunk.len().min(rest.len()));
        to.copy_from_slice(&chunk[..to.len()]);
        rest = behind;
    }
    Ok(())
}
