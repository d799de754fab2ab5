//! `Packet`: one packet that the user owns. Dropping it gives its memory back to its cache.

use super::times::{keeping_times, set_meta};
use super::whole::{no_room, prepend};
use super::{NoRoom, PagePool, PoolError};
use crate::offload::complete_frame;
use wharf_mem::{Batch, Frame, Meta};

/// An owned packet. Becomes a `Frame` as it enters the path.
///
/// The bytes of a fresh packet, and of a burst that was filled, are *uninitialised*: what an earlier packet
/// of the pool has left there, which may be another program's secret or another peer's. Write each byte
/// that is sent, or zero it (`packet.bytes_mut().fill(0)`). [`Packet::extend_back`] gives zeros.
///
/// ```
/// # use wharf_core::pool::PagePool;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = PagePool::builder().frames(64).build()?;
/// let mut packet = pool.packet(100)?;
/// packet.bytes_mut().fill(1);
/// packet.prepend(14)?.fill(2); // a header in front
/// packet.extend_back(4)?.fill(3); // a trailer
/// assert_eq!((packet.len(), packet.bytes()[13], packet.bytes()[114]), (118, 2, 3));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Packet {
    /// `None` only after `into_frame`.
    frame: Option<Frame>,
    pool: PagePool,
}

impl Packet {
    pub(crate) fn new(frame: Frame, pool: PagePool) -> Self {
        Self { frame: Some(frame), pool }
    }

    /// The packet's pool.
    pub fn pool(&self) -> &PagePool {
        &self.pool
    }

    /// Returns the packet's bytes; of a super-packet, those of all chunks.
    pub fn len(&self) -> usize {
        self.frame.as_ref().map_or(0, |frame| frame.len_bytes() as usize)
    }

