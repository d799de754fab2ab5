//! `Burst`: the user's batch of packets of one pool. A cache fills it, a sender sends it, and it is used again.

use super::{Packet, PacketMut, PagePool, PoolError};
use wharf_mem::{Batch, Frame, MemError};

/// Packets in order. Dropping it gives the packets inside back to the pool. The bytes of one that was just
/// filled are uninitialised: see [`Packet`].
#[derive(Debug)]
pub struct Burst {
    batch: Batch,
    pool: PagePool,
    /// The pool's number, a copy at hand.
    number: u8,
}

impl Burst {
    /// Makes an empty burst for up to `capacity` packets of `pool`, at most 256.
    pub fn new(pool: &PagePool, capacity: usize) -> Self {
        Self { batch: Batch::new(capacity), pool: pool.clone(), number: pool.region().number() }
    }

    /// Returns the number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// True if it has no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The bytes of each packet. A path gives chains only to a program that asked for them
    /// ([`RxQueue::takes_chains`](crate::rx::RxQueue::takes_chains)), which reads them by [`Burst::pop`] and
    /// [`Packet::chunks`], or [`Burst::packets_mut`].
    ///
    /// # Panics
    /// The iterator, at a chain.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        // Each frame of a burst is its pool's.
        self.batch.frames().iter().map(|frame| self.pool.region().whole_bytes(frame).unwrap_or_default())
    }

    /// The bytes of each packet, to write; for chains see [`Burst::packets_mut`].
    ///
    /// # Panics
    /// The iterator, at a chain.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.pool.region().each_bytes_mut(&mut self.batch)
    }

    /// Sets the length of the packet at `at`, bytes.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when it does not fit, or `at` is past the end.
    pub fn set_len(&mut self, at: usize, len_bytes: u32) -> Result<(), PoolError> {
        match self.packets_mut().nth(at) {
            Some(mut packet) => packet.set_len(len_bytes)?,
            None => return Err(MemError::TooLong { len_bytes, max_bytes: 0 }.into()),
        }
        self.batch.refresh();
        Ok(())
    }

    /// The packets, to change their bytes, chains too, their length, metadata or priority.
    #[inline]
    pub fn packets_mut(&mut self) -> impl DoubleEndedIterator<Item = PacketMut<'_>> + ExactSizeIterator {
        let region = self.pool.region();
        self.batch.frames_mut().iter_mut().map(|frame| PacketMut::new(frame, region))
    }

    /// Adds a packet at the back.
    ///
    /// # Errors
    /// The packet itself, if the burst is full or of another pool.
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if packet.pool().region().number() != self.pool.region().number() || self.batch.room() == 0 {
            return Err(packet);
        }
        let pool = packet.pool().clone();
        self.batch.push(packet.into_frame()).map_err(|frame| Packet::new(frame, pool))
    }

    /// Takes the first packet.
    pub fn pop(&mut self) -> Option<Packet> {
        let frame = self.batch.pop()?;
        Some(Packet::new(frame, self.pool.clone()))
    }

    /// Moves the first `count` packets to the back of `to`, of the same pool, as far as that has room.
    /// Returns their number.
    #[inline]
    #[doc(hidden)]
    pub fn move_first(&mut self, to: &mut Self, count: usize) -> usize {
        if to.number == self.number { to.batch.append(&mut self.batch, count) } else { 0 }
    }

    /// The pool of its packets.
    #[inline]
    pub fn pool(&self) -> &PagePool {
        &self.pool
    }

    /// The pool's number.
    #[inline]
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// The batch of frames. Not public: a frame of another pool would come in.
    #[inline]
    pub(crate) fn batch_mut(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Takes the first frame, which the caller gives back to the pool.
    #[inline]
    #[doc(hidden)]
    pub fn pop_frame(&mut self) -> Option<Frame> {
        self.batch.pop()
    }

    /// The frames, in order.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        self.batch.frames()
    }

    /// Empties it and makes it hold packets of `pool`.
    #[cold]
    pub(crate) fn rebind(&mut self, pool: &PagePool) {
        self.clear();
        (self.pool, self.number) = (pool.clone(), pool.region().number());
    }

    /// Gives all packets inside back to the pool.
    pub fn clear(&mut self) {
        while self.pool.give_back(&mut self.batch).is_err() {
            // `push` and caches check the pool; a faulty device does not. The ledger of the frame's own pool
            // lists it as out.
            let _lost = self.batch.pop();
        }
    }
}

/// A burst of one packet, for calls that take bursts.
impl From<Packet> for Burst {
    fn from(packet: Packet) -> Self {
        let mut burst = Self::new(packet.pool(), 1);
        let pushed = burst.push(packet);
        debug_assert!(pushed.is_ok(), "an empty burst of the packet's own pool takes it");
        burst
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a burst of three packets of a pool, of which the second is `other`'s: the work of a faulty
    /// device.
    fn mixed(pool: &PagePool, other: &PagePool) -> Burst {
        let mut burst = pool.burst(3);
        for owner in [pool, other, pool] {
            let frame = owner.packet(64).unwrap().into_frame();
            burst.batch_mut().push(frame).unwrap();
        }
        burst
    }

    #[test]
    fn frame_of_another_pool_leaves_the_others_of_its_burst_alone() {
        let pools = || PagePool::builder().frames(16).huge_pages(false).build().unwrap();
        let (pool, other) = (pools(), pools());
        drop(mixed(&pool, &other));
        assert_eq!((pool.audit().out(), other.audit().out()), (0, 1), "its own pool lists it");
        let (mut burst, mut cache) = (mixed(&pool, &other), pool.cache("test").unwrap());
        assert_eq!(cache.give_all(burst.batch_mut()), 1);
        drop(cache);
        assert_eq!((pool.audit().out(), other.audit().out()), (0, 2));
    }
}
