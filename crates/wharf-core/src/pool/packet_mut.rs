//! `PacketMut`: a packet inside a burst, to be changed there.

use super::PoolError;
use super::times::set_meta;
use wharf_mem::{Frame, Meta, Region};

/// A packet inside a [`Burst`](super::Burst), lent out to be changed. Its frame stays in the burst.
#[derive(Debug)]
pub struct PacketMut<'a> {
    pub(super) frame: &'a mut Frame,
    pub(super) region: &'a Region,
}

impl<'a> PacketMut<'a> {
    pub(super) fn new(frame: &'a mut Frame, region: &'a Region) -> Self {
        Self { frame, region }
    }

    /// Returns the packet's bytes; of a chain, those of all parts.
    pub fn len(&self) -> usize {
        self.frame.len_bytes() as usize
    }

    /// True if it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if it is a chain: see [`Packet::is_chain`](super::Packet::is_chain).
    pub fn is_chain(&self) -> bool {
        self.region.is_chain(self.frame)
    }

    /// The packet's bytes, to write.
    ///
    /// # Panics
    /// If it is a chain.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.region.whole_bytes_mut(self.frame).unwrap_or_default()
    }

    /// The first bytes of a packet of any length: see [`Packet::head`](super::Packet::head).
    pub fn head_mut(&mut self) -> &mut [u8] {
        self.region.bytes_mut(self.frame).unwrap_or_default()
    }

    /// All bytes, chunk by chunk: one chunk for a packet that is no chain.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.region.chunks(self.frame).ok().into_iter().flatten()
    }

    /// Sets the length, bytes.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when it does not fit the frame, or the packet is a chain.
    #[inline]
    pub fn set_len(&mut self, len_bytes: u32) -> Result<(), PoolError> {
        Ok(self.region.set_len(self.frame, len_bytes)?)
    }

    /// Sets the metadata.
    #[inline]
    pub fn set_meta(&mut self, meta: &Meta) {
        set_meta(self.region, self.frame, meta);
    }

    /// Sets its priority: see [`Packet::set_priority`](super::Packet::set_priority).
    pub fn set_priority(&mut self, priority: u8) {
        crate::qdisc::set_priority(self.frame, priority);
    }

    /// Sets its band, in place of a priority's.
    #[doc(hidden)]
    pub fn set_band(&mut self, band: u8) {
        self.frame.set_band(band);
    }
}