    /// True if it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if it is a chain: it lies in several frames of memory. A packet that [`Packet::append`] has made
    /// longer is one, and so may be a packet that was received by a path built with `takes_chains`: a
    /// super-packet, or one longer than [`PagePool::packet_bytes_max`].
    pub fn is_chain(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| self.pool.region().is_chain(frame))
    }

    /// The packet's bytes.
    ///
    /// # Panics
    /// If it is a chain ([`Packet::is_chain`]): its bytes are [`Packet::chunks`], its headers
    /// [`Packet::head`].
    pub fn bytes(&self) -> &[u8] {
        self.frame.as_ref().and_then(|frame| self.pool.region().whole_bytes(frame)).unwrap_or_default()
    }

    /// Returns the same bytes as [`Packet::bytes`], mutable.
    ///
    /// # Panics
    /// If it is a chain.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let region = self.pool.region();
        self.frame.as_mut().and_then(|frame| region.whole_bytes_mut(frame)).unwrap_or_default()
    }

    /// The first bytes of a packet of any length: those of its first chunk, in which a device puts all
    /// headers.
    pub fn head(&self) -> &[u8] {
        self.frame.as_ref().and_then(|frame| self.pool.region().bytes(frame).ok()).unwrap_or_default()
    }

    /// Returns the same bytes as [`Packet::head`], mutable.
    pub fn head_mut(&mut self) -> &mut [u8] {
        let region = self.pool.region();
        self.frame.as_mut().and_then(|frame| region.bytes_mut(frame).ok()).unwrap_or_default()
    }

    /// All bytes, chunk by chunk: one chunk for a packet that is no chain.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.frame.as_ref().and_then(|frame| self.pool.region().chunks(frame).ok()).into_iter().flatten()
    }

    /// Returns the bytes free in front of the packet: 64 of a fresh one, unless its pool was built with others.
    pub fn headroom(&self) -> usize {
        self.frame.as_ref().and_then(|frame| self.pool.region().headroom_bytes(frame).ok()).unwrap_or(0)
    }

    /// Makes the packet longer by `bytes` at the front, in its headroom, and returns them to be written: a header to be put
    /// in front without moving the data. The place of a checksum still to be filled in moves along.
    ///
    /// A super-packet is segmented by the headers that it begins with: cut [`Packet::segments`] before a tunnel's header goes
    /// in front.
    ///
    /// # Errors
    /// [`NoRoom`] for more than [`Packet::headroom`]; nothing is changed then.
    pub fn prepend(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom> {
        let (pool, frame) = self.parts();
        prepend(pool.region(), frame, bytes)
    }

    /// Takes `bytes` off the front, which become headroom: a header that was read.
    ///
    /// # Errors
    /// [`NoRoom`] for more than the packet has; of a chain, for its whole first chunk; for bytes before which a checksum is
    /// still to be filled in. Nothing is changed then.
    pub fn trim_front(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let (pool, frame) = self.parts();
        pool.region().trim_front(frame, bytes).map_err(|error| no_room(bytes, &error))
    }

    /// Fills in the checksum that was left to the device ([`Meta::needs_checksum`]), as it is with packets received from a
    /// TAP. Returns false if it cannot: the place lies outside the first chunk. Super-packets get theirs as they are cut.
    pub fn finish_checksum(&mut self) -> bool {
        if !self.meta().needs_checksum {
            return true;
        }
        let (pool, frame) = self.parts();
        keeping_times(pool.region(), frame, |frame| complete_frame(pool.region(), frame)).unwrap_or(false)
    }

    /// Sets the length, bytes.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when it does not fit the frame, or the packet is a chain.
    pub fn set_len(&mut self, len_bytes: u32) -> Result<(), PoolError> {
        match &mut self.frame {
            Some(frame) => Ok(self.pool.region().set_len(frame, len_bytes)?),
            None => Ok(()),
        }
    }

    /// Appends `piece`, which makes it a chain ([`Packet::is_chain`]): a super-packet, or a long packet.
    ///
    /// # Errors
    /// [`PoolError::Memory`] and the piece: it is another pool's, a chain, or empty, or the sum exceeds 262 143 B.
    pub fn append(&mut self, piece: Packet) -> Result<(), (PoolError, Packet)> {
        let pool = piece.pool.clone();
        let (Some(head), tail) = (&mut self.frame, piece.into_frame()) else {
            unreachable!("a packet has a frame")
        };
        let linked = self.pool.region().link(head, tail);
        linked.map_err(|(error, tail)| (error.into(), Packet::new(tail, pool)))
    }

    /// The packet's metadata: offload requests and time stamps.
    pub fn meta(&self) -> Meta {
        self.frame.as_ref().and_then(|frame| self.pool.region().meta(frame).ok()).unwrap_or_default()
    }

    /// Sets the metadata.
    pub fn set_meta(&mut self, meta: &Meta) {
        if let Some(frame) = &mut self.frame {
            set_meta(self.pool.region(), frame, meta);
        }
    }

    /// Sets its priority, 0 to 15 as in Linux (6 interactive, 2 bulk, 0 best effort): a `prio` queue takes the
    /// band from it, in place of the packet's DSCP.
    pub fn set_priority(&mut self, priority: u8) {
        if let Some(frame) = &mut self.frame {
            crate::qdisc::set_priority(frame, priority);
        }
    }

    pub(crate) fn frame(&self) -> &Frame {
        match &self.frame {
            Some(frame) => frame,
            None => unreachable!("only into_frame takes the frame, and it consumes the packet"),
        }
    }

    pub(super) fn parts(&mut self) -> (&PagePool, &mut Frame) {
        match &mut self.frame {
            Some(frame) => (&self.pool, frame),
            None => unreachable!("only into_frame takes the frame, and it consumes the packet"),
        }
    }

    pub(crate) fn into_frame(mut self) -> Frame {
        match self.frame.take() {
            Some(frame) => frame,
            None => unreachable!("only into_frame takes the frame, and it consumes the packet"),
        }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            let mut batch = Batch::new(1);
            if batch.push(frame).is_ok() {
                // Cannot fail: the frame is of this pool.
                let _ = self.pool.give_back(&mut batch);
            }
        }
    }
}
